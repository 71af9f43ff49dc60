"""Everything a checkpoint holds, and nothing else."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from boltzkit.flow import Flow
from boltzkit.training.centre import LearnedCentre
from boltzkit.training.config import TrainingConfig
from boltzkit.training.gradient_norm import no_norms
from boltzkit.training.memory import Memory
from boltzkit.training.optimiser import build_optimiser

__all__ = ["TrainState"]


@dataclass
class TrainState:
    """A training in progress. `step` counts finished steps.

    Args:
        modules: the flow under ``flow`` and, where one is learned, the dispersion's centre under ``centre``.
        optimiser: its moments are part of the state.
        ema: moving averages of the flow's tensors, empty when not asked for.
        failed: failed steps so far, per replica ``(*replicas,)``.
        failed_in_a_row: the same since the last step that worked.
        left_out: samples left out of losses so far, per replica.
        norms: moments of the gradient norm since the last line of metrics, ``(*replicas, 3)``.
        evaluations: energy evaluations spent so far.
        memory: buffers that batches come from, None where they follow from the step alone.
        parts: into how many a batch is divided; more than was asked for where memory ran out. Not part of a checkpoint:
            the next machine may have more.
    """

    modules: nn.ModuleDict
    optimiser: torch.optim.Optimizer
    ema: dict[str, Tensor]
    failed: Tensor
    failed_in_a_row: Tensor
    left_out: Tensor
    norms: Tensor
    step: int = 0
    evaluations: int = 0
    memory: Memory | None = None
    parts: int = 1
    _names: list[str] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        flow: Flow,
        config: TrainingConfig,
        centre: LearnedCentre | None = None,
        memory: Memory | None = None,
    ) -> "TrainState":
        """Return the state before the first step."""
        modules = nn.ModuleDict({"flow": flow} | ({} if centre is None else {"centre": centre}))
        names = [name for name, _ in modules.named_parameters()]
        zeros = torch.zeros(flow.replicas, dtype=torch.int64)
        ema = {k: v.detach().clone() for k, v in flow.state_dict().items()} if config.ema else {}
        return cls(
            modules,
            build_optimiser(modules, config),
            ema,
            failed=zeros,
            failed_in_a_row=zeros.clone(),
            left_out=zeros.clone(),
            norms=no_norms(flow.replicas),
            memory=memory,
            _names=names,
        )

    @property
    def centre(self) -> Tensor | None:
        """The learned centre of the dispersion, ``(*replicas,)``, None where the batch mean is used."""
        return self.modules["centre"]() if "centre" in self.modules else None

    def begin_centre(self, mean: Tensor) -> None:
        """Put the learned centre where f has its mean; replicas without one keep theirs."""
        centre = self.modules["centre"]
        assert isinstance(centre, LearnedCentre)
        centre.begin(mean)

    @property
    def flow(self) -> Flow:
        """The flow being trained."""
        flow = self.modules["flow"]
        assert isinstance(flow, Flow)
        return flow

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors of the state under flat names."""
        content = {f"modules.{k}": v for k, v in self.modules.state_dict().items()}
        content |= {f"ema.{k}": v for k, v in self.ema.items()}
        for name, moments in zip(self._names, self._moments(), strict=True):
            content |= {f"optimiser.{name}.{k}": v for k, v in moments.items()}
        if self.memory is not None:
            content |= {f"memory.{k}": v for k, v in self.memory.tensors().items()}
        counts = {"failed": self.failed, "failed_in_a_row": self.failed_in_a_row, "left_out": self.left_out}
        counts["norms"] = self.norms
        return content | {f"counts.{k}": v for k, v in counts.items()}

    def learned(self) -> list[Tensor]:
        """Return the tensors that steps change in place: weights and statistics, averages, moments."""
        moments = [value for kept in self._moments() for value in kept.values()]
        return [*self.modules.state_dict().values(), *self.ema.values(), *moments]

    def load(self, tensors: dict[str, Tensor], step: int, evaluations: int) -> None:
        """Continue from the tensors of a checkpoint."""
        self.modules.load_state_dict(_under("modules.", tensors))
        # To where they were: a checkpoint is read on the CPU.
        self.ema = {name: value.to(self.ema[name]) for name, value in _under("ema.", tensors).items()}
        moments = {i: _under(f"optimiser.{name}.", tensors) for i, name in enumerate(self._names)}
        if any(moments.values()):
            state = self.optimiser.state_dict()
            self.optimiser.load_state_dict({**state, "state": moments})
        if self.memory is not None:
            self.memory.load(_under("memory.", tensors))
        counts = _under("counts.", tensors)
        self.failed, self.failed_in_a_row = counts["failed"], counts["failed_in_a_row"]
        self.left_out = counts["left_out"]
        # Checkpoints of earlier versions have none: the next line of metrics then covers fewer steps, and says so.
        self.norms = counts.get("norms", self.norms)
        self.step, self.evaluations = step, evaluations

    def _moments(self) -> list[dict[str, Any]]:
        stored = self.optimiser.state_dict()["state"]
        return [stored.get(i, {}) for i in range(len(self._names))]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
