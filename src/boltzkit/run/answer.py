"""The answer to a question: an analysed ensemble with a verdict, written down."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from boltzkit.analysis import (
    Agreement,
    Analysis,
    Bridge,
    analyse,
    bridge,
    compare_with,
    read_states,
    spread_frames,
    write_analysis,
)
from boltzkit.data import Dataset
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.ensemble import Verdict, trajectory_blocks
from boltzkit.report.molecule import write_molecule_report
from boltzkit.run.content import report_content
from boltzkit.run.folder import AnswerFolder
from boltzkit.run.judgement import findings_of
from boltzkit.run.request import Request
from boltzkit.run.stages import Found, Tell, find
from boltzkit.storage import write_json
from boltzkit.training import Watch
from boltzkit.weights import Estimate

__all__ = ["Answer", "answer"]

_ALONE = "There were no unbiased data to compare with; a basin that the flow never visits leaves no trace in weights."
_CHUNK = 4096
_OUTSIDE = 0.01
"""Share of the data outside of the flow's support above which they are not bridged: other labels of equivalent atoms
would count as missed."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What was found, what it says, and whether to believe it.

    Attributes:
        found: everything that it rests on.
        analysis: the numbers.
        agreement: with data, if there are any that it can be compared with.
        bridge: log Z from samples of the flow and such data together.
    """

    found: Found
    analysis: Analysis
    agreement: Agreement | None
    bridge: Bridge | None

    @property
    def verdict(self) -> Verdict:
        """On all of it."""
        return self.found.ensemble.verdict

    def tables(self) -> list[tuple[str, list[tuple[str, ...]]]]:
        """Return the populations and free energies of all states, in words."""
        rows: list[tuple[str, ...]] = [("state", "population / %", "ΔF / kT", "against")]
        for state in self.analysis.states:
            difference = "none" if state.free_energy is None else _shown(state.free_energy)
            if state.name == state.reference:
                difference = "0"
            rows.append((state.name, _shown(state.population, 100), difference, state.reference))
        return [("States", rows)] if len(rows) > 1 else []


def answer(
    request: Request,
    folder: AnswerFolder,
    tell: Tell,
    watch: Watch | None = None,
    states: str | None = None,
) -> Answer:
    """Go from a question to its answer, or go on with it: the ensemble, its analysis and the report.

    Args:
        request: the question.
        folder: where everything is kept.
        tell: told what happens.
        watch: follows the training.
        states: a file of states to compare; the request's by default.
    """
    found = find(request, folder, tell, watch)
    tell("analysing the ensemble")
    split, kept = _comparable(found)
    compared = None if split is None else compare_with(found.ensemble, split)
    # Data that the flow has learned by heart would overlap with it too well.
    both = _bridge(found, split) if split is not None and kept else None
    data = "data that were kept aside" if kept else "the data that it learned from"
    findings = findings_of(found.ensemble, compared, found.quality, found.overlap, bridge=both, data=data)
    if compared is None:
        findings += (("trust", _ALONE),)
    # Whoever opens the ensemble alone is told the same.
    found = replace(found, ensemble=replace(found.ensemble, findings=findings))
    write_json(folder.ensemble / "summary.json", found.ensemble.summary())
    file = states or request.states
    analysis = analyse(found.ensemble, None if file is None else read_states(file, found.molecule))
    result = Answer(found, analysis, compared, both)
    write_analysis(analysis, folder.path)
    write_json(
        folder.path / "answer.json",
        {
            "verdict": result.verdict.level,
            "reasons": list(result.verdict.reasons),
            "agreement": None if compared is None else compared.to_json(),
            "bridge": None if both is None else both.to_json(),
            "quality": None if found.quality is None else found.quality.to_json(),
        },
    )
    write_molecule_report(report_content(found, analysis, both, folder), folder.report)
    return result


def _comparable(found: Found) -> tuple[Dataset | None, bool]:
    """Return unbiased data to compare with, if there are any, and whether they were kept aside."""
    if found.data is None or found.plan.method == "biased":
        return None, False
    kept, learned = found.data.split("validation"), found.data.split("train")
    if len(kept) > 1:
        return kept, True
    return (learned if len(learned) > 1 else None), False


def _bridge(found: Found, split: Dataset) -> Bridge | None:
    """Return log Z from both sides; None where the flow has no density on some of the data."""
    index = spread_frames(split)
    x = torch.from_numpy(split.positions(index))
    log_prob = torch.cat([found.model.log_prob(part) for part in torch.split(x, _CHUNK)])
    if int(log_prob.isneginf().sum()) > _OUTSIDE * len(index):
        return None
    energy = torch.from_numpy(split.energy(index)) / (BOLTZMANN * found.request.temperature)
    block = trajectory_blocks(split.column("trajectory", index), split.column("frame", index))
    return bridge(found.ensemble, log_prob, energy, block)


def _shown(estimate: Estimate, scale: float = 1.0) -> str:
    values: Sequence[float] = [scale * v for v in (estimate.value, estimate.low, estimate.high)]
    return f"{values[0]:.3g} [{values[1]:.3g}, {values[2]:.3g}]"
