"""Drawing ensembles from a flow, chunk by chunk.

A sample is a function of the seed, its chunk's number and the chunk's size alone; how many chunks follow
does not matter, so that a longer ensemble begins with the whole chunks of a shorter one.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from boltzkit.energy.target import Target
from boltzkit.ensemble.ensemble import Ensemble
from boltzkit.ensemble.spool import Chunk, Spool
from boltzkit.ensemble.subject import Subject
from boltzkit.errors import UserError
from boltzkit.flow.flow import Flow
from boltzkit.randomness import generator
from boltzkit.weights import LogWeights

__all__ = ["Drawing", "chunks_of", "draw", "draw_effective", "draw_into"]

Drawing = Callable[[int, float], None]
"""Called with the number of samples so far, and the effective number."""


def draw(
    flow: Flow,
    target: Target,
    n: int,
    seed: int,
    chunk: int = 10_000,
    subject: Subject | None = None,
    spool: Spool | None = None,
    watch: Drawing | None = None,
) -> Ensemble:
    """Draw n samples and weigh them; costs n energy evaluations.

    Args:
        flow: one flow, without replicas.
        target: the energy to reweight to.
        n: number of samples.
        seed: of the latent samples.
        chunk: samples per pass of the flow.
        subject: the molecule that the target is the energy of, if it is one's.
        spool: where finished chunks wait on disk for the others; none are kept without.
        watch: told after every chunk how many samples there are, and how many they are worth.
    """
    before, chunks, worth = target.evaluations, [], _Worth()
    for part in chunks_of(flow, target, n, seed, chunk, spool):
        chunks.append(part)
        worth.add(part, watch)
    return _joined(chunks, target, before, subject)


def draw_effective(
    flow: Flow,
    target: Target,
    effective: float,
    seed: int,
    limit: int,
    chunk: int = 10_000,
    subject: Subject | None = None,
    spool: Spool | None = None,
    watch: Drawing | None = None,
    least: int = 0,
) -> Ensemble:
    """Draw whole chunks until an effective number of samples is reached, or until the limit.

    The effective number is that of all samples so far: it falls again when a heavy weight turns up late.
    Whether it was reached is told by the ensemble's `shortfall`.

    Args:
        flow: one flow, without replicas.
        target: the energy to reweight to.
        effective: effective number of samples wanted.
        seed: of the latent samples.
        limit: largest number of samples, and of energy evaluations.
        chunk: samples per pass of the flow.
        subject: the molecule that the target is the energy of, if it is one's.
        spool: where finished chunks wait on disk for the others; none are kept without.
        watch: told after every chunk how many samples there are, and how many they are worth.
        least: samples to draw even if fewer are worth enough: the tail of the weights shows itself late.
    """
    if not effective > 0 or not math.isfinite(effective):
        raise UserError(f"The effective number of samples must be positive, not {effective}.")
    before, chunks, worth = target.evaluations, [], _Worth()
    for part in chunks_of(flow, target, limit, seed, chunk, spool):
        chunks.append(part)
        if worth.add(part, watch) >= effective and worth.n >= least:
            break
    return _joined(chunks, target, before, subject, effective)


class _Worth:
    """The effective number of samples so far, without a look back at all of them: running log Σw and log Σw²."""

    def __init__(self) -> None:
        self.n = 0
        self._log_sum = self._log_square = torch.tensor(-math.inf, dtype=torch.float64)

    def add(self, part: Chunk, watch: Drawing | None) -> float:
        """Count a chunk, tell who watches, and return the effective number."""
        values = LogWeights.from_samples(part[2], part[1]).values
        self.n += len(values)
        self._log_sum = torch.logaddexp(self._log_sum, torch.logsumexp(values, 0))
        self._log_square = torch.logaddexp(self._log_square, torch.logsumexp(2 * values, 0))
        some = bool(self._log_sum.isfinite())
        effective = float(torch.exp(2 * self._log_sum - self._log_square)) if some else 0.0
        if watch is not None:
            watch(self.n, effective)
        return effective


def draw_into(
    out: Path,
    flow: Flow,
    target: Target,
    seed: int,
    *,
    samples: int | None = None,
    effective: float | None = None,
    least: int = 0,
    limit: int = 0,
    subject: Subject | None = None,
    watch: Drawing | None = None,
) -> Ensemble:
    """Draw an ensemble and save it; a drawing that was stopped or killed goes on with the next chunk.

    Args:
        out: folder of the ensemble.
        flow: one flow, without replicas.
        target: the energy to reweight to.
        seed: of the latent samples.
        samples: how many to draw, or
        effective: effective number wanted.
        least: with `effective`, the smallest number of samples.
        limit: with `effective`, the largest number of samples.
        subject: the molecule that the target is the energy of, if it is one's.
        watch: told after every chunk how many samples there are, and how many they are worth.

    Raises:
        Interrupted: a stop was asked for; what is drawn so far is kept beside `out`.
    """
    about = None if subject is None else subject.summary()
    with Spool(out, flow, target.name, about, seed) as spool:
        if samples is not None:
            ensemble = draw(flow, target, samples, seed, subject=subject, spool=spool, watch=watch)
        else:
            assert effective is not None, "say how many samples"
            ensemble = draw_effective(
                flow, target, effective, seed, limit, subject=subject, spool=spool, watch=watch, least=least
            )
        ensemble.save(out)
        spool.clear()
    return ensemble


def chunks_of(
    flow: Flow, target: Target, n: int, seed: int, chunk: int, spool: Spool | None = None
) -> Iterator[Chunk]:
    """Yield n samples chunk by chunk, with their energies; see `draw` for the arguments."""
    if flow.replicas != ():
        raise UserError(f"Samples are drawn from one flow, but this one has replicas {flow.replicas}.")
    if n < 1 or chunk < 1:
        raise UserError(f"At least one sample must be drawn, but n = {n} and chunk = {chunk}.")
    for index, start in enumerate(range(0, n, chunk)):
        size = min(chunk, n - start)
        part = None if spool is None else spool.get(index, size)
        if part is not None:
            target.evaluations += size  # spent before the drawing stopped
        else:
            part = _chunk(flow, target, size, seed, index)
            if spool is not None:
                spool.put(index, part)
        yield part


@torch.no_grad()
def _chunk(flow: Flow, target: Target, size: int, seed: int, index: int) -> Chunk:
    with flow.evaluating():
        # A generator on the CPU gives the same latents whatever the flow's device.
        samples = flow.sample(size, generator(seed, "ensemble", index))
    return samples.x.cpu(), target.label(samples.x), samples.log_prob.cpu()


def _joined(
    chunks: list[Chunk], target: Target, before: int, subject: Subject | None, wanted: float | None = None
) -> Ensemble:
    x, energy, log_prob = (torch.cat(parts) for parts in zip(*chunks, strict=True))
    cost = target.evaluations - before
    return Ensemble.from_samples(x, energy, log_prob, cost, target.name, wanted, subject)
