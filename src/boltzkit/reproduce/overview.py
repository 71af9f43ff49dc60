"""One page of all results: each table and figure of the paper, ours beside it, made from the files of the results."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from boltzkit.errors import UserError
from boltzkit.report import markdown_table
from boltzkit.reproduce import EXPERIMENTS
from boltzkit.reproduce.evidence import Evidence, Note, gather, read_note, scale_of
from boltzkit.reproduce.exhibits import EXHIBITS, EXPERIMENT_SECTIONS, ExperimentSection
from boltzkit.reproduce.experiment import Experiment
from boltzkit.reproduce.published import FLOWS, SYSTEMS, TRAINING_TIMES
from boltzkit.reproduce.study import UNREAD
from boltzkit.reproduce.table import Row, to_markdown

__all__ = ["overview"]

_PREFACE = """\
<!-- Made by `boltzkit results` from the files beside it: change those, not this page. -->

# Results

Every table and figure of the paper in the order in which they stand there, and how far we are with each. Where a table has
brackets, they hold the published number, mean ± standard deviation; a dash means that we have none yet. Most of ours are at
laptop scale: a flow of a quarter of the size, a fiftieth of the steps, a tenth of the samples. Rows of another data size or
budget stand in blocks of their own, so that no two numbers on one line differ in what they were given. Bold, as in the
paper: not significantly different from the best of its block (Welch's test, α = 0.05). ESS: of samples of the flow, with the
largest weights clipped as published; raw ESS without that; forward ESS on test samples, which alone sees missing modes.

`boltzkit results` writes this page from the folders beside it, `boltzkit results --check` tells whether it is up to date.
Experiments on molecules take a dataset, made by two commands ([how good these are](ground-truth)):

```bash
boltzkit simulate alanine-dipeptide --out data/alanine-dipeptide --samples 1200000 --seed 0 --set every=3 --set tempering.walkers=1200 --set segment=100 --set validation=0.1667
boltzkit simulate alanine-dipeptide --out data/alanine-dipeptide --samples 1200000 --split test --seed 1 --set every=3 --set tempering.walkers=1200 --set segment=100
```
"""  # noqa: E501
_FLOWS_FOLDER, _SYSTEMS_FOLDER = "benchmark-inference", "benchmark-energy"
_LONG = 60
"""Lines of a table that is named and not shown."""
_TITLES = {
    "flows": "Sizes and speeds of the flows",
    "systems": "Molecules",
    "times": "Training times",
}


def overview(root: Path) -> str:
    """Return the page for a folder of results.

    Raises:
        UserError: where there is no such folder, or a file in it cannot be read.
    """
    if not root.is_dir():
        raise UserError(f"There is no folder {root}: name the folder of the results with --root.")
    return "\n".join(_Overview(root).parts())


@dataclass(frozen=True)
class _Experiment:
    """An experiment as the results have it."""

    name: str
    section: ExperimentSection
    folder: Path
    scale: str
    ran: bool
    plan: Experiment
    evidence: Evidence

    @property
    def command(self) -> str:
        """The command that runs it, or goes on with it."""
        data = "" if self.section.data is None else f" --data data/{self.section.data}"
        return f"boltzkit reproduce {self.name} --scale {self.scale}{data} --out results/{self.folder.name}"

    @property
    def status(self) -> str:
        """How far it is, in a few words."""
        done, all_rows = len(self.evidence.results), len(self.evidence.rows)
        return f"{done} of {all_rows} rows, scale {self.scale}" if done else "not run yet"

    @property
    def rows(self) -> list[Row]:
        """Ours and the paper's, by size or budget; those of the paper's scale, where ours is another, apart."""
        own = self.evidence.rows if self.ran else ()
        theirs = [
            replace(row, group=f"{_grouped(row.group)}, published scale") for row in self.plan.published
        ]
        rows = [replace(row, group=_grouped(row.group)) for row in own] + theirs
        return sorted(
            (row for row in rows if row.values or row.paper), key=lambda row: _leading_number(row.group)
        )


class _Overview:
    """The page of one folder of results."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def experiments(self) -> dict[str, _Experiment]:
        return {name: self._experiment(name, section) for name, section in EXPERIMENT_SECTIONS.items()}

    def _experiment(self, name: str, section: ExperimentSection) -> _Experiment:
        entry = EXPERIMENTS[name]
        candidates = [self.root / name, *(self.root / f"{name}-{scale}" for scale in entry.scales)]
        folder = next((path for path in candidates if (path / "cells").is_dir()), candidates[0])
        found = scale_of(folder, entry.scales)
        scale = "laptop" if found is None else found
        plan = entry.plan(scale, UNREAD, "cpu", folder)
        evidence = gather(plan, folder)
        return _Experiment(name, section, folder, scale, found is not None, plan, evidence)

    def parts(self) -> Iterator[str]:
        yield _PREFACE
        yield from self._index()
        for experiment in self.experiments.values():
            yield from self._experiment_section(experiment)
        yield from self._flows()
        yield from self._systems()
        yield from self._times()
        yield from self._others()

    def _index(self) -> Iterator[str]:
        rows = []
        for exhibit in EXHIBITS:
            places = ", ".join(f"[{name}](#{_anchor(self._title(name))})" for name in exhibit.answered)
            states = exhibit.state or "; ".join(dict.fromkeys(map(self._status, exhibit.answered)))
            rows.append([exhibit.name, exhibit.about, places, states])
        yield markdown_table(["in the paper", "what it shows", "ours", "state"], rows)

    def _title(self, name: str) -> str:
        if name in self.experiments:
            return self.experiments[name].plan.title
        if name in _TITLES:
            return _TITLES[name]
        note = read_note(self.root / name)
        return name if note is None else note.title

    def _status(self, name: str) -> str:
        if name in self.experiments:
            return self.experiments[name].status
        if name == "times":
            known = [key for key in TRAINING_TIMES if self.experiments[key].evidence.training_minutes]
            return f"{len(known)} of {len(TRAINING_TIMES)} rows"
        folder = {"flows": _FLOWS_FOLDER, "systems": _SYSTEMS_FOLDER}.get(name, name)
        return "done" if (self.root / folder / "README.md").is_file() else "not run yet"

    def _experiment_section(self, one: _Experiment) -> Iterator[str]:
        yield f"## {one.plan.title}\n"
        names = ", ".join(exhibit.name for exhibit in EXHIBITS if one.name in exhibit.answered)
        yield f"{f'{names} of' if names else 'Beyond'} the paper. {one.section.remark}".rstrip() + "\n"
        evidence = one.evidence
        note = read_note(one.folder)
        if not evidence.results:
            yield f"**Not run yet**: `{one.command}`\n"
        else:
            yield f"```bash\n{one.command if note is None or not note.commands else note.commands}\n```\n"
            yield f"{_made(one)}\n"
        if rows := one.rows:
            columns = [
                c for c in one.plan.columns if any(c.key in row.values or c.key in row.paper for row in rows)
            ]
            yield to_markdown(rows, columns, one.plan.group_title)
        if evidence.results:
            yield from _pictures(one.folder)
        if note is not None:
            yield f"{note.reading}\n"

    def _flows(self) -> Iterator[str]:
        yield f"## {_TITLES['flows']}\n\nTable 5, Table 7 of the paper.\n"
        measured = self._csv(_FLOWS_FOLDER)
        speeds = ["samples with weights per hour, by threads", "published, A100"]
        rows = []
        for name, published in FLOWS.items():
            own = [row for row in measured if row["flow"] == name]
            size = f"{int(own[0]['parameters']):,}" if own else "–"
            speed = (
                ", ".join(f"{_scientific(float(row['samples_per_hour']))} ({row['threads']})" for row in own)
                or "–"
            )
            there = "–" if published.per_hour is None else _scientific(published.per_hour)
            rows.append([name, size, f"{published.parameters:,}", speed, there])
        yield markdown_table(["flow", "parameters", "published", *speeds], rows)
        yield from self._note(_FLOWS_FOLDER, f"boltzkit benchmark inference --out results/{_FLOWS_FOLDER}")

    def _systems(self) -> Iterator[str]:
        yield f"## {_TITLES['systems']}\n\nTable 6 of the paper. Atoms are those of the molecules that were timed.\n"
        atoms = {row["molecule"]: row["atoms"] for row in self._csv(_SYSTEMS_FOLDER)}
        yield markdown_table(
            ["name here", "atoms", "published", "sequence", "force field", "constraints"],
            ([f"`{name}`", atoms.get(name, "–"), *published] for name, published in SYSTEMS.items()),
        )

    def _times(self) -> Iterator[str]:
        yield f"## {_TITLES['times']}\n\nTable 8 of the paper: one training without its evaluation. Published on one"
        yield "A100 GPU (40 GB); ours on one thread each, beside other work; seeds of the mixture train as one batch.\n"
        rows = []
        for name, there in TRAINING_TIMES.items():
            evidence = self.experiments[name].evidence
            minutes = evidence.training_minutes
            steps = ", ".join(f"{n:,}" for n in evidence.steps) if minutes else "–"
            shown = f"{min(minutes):.0f} to {max(minutes):.0f} min" if minutes else "not run yet"
            published = f"{there.hours:.1f} h" if there.hours >= 1 else f"{60 * there.hours:.0f} min"
            given = f", {there.given}" if there.given else ""
            rows.append([there.system, there.method, steps, shown, f"{there.steps:,}{given}", published])
        head = ["system", "method", "steps", "time", "steps, published", "time, published"]
        yield markdown_table(head, rows)

    def _others(self) -> Iterator[str]:
        """Yield every other folder with a README, so that none is forgotten."""
        used = {one.folder.name for one in self.experiments.values()} | {_FLOWS_FOLDER}
        rest = sorted(path.name for path in self.root.iterdir() if path.is_dir() and path.name not in used)
        named = {name: note for name in rest if (note := read_note(self.root / name)) is not None}
        answering = {name for exhibit in EXHIBITS for name in exhibit.answered}
        for name, note in named.items():
            if name in answering:
                yield f"## {note.title}\n"
                names = ", ".join(exhibit.name for exhibit in EXHIBITS if name in exhibit.answered)
                yield f"{names} of the paper.\n"
                yield from self._whole(name, note, level=2)
        yield "## Beyond the paper\n"
        for name, note in named.items():
            if name not in answering:
                yield f"### {note.title}\n"
                yield from self._whole(name, note, level=3)

    def _whole(self, name: str, note: Note, level: int) -> Iterator[str]:
        """Yield all that a README says, its headings below one of a level, with the table and pictures beside it."""
        yield _lowered(note.body, level) + "\n"
        table = self.root / name / "table.md"
        lines = (
            [line for line in table.read_text().splitlines() if _is_tabular(line)] if table.is_file() else []
        )
        if len(lines) > _LONG:
            yield f"[The table]({name}/table.md) has {len(lines)} lines.\n"
        elif lines:
            yield "\n".join(lines).strip() + "\n"
        yield from (
            text for text in _pictures(self.root / name) if text.partition("](")[2].strip() not in note.body
        )
        yield f"Files: [results/{name}]({name}).\n"

    def _note(self, folder: str, command: str) -> Iterator[str]:
        note = read_note(self.root / folder)
        if note is None:
            yield f"**Not run yet**: `{command}`\n"
        else:
            yield f"```bash\n{note.commands}\n```\n"
            yield f"{note.reading}\n"

    def _csv(self, folder: str) -> list[Mapping[str, str]]:
        path = self.root / folder / "table.csv"
        return list(csv.DictReader(path.read_text().splitlines())) if path.is_file() else []


def _made(one: _Experiment) -> str:
    """Return how the finished rows were made, and which are missing."""
    evidence = one.evidence
    spent = f"{evidence.hours:.1f} h of work, tuning and evaluation included"
    text = f"{one.status}; seeds {evidence.seeds}; {spent}; {evidence.machines}."
    if evidence.missing:
        text += f"\n\n**Not run yet**: {', '.join(evidence.missing)}. The command goes on with them."
    if evidence.older:
        text += f"\n\nFrom before a change of settings, run anew by the command: {', '.join(evidence.older)}."
    return text


def _pictures(folder: Path) -> Iterator[str]:
    """Yield the pictures that lie in a folder itself."""
    for path in sorted(folder.glob("*.png")):
        yield f"![{path.stem.replace('_', ' ').replace('-', ' ')}]({folder.name}/{path.name})\n"


def _lowered(text: str, level: int) -> str:
    """Return a text with its headings below one of a level; comments in code are none."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    # Every other part is a block of code.
    parts[::2] = [re.sub(r"^#", "#" * level, part, flags=re.MULTILINE) for part in parts[::2]]
    return "".join(parts)


def _is_tabular(line: str) -> bool:
    """Whether a line is of a table, or a caption that ends in a colon, or empty."""
    return line.startswith("|") or line.endswith(":") or not line


def _grouped(group: str) -> str:
    """Return a block's name with its digits in groups of three, where it begins with a bare number."""
    digits, comma, rest = group.partition(",")
    return f"{int(digits):,}{comma}{rest}" if digits.isdigit() and len(digits) > 4 else group


def _leading_number(group: str) -> tuple[float, str]:
    digits = group.partition(" ")[0].replace(",", "")
    return (float(digits) if digits.isdigit() else float("inf"), group)


def _scientific(value: float) -> str:
    """Return a number with two digits: 2.8 · 10⁸."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa} · 10{str(int(exponent)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def _anchor(title: str) -> str:
    """Return a heading's anchor as GitHub and MyST make it."""
    kept = [c for c in title.lower() if c.isalnum() or c in " -_"]
    return "".join(kept).strip().replace(" ", "-")
