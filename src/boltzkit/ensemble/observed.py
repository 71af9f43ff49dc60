"""What judging keeps of samples: log q, u and a few small observables, never all positions.

Ten million configurations of a peptide fill many gigabytes; their backbone torsions and energies fill less than one.
Samples are drawn or read chunk by chunk, looked at, and forgotten.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from boltzkit.energy.target import Target
from boltzkit.ensemble.blocks import even_blocks
from boltzkit.ensemble.other_hand import EXCHANGED, MIRROR
from boltzkit.ensemble.sampling import chunks_of
from boltzkit.ensemble.spool import Chunk
from boltzkit.flow.flow import Flow
from boltzkit.weights import LogWeights

__all__ = ["Observe", "Observed", "Tick", "observe_model"]

Observe = Callable[[Tensor], Mapping[str, Tensor]]
"""From configurations ``(n, *event)`` to observables of each, ``(n, ...)``, by name."""
Tick = Callable[[int, int], None]
"""Told how many samples of how many have been seen."""


@dataclass(frozen=True, eq=False)
class Observed:
    """Samples of a flow or of the target, without their positions.

    Attributes:
        energy: reduced, ``(n,)``, float64; NaN or ±inf where it failed.
        log_prob: log q of the flow that is judged, ``(n,)``, float64.
        observables: by name, ``(n, ...)`` each.
        block: which samples belong together, ``(n,)``, see `boltzkit.ensemble.blocks`.
    """

    energy: Tensor
    log_prob: Tensor
    observables: Mapping[str, Tensor]
    block: Tensor

    @classmethod
    def gather(
        cls,
        chunks: Iterator[Chunk],
        n: int,
        observe: Observe | None = None,
        block: Tensor | None = None,
        tick: Tick | None = None,
    ) -> Self:
        """Go through chunks of n samples in all, keeping what is small.

        Args:
            chunks: positions, reduced energies and log q of consecutive samples.
            n: how many there will be.
            observe: what to keep of positions.
            block: which samples belong together; independent by default.
            tick: told after each chunk.
        """
        energy, log_prob = (torch.empty(n, dtype=torch.float64) for _ in range(2))
        kept: dict[str, Tensor] = {}
        start = 0
        for x, u, log_q in chunks:
            rows = slice(start, start + len(u))
            energy[rows], log_prob[rows] = u, log_q
            for name, values in (observe(x) if observe is not None else {}).items():
                # Filled in place: joining chunks at the end would need the memory twice.
                kept.setdefault(name, torch.empty(n, *values.shape[1:], dtype=values.dtype))[rows] = values
            start = rows.stop
            if tick is not None:
                tick(start, n)
        return cls(energy, log_prob, kept, even_blocks(n) if block is None else block)

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.energy)

    def only(self, kept: Tensor) -> Self:
        """Return the samples of a mask, ``(n,)``."""
        block = torch.unique(self.block[kept], return_inverse=True)[1]
        observables = {name: values[kept] for name, values in self.observables.items()}
        return type(self)(self.energy[kept], self.log_prob[kept], observables, block)

    @cached_property
    def weights(self) -> LogWeights:
        """Log weights −u − log q; failed samples are weightless, and those that are so on purpose named."""
        forbidden = self.energy.isposinf()
        known = {
            key: self.observables[key] & forbidden for key in (MIRROR, EXCHANGED) if key in self.observables
        }
        return LogWeights.from_samples(self.log_prob, self.energy, known)


def observe_model(
    flow: Flow,
    target: Target,
    n: int,
    seed: int,
    observe: Observe | None = None,
    tick: Tick | None = None,
    chunk: int = 10_000,
) -> Observed:
    """Draw n samples and keep what is small; costs n energy evaluations.

    The samples are those of `boltzkit.ensemble.draw` with the same seed.
    """
    return Observed.gather(chunks_of(flow, target, n, seed, chunk), n, observe, tick=tick)
