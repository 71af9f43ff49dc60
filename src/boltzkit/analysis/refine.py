"""Unweighted frames by a Markov chain: a flow proposes far jumps, short dynamics moves nearby."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from boltzkit.data import autocorrelation_time
from boltzkit.energy import Target
from boltzkit.ensemble.sampling import draw
from boltzkit.errors import UserError
from boltzkit.flow import AugmentedFlow, Flow
from boltzkit.randomness import generator
from boltzkit.simulate import PlainSpace, Space
from boltzkit.simulate.agreement import conditional_mean
from boltzkit.simulate.moves import hamiltonian
from boltzkit.simulate.space import Evaluated
from boltzkit.weights import Estimate

__all__ = ["Local", "Refined", "refine"]

_GOAL = 0.8
"""Acceptance of local moves that the step size is adapted to while equilibrating."""
_START = 4
"""Samples of the flow for each chain, among which starting points are drawn by their weights."""


@dataclass(frozen=True)
class Local:
    """Short Hamiltonian moves between two jumps.

    Attributes:
        moves: so many; none leaves independent jumps alone.
        leaps: leapfrog steps of each, one energy with its gradient per step.
        step: first step size, adapted while equilibrating: of molecules in Cartesian coordinates in nm·√Da, which is
            1.6 times the time step in ps at 300 K.
    """

    moves: int = 1
    leaps: int = 5
    step: float = 0.01


@dataclass(frozen=True, eq=False)
class Refined:
    """Unweighted frames, and how well the chains mixed.

    Attributes:
        x: frames, ``(n, *event)``, float64, one chain after the other.
        energy: their reduced energies, ``(n,)``.
        chain: number of the chain of each, ``(n,)``.
        jump_acceptance: share of the flow's proposals that were taken.
        local_acceptance: share of the local moves that were taken; NaN without any.
        autocorrelation: frames that one independent frame is worth: the longest of the energy's and the log weight's.
        effective: frames divided by that.
        evaluations: energies that all of it cost, with starts and equilibration.
        failed_proposals: jumps whose energy or density was not a number, never taken.
        step: size of the local moves' steps in the end.
    """

    x: Tensor
    energy: Tensor
    chain: Tensor
    jump_acceptance: float
    local_acceptance: float
    autocorrelation: float
    effective: float
    evaluations: int
    failed_proposals: int
    step: float

    def expectation(self, fn: Callable[[Tensor], Tensor] | Tensor, confidence: float = 0.95) -> Estimate:
        """Return the average of a function of the configuration, or of its values, ``(n,)``.

        The error counts how frames of one chain resemble each other; intervals of a few dozen effective frames are too
        narrow.
        """
        values = fn(self.x) if callable(fn) else fn
        if values.shape != self.energy.shape:
            raise UserError(
                f"The function must give one number per frame, shape ({len(self.x)},), not {tuple(values.shape)}."
            )
        series = values.double().reshape(int(self.chain.max()) + 1, -1)
        mean, error = conditional_mean(series, torch.ones_like(series, dtype=torch.bool))
        return Estimate.symmetric(mean, error, confidence)


def refine(
    flow: Flow,
    target: Target,
    n: int,
    seed: int,
    local: Local | None = None,
    *,
    space: Space | None = None,
    chains: int = 100,
    burn_in: int = 50,
) -> Refined:
    r"""Draw unweighted frames with Metropolis–Hastings chains; asymptotically exact.

    Each sweep of a chain proposes an independent sample x' of the flow, taken with probability

    $$\min\big(1, w(x')/w(x)\big), \qquad w = e^{-u}/q,$$

    then makes a few short Hamiltonian moves, each with an accept step of its own. Both keep the Boltzmann
    distribution on the flow's support, so that averages converge to the exact ones with the length of the chains,
    whatever the flow; a poor flow makes chains slow, not wrong. Finite chains remember where they began: they start
    from samples drawn by their weights and forget `burn_in` sweeps. What neither a jump nor a short move reaches in
    that time is missing here as well.

    It costs about ``(chains · (burn_in + 4) + n) · (1 + moves · leaps)`` energy evaluations.

    Args:
        flow: one flow, without replicas.
        target: the energy.
        n: frames, at least; a multiple of the chains.
        seed: of all draws.
        local: moves between jumps; one of five steps by default.
        space: what local moves move in: the target's own coordinates by default; `CartesianSpace` for molecules, and
            `InternalSpace` for those with constrained bonds.
        chains: independent chains, moved together.
        burn_in: sweeps before the first frame, in which the step size is adapted.
    """
    if n < 1 or chains < 1 or burn_in < 0:
        raise UserError(f"Frames and chains are counted from 1, not n = {n} and chains = {chains}.")
    if space is not None and space.target is not target:
        raise UserError(
            "The space of local moves has a target of its own: make it with the target to refine for."
        )
    if isinstance(flow, AugmentedFlow) and flow.correction != "gaussian":
        raise UserError(
            "Samples of this flow carry the χ₃ correction of their centre, which is no density that chains could jump "
            "by: build the flow with correction=gaussian."
        )
    chains = min(chains, n)
    before = target.evaluations
    walk = _Walk.start(flow, target, chains, seed, local or Local(), space or PlainSpace(target))
    for _ in range(burn_in):
        walk.sweep(adapt=True)
    walk.require_local_moves()
    walk.forget_counts()
    found = []
    for _ in range(-(-n // chains)):
        walk.sweep(adapt=False)
        found.append((walk.space.positions(walk.at.y[0]).double(), walk.at.energy[0], walk.log_weight))
    x, energy, log_weight = (torch.stack(parts, dim=1) for parts in zip(*found, strict=True))
    time = max(autocorrelation_time(energy), autocorrelation_time(log_weight))
    return Refined(
        x.flatten(0, 1),
        energy.flatten(),
        torch.arange(chains).repeat_interleave(len(found)),
        walk.rate("jump"),
        walk.rate("local"),
        time,
        energy.numel() / time,
        target.evaluations - before,
        walk.failed,
        float(walk.step),
    )


def accepted(log_ratio: Tensor, random: torch.Generator) -> Tensor:
    """Return which proposals are taken, with probability min(1, e^log_ratio); never one that is no number."""
    draw = torch.rand(log_ratio.shape, generator=random, dtype=torch.float64)
    return draw.log() < log_ratio


@dataclass
class _Walk:
    """All chains at one moment. Walkers lead with ``(1, chains)``, as moves at one temperature take them."""

    flow: Flow
    space: Space
    local: Local
    seed: int
    at: Evaluated
    log_prob: Tensor
    step: Tensor
    sweeps: int = 0
    failed: int = 0
    counts: dict[str, list[float]] = field(default_factory=dict)
    left_support: int = 0

    @classmethod
    def start(cls, flow: Flow, target: Target, chains: int, seed: int, local: Local, space: Space) -> "_Walk":
        """Place chains on samples of the flow, drawn by their weights."""
        first = draw(flow, target, _START * chains, seed)
        picked = first.weights.resample(chains, generator(seed, "refine start"))
        y = space.coordinates(first.x[picked].double())
        step = torch.full((1, 1), local.step, dtype=torch.float64)
        return cls(flow, space, local, seed, space.evaluate(y[None]), first.log_prob[picked], step)

    @property
    def log_weight(self) -> Tensor:
        """The log weight of where the chains are, ``(chains,)``."""
        return -self.at.energy[0] - self.log_prob

    @torch.no_grad()
    def sweep(self, adapt: bool) -> None:
        random = generator(self.seed, "refine", self.sweeps)
        self._jump(random)
        for _ in range(self.local.moves):
            self._move(random, adapt)
        self.sweeps += 1

    def _jump(self, random: torch.Generator) -> None:
        chains = len(self.log_prob)
        with self.flow.evaluating():
            samples = self.flow.sample(chains, random)
        new = self.space.evaluate(self.space.coordinates(samples.x.cpu().double())[None])
        log_prob = samples.log_prob.cpu().double()
        log_weight = -new.energy[0] - log_prob
        self.failed += int((~log_weight.isfinite()).sum())
        # An infinite weight would be taken and never left again.
        taken = accepted(log_weight - self.log_weight, random) & log_weight.isfinite()
        self.at = new.where(taken[None], self.at)
        self.log_prob = torch.where(taken, log_prob, self.log_prob)
        self._count("jump", taken)

    def _move(self, random: torch.Generator, adapt: bool) -> None:
        beta = torch.ones(1, 1, dtype=torch.float64)
        moved = hamiltonian(self.at, self.space, beta, self.step, self.local.leaps, random)
        if isinstance(self.flow, AugmentedFlow):
            # Local moves know no place: the centre is drawn anew from the law that the flow's weights assume.
            y, augmentation = moved.walkers.y, self.flow.augmentation
            noise = torch.randn(*y.shape[:-2], 1, 3, generator=random, dtype=y.dtype)
            placed = y - y.mean(-2, keepdim=True) + augmentation.sigma * noise
            moved = moved._replace(walkers=moved.walkers._replace(y=placed))
        parameter = next(self.flow.parameters())
        with self.flow.evaluating():
            x = self.space.positions(moved.walkers.y[0])
            log_prob = self.flow.log_prob(x.to(parameter)).cpu().double()
        # Outside its support the flow could never jump again: the chain stays on it.
        inside = log_prob.isfinite()
        self.left_support += int((moved.accepted[0] & ~inside).sum())
        taken = moved.accepted[0] & inside
        self.at = moved.walkers.where(taken[None], self.at)
        self.log_prob = torch.where(taken, log_prob, self.log_prob)
        self._count("local", taken)
        if adapt:
            self.step = self.step * torch.exp(0.5 * (taken.double().mean() - _GOAL))

    def _count(self, kind: str, taken: Tensor) -> None:
        self.counts.setdefault(kind, []).append(float(taken.double().mean()))

    def rate(self, kind: str) -> float:
        """Return the acceptance of one kind of move."""
        rates = self.counts.get(kind, [])
        return sum(rates) / len(rates) if rates else float("nan")

    def forget_counts(self) -> None:
        """Begin to count anew after equilibration."""
        self.counts, self.failed = {}, 0

    def require_local_moves(self) -> None:
        """Refuse local moves that all leave the flow's support, as those of constrained bonds do."""
        if self.left_support and not sum(self.counts.get("local", [])):
            raise UserError(
                "Every local move left the support of the flow: a molecule with constrained bonds moves in its "
                "internal coordinates, space=InternalSpace(…)."
            )
