"""Training on biased data (the paper's Section 4.3), and the variant it names and does not try."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from boltzkit.flow import SPLINE_PRESETS, SplineFlowConfig
from boltzkit.method import EvaluationConfig, MoleculeConfig, RunConfig, fit
from boltzkit.method.biased import ImportanceConfig, ReferenceConfig
from boltzkit.method.refinement import proposal_run
from boltzkit.method.system import molecule_of
from boltzkit.reproduce.cell import Cell
from boltzkit.reproduce.experiment import Experiment, Planned
from boltzkit.reproduce.figures import by_method
from boltzkit.reproduce.keep import keep_model, without_paths
from boltzkit.reproduce.published import BIASED
from boltzkit.reproduce.report import gain
from boltzkit.reproduce.study import (
    COLUMNS,
    EXPLANATION,
    Length,
    Method,
    Scale,
    checked_dataset,
    run_of,
    tuning_of,
)
from boltzkit.reproduce.table import Row
from boltzkit.reproduce.training_figures import ramachandran, validation_curves
from boltzkit.simulate import find_protocol
from boltzkit.storage import read_json
from boltzkit.training import provenance

__all__ = ["SCALES", "BiasedScale", "biased_experiment"]

_MOLECULE = "alanine-dipeptide"
_EXPLANATION = (
    "The biased data are short trajectories from four minima; a proposal learns them by the forward KL, in the block "
    "'LDR proposal' with LDR-L1 beside it, and is the same for all rows and seeds of a block. IS samples are drawn "
    "from it and weighed: so many energy evaluations, beside those of the biased data. 'on IS': the dispersion is "
    "measured on these samples; 'on both': on a 50:50 mixture with the biased data. In the block of unbiased samples "
    "there is no importance sampling: the data term learns those few samples, and the biased data enter the "
    "dispersion alone. "
)


@dataclass(frozen=True)
class _Row(Method):
    """A method, and whether the biased data are part of its reference."""

    both: bool = False


_METHODS = {
    "forward-kl": _Row("fwd KL"),
    "ldr-l2-is": _Row("fwd KL + LDR-L2 on IS", {"dispersion": "l2"}),
    "ldr-l1-is": _Row("fwd KL + LDR-L1 on IS", {"dispersion": "l1"}),
    "ldr-l2-both": _Row("fwd KL + LDR-L2 on both", {"dispersion": "l2"}, both=True),
    "ldr-l1-both": _Row("fwd KL + LDR-L1 on both", {"dispersion": "l1"}, both=True),
}
_AFTER_LDR = {key: _METHODS[key] for key in ("forward-kl", "ldr-l1-is", "ldr-l1-both")}
_FEW = {
    "forward-kl": _Row("fwd KL"),
    "ldr-l1": _Row("fwd KL + LDR-L1", {"dispersion": "l1"}),
    "ldr-l1-biased": _Row("fwd KL + LDR-L1 with the biased data", {"dispersion": "l1"}, both=True),
}


@dataclass(frozen=True)
class BiasedScale(Scale):
    """A scale whose sizes are importance samples.

    Args:
        proposal_steps: gradient steps of the proposal.
        resampled: size of the resampled set.
        unbiased: samples of the variant without importance sampling.
        simulation: settings of the biased simulation besides its seed; the paper's by default.
    """

    proposal_steps: int = 250_000
    resampled: int = 10_000_000
    unbiased: int = 10_000
    simulation: Mapping[str, Any] = field(default_factory=dict)


SCALES = {
    "smoke": BiasedScale(
        {400: Length(6, (1.0,), rates=(1e-3,), plain_rates=(1e-3,))},
        SPLINE_PRESETS["tiny"],
        batch=40,
        seeds=(0, 1),
        weights=(0.3,),
        evaluation=EvaluationConfig(samples=400, test_samples=200),
        validation=60,
        overrides={"log_every": 1, "checkpoint_every": 3},
        proposal_steps=8,
        resampled=1_000,
        unbiased=200,
        simulation={
            "samples": 200,
            "repeats": 1,
            "segment": 25,
            "equilibration": 0.02,
            "search": {"walkers": 16, "sweeps": 4},
        },
    ),
    "laptop": BiasedScale(
        {100_000: Length(1_500, (0.3,), rates=(3.2e-4, 1e-3), plain_rates=(1e-4, 3.2e-4, 1e-3))},
        SplineFlowConfig(pairs=6, hidden=(128, 128, 128)),
        batch=512,
        seeds=(10, 11),
        weights=(0.3,),
        evaluation=EvaluationConfig(samples=1_000_000, test_samples=200_000),
        validation=20_000,
        overrides={"warm_up": 100, "clip": 100.0, "log_every": 20, "checkpoint_every": 500},
        proposal_steps=2_000,
    ),
    "paper": BiasedScale(
        {size: Length(250_000, (0.1, 1.0), (1e-4, 3.2e-4, 1e-3), (1e-4, 3.2e-4, 1e-3)) for size in BIASED},
        SPLINE_PRESETS["paper"],
        batch=1024,
        seeds=(10, 11, 12, 13),
        weights=(0.1, 0.3, 0.5, 0.7, 1.0),
        evaluation=EvaluationConfig(samples=10_000_000, test_samples=10_000_000),
        validation=50_000,
        overrides={"checkpoint_every": 5_000},
    ),
}


def biased_experiment(scale_name: str, data: Path | None, device: str, out: Path) -> Experiment:
    """Return the table at a scale; unbiased data serve for validation, tests and the variant with few of them.

    The biased simulation and the proposals are made first, in ``biased-data`` and ``models`` of the results.
    """
    scale = SCALES[scale_name]
    unbiased = checked_dataset(_MOLECULE, scale, data)
    shared = _Shared(scale, out, unbiased, device)
    rows = [
        _planned(shared, f"{size:,} IS", size, key, method, importance=True)
        for size in scale.sizes
        for key, method in _METHODS.items()
    ]
    if scale_name != "paper":
        rows += [
            _planned(shared, f"{size:,} IS, LDR proposal", size, key, method, importance=True, plain=False)
            for size in scale.sizes
            for key, method in _AFTER_LDR.items()
        ]
    few = f"{scale.unbiased:,} unbiased"
    rows += [
        _planned(shared, few, max(scale.sizes), key, method, importance=False) for key, method in _FEW.items()
    ]
    elsewhere = tuple(
        Row(f"{size:,} IS", _METHODS[key].label, {}, numbers)
        for size, by_key in BIASED.items()
        for key, numbers in by_key.items()
        if scale_name != "paper"
    )
    return Experiment(
        "Alanine dipeptide from biased data",
        f"Alanine dipeptide from biased data, scale {scale_name}",
        COLUMNS,
        "samples",
        tuple(rows),
        _EXPLANATION + EXPLANATION,
        gain,
        (by_method(COLUMNS, ("nll", "ess")), validation_curves(), ramachandran),
        elsewhere,
        longest_first=True,
        prepare=shared.prepare,
    )


@dataclass(frozen=True)
class _Shared:
    """What all rows have in common: places and settings."""

    scale: BiasedScale
    out: Path
    unbiased: Path
    device: str

    @property
    def data(self) -> Path:
        return self.out / "biased-data"

    def proposal(self, plain: bool) -> Path:
        return self.out / "models" / ("proposal" if plain else "proposal-ldr-l1")

    def prepare(self, tell: Callable[[str], None]) -> None:
        """Simulate the biased data and train the proposal, unless they are there."""
        molecule = molecule_of(MoleculeConfig(molecule=_MOLECULE))
        protocol = find_protocol("seeded")
        tell("biased data: short trajectories from minima")
        protocol.simulate(molecule, protocol.settings(dict(self.scale.simulation), 0), self.data, tell)
        for plain in (True, False) if self.scale is not SCALES["paper"] else (True,):
            self._train_proposal(plain, tell)

    def _train_proposal(self, plain: bool, tell: Callable[[str], None]) -> None:
        """Train a proposal, unless the one that is there has the same settings."""
        size = next(iter(self.scale.sizes))
        config = self.run(size, _METHODS["forward-kl"], importance=True, plain=plain)
        first = proposal_run(config.model_copy(update={"seed": 0}))
        out = self.proposal(plain)
        stored = out / "config.json"
        if stored.is_file() and read_json(stored) == without_paths(first).model_dump(mode="json"):
            return
        tell(f"{out.name}: {self.scale.proposal_steps:,} steps on the biased data")

        def watch(line: dict[str, Any], steps: int) -> None:
            if line["step"] % max(1, steps // 10) == 0:
                tell(f"{out.name}: step {line['step']} of {steps}, NLL {line['data']:.3f}")

        model, _ = fit(first, self.out / "cells" / out.name, watch)
        keep_model(model, {}, provenance(0, self.device), out)

    def run(self, size: int, method: _Row, *, importance: bool, plain: bool = True) -> RunConfig:
        """Return the training of one row, before its tuning."""
        scale, base = self.scale, run_of(_MOLECULE, self.scale, size, method, self.unbiased)
        reference = ReferenceConfig(path=str(self.data)) if method.both else None
        # The paper warms λ_LD up over a fifth of the steps here.
        warm_up = round(0.2 * scale.sizes[size].steps)
        update: dict[str, Any] = {
            "reference": reference,
            "device": self.device,
            "objective": base.objective.model_copy(update={"warm_up": warm_up}),
        }
        if not importance:
            update["data"] = base.data.model_copy(update={"samples": scale.unbiased})
            return base.model_copy(update=update)
        update["data"] = base.data.model_copy(
            update={
                "path": str(self.data),
                "validation_path": str(self.unbiased),
                "samples": 1_000_000,
                "biased": True,
            }
        )
        update["importance"] = ImportanceConfig(
            proposal=str(self.proposal(plain)),
            steps=scale.proposal_steps,
            dispersion="none" if plain else "l1",
            data_weight=1.0 if plain else 0.3,
            samples=size,
            resampled=scale.resampled,
            least_effective=0.0,
        )
        return base.model_copy(update=update)


def _planned(
    shared: _Shared, group: str, size: int, key: str, method: _Row, *, importance: bool, plain: bool = True
) -> Planned:
    config = shared.run(size, method, importance=importance, plain=plain)
    tuning = tuning_of(shared.scale, shared.scale.sizes[size], method)
    name = f"{size}-{key}" if importance else f"unbiased-{shared.scale.unbiased}-{key}"
    name = name if plain else f"after-ldr-{name}"
    keep = importance or method.both
    cell = Cell(name, f"{group} {method.label}", config, shared.scale.seeds, tuning, keep)
    paper = BIASED[size][key] if importance and plain and shared.scale is SCALES["paper"] else {}
    return Planned(group, method.label, cell, paper)
