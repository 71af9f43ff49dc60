"""The answer to a question: an analysed ensemble with a verdict, written down."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from boltzkit.analysis import Agreement, Analysis, agreement, analyse, read_states, write_analysis
from boltzkit.ensemble import Verdict, trajectory_blocks
from boltzkit.report.molecule import write_molecule_report
from boltzkit.run.content import report_content
from boltzkit.run.folder import AnswerFolder
from boltzkit.run.judgement import judge_answer
from boltzkit.run.request import Request
from boltzkit.run.stages import Found, Tell, find
from boltzkit.storage import write_json
from boltzkit.training import Watch
from boltzkit.weights import Estimate

__all__ = ["Answer", "answer"]

_KEPT = 20_000
"""Samples of the data that the ensemble is compared with."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What was found, what it says, and whether to believe it.

    Attributes:
        found: everything that it rests on.
        analysis: the numbers.
        agreement: with data that were kept aside, if there are any.
        verdict: on all of it.
    """

    found: Found
    analysis: Analysis
    agreement: Agreement | None
    verdict: Verdict

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
    file = states or request.states
    analysis = analyse(found.ensemble, None if file is None else read_states(file, found.molecule))
    compared = _compared(found)
    verdict = judge_answer(found.ensemble, compared, found.quality, found.overlap)
    result = Answer(found, analysis, compared, verdict)
    write_analysis(analysis, folder.path)
    write_json(
        folder.path / "answer.json",
        {
            "verdict": verdict.level,
            "reasons": list(verdict.reasons),
            "agreement": None if compared is None else compared.to_json(),
            "quality": None if found.quality is None else found.quality.to_json(),
        },
    )
    write_molecule_report(report_content(found, analysis, verdict, folder), folder.report)
    return result


def _compared(found: Found) -> Agreement | None:
    """Compare the ensemble with samples that the flow has not learned from."""
    kept = None if found.data is None else found.data.split("validation")
    if kept is None or len(kept) < 2 or found.plan.method == "biased":
        return None
    index = torch.linspace(0, len(kept) - 1, min(_KEPT, len(kept))).round().long().numpy()
    block = trajectory_blocks(kept.column("trajectory", index), kept.column("frame", index))
    return agreement(found.ensemble, torch.from_numpy(kept.positions(index)), block=block)


def _shown(estimate: Estimate, scale: float = 1.0) -> str:
    values: Sequence[float] = [scale * v for v in (estimate.value, estimate.low, estimate.high)]
    return f"{values[0]:.3g} [{values[1]:.3g}, {values[2]:.3g}]"
