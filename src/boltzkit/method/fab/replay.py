"""The batches of FAB: annealed samples in a buffer, drawn by weight, corrected for what the flow has learned since."""

import torch
from torch import Tensor

from boltzkit.energy import Target
from boltzkit.errors import UserError
from boltzkit.flow import Flow
from boltzkit.method.fab.annealed import anneal
from boltzkit.method.fab.bridge import Bridge
from boltzkit.method.fab.config import FabConfig
from boltzkit.objective import Batch
from boltzkit.randomness import generator
from boltzkit.ranks import spread_over_ranks
from boltzkit.training import Memory

__all__ = ["ReplayBatches"]

_FIELDS = ("x", "energy", "log_weight", "log_prob")


class ReplayBatches(Memory):
    """Step -> batch; part of the training's state.

    Args:
        flow: the flow in training.
        target: the counted energy.
        config: annealing and buffer.
        batch: samples per step.
        seed: of all draws.
    """

    def __init__(self, flow: Flow, target: Target, config: FabConfig, batch: int, seed: int) -> None:
        if config.first * config.annealed < batch * config.updates:
            raise UserError(
                f"FAB draws {config.updates} batches of {batch} from its buffer at a time, which starts with "
                f"{config.first * config.annealed} samples: raise fab.first."
            )
        self.flow, self.config, self.batch, self.seed = flow, config, batch, seed
        self._bridge = Bridge(flow, target)
        self.annealed = 0
        self.step = config.step
        self.accepted = 0.0
        self.failed = 0
        self._columns = dict.fromkeys(_FIELDS, torch.empty(0))
        self._chosen = torch.empty(0, dtype=torch.int64)

    def __call__(self, step: int) -> Batch:
        """Return the batch of a step; every few steps the buffer is fed, and the next batches are chosen."""
        turn = step % self.config.updates
        if turn == 0:
            while self.annealed < min(self.config.batches, self.config.first + step // self.config.updates):
                self._feed()
            self._chosen = self._choose(step)
        mine = self._chosen[turn * self.batch : (turn + 1) * self.batch]
        weights = self._refresh(mine)
        parameter = next(self.flow.parameters())
        x, energy = (self._columns[name][mine].to(parameter) for name in ("x", "energy"))
        return Batch(x, energy, weights=weights.to(parameter))

    def figures(self, flow: Flow) -> dict[str, Tensor]:
        """Return what a person watches."""
        log_weight = self._columns["log_weight"]
        share = torch.softmax(log_weight, 0)
        values = {
            "buffer": float(len(log_weight)),
            "buffer_ess": float(1 / share.square().sum()) / len(log_weight),
            "accepted": self.accepted,
            "failed_samples": float(self.failed),
            "step_size": self.step,
            "budget": float(self.config.evaluations),
        }
        return {key: torch.tensor(value, dtype=torch.float64) for key, value in values.items()}

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint needs."""
        numbers = torch.tensor([self.annealed, self.step, self.accepted, self.failed], dtype=torch.float64)
        return self._columns | {"numbers": numbers, "chosen": self._chosen}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        annealed, self.step, self.accepted, failed = tensors["numbers"].tolist()
        self.annealed, self.failed, self._chosen = int(annealed), int(failed), tensors["chosen"]
        self._columns = {name: tensors[name] for name in _FIELDS}

    def _feed(self) -> None:
        """Anneal one batch into the buffer, and adapt the step size to what was accepted."""
        own = generator(self.seed, "annealed batch", self.annealed)
        found = anneal(self._bridge, self.config, self.step, own)
        good = found.log_weight.isfinite()
        self.failed += int((~good).sum())
        most = self.config.longest * self.config.annealed
        for name in _FIELDS:
            new = getattr(found, name)[good]
            old = self._columns[name]
            self._columns[name] = new if self.annealed == 0 else torch.cat([old, new])[-most:]
        self.annealed, self.accepted = self.annealed + 1, found.accepted
        self.step *= 1.05 if found.accepted > self.config.acceptance else 1 / 1.05

    def _choose(self, step: int) -> Tensor:
        """Return samples for the next batches, without replacement, with probability ∝ w (Gumbel's trick)."""
        log_weight = self._columns["log_weight"]
        left = int(log_weight.isfinite().sum())
        if left < self.config.updates * self.batch:
            raise UserError(
                f"Of the annealed samples {self.failed:,} have no finite weight, and {left:,} are too few "
                f"for {self.config.updates} batches of {self.batch}: raise fab.first or lower fab.step."
            )
        own = generator(self.seed, "replay", step)
        uniform = torch.rand(len(log_weight), generator=own, dtype=torch.float64).clamp(min=1e-300)
        keys = log_weight - torch.log(-torch.log(uniform))
        return torch.topk(keys, self.config.updates * self.batch).indices

    @torch.no_grad()
    def _refresh(self, index: Tensor) -> Tensor:
        """Return weights (q/q_old)^(1−α) of samples, bounded, and bring their entries in the buffer up to date."""
        parameter = next(self.flow.parameters())
        with self.flow.evaluating():
            (now,) = spread_over_ranks(
                lambda x: (self.flow.log_prob(x.to(parameter)).cpu().double(),), self._columns["x"][index]
            )
        lost = ~now.isfinite()
        change = (1 - self.config.order) * (now - self._columns["log_prob"][index])
        change = torch.where(lost, -torch.inf, change)
        self._columns["log_weight"][index] += change
        self._columns["log_prob"][index] = torch.where(lost, self._columns["log_prob"][index], now)
        return change.exp().clamp(max=self.config.largest_weight)
