"""What a reproduction leaves behind: table.md, table.csv, pictures, report.html."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from boltzkit.report import Page, markdown_table, png
from boltzkit.reproduce.experiment import Experiment, Found
from boltzkit.reproduce.question import datasets
from boltzkit.reproduce.table import Column, Row, published_text, to_csv, to_markdown
from boltzkit.storage import write_bytes

__all__ = ["gain", "gain_without_data", "write_report"]


def write_report(experiment: Experiment, found: Sequence[Found], out: Path) -> Path:
    """Write all files and return the path of report.html."""
    rows = [one.row for one in found]
    columns = [c for c in experiment.columns if any(c.key in row.values for row in rows)]
    markdown = to_markdown(rows, columns, experiment.group_title)
    explanation = experiment.explanation + _several_datasets(found)
    text = f"# {experiment.name}\n\n{markdown}\n{explanation}\n"
    write_bytes(out / "table.md", text.encode())
    write_bytes(out / "table.csv", to_csv(rows, columns).encode())
    page = Page(experiment.title)
    page.text(experiment.summary(found))
    _add_table(page, markdown)
    page.text(explanation, note=True)
    for drawing in experiment.drawings:
        picture = drawing(found)
        if picture is not None:
            content = png(picture.figure)
            write_bytes(out / picture.name, content)
            page.picture(content, picture.caption)
    tuned = [one for one in found if one.result["tuned"] is not None]
    if tuned:
        page.heading("What the tuning chose")
        page.table(["samples", "method", "learning rate", "λ_data", ""], [_choice(one) for one in tuned])
    if experiment.published:
        page.heading("Published values, at the paper's scale")
        _add_table(page, _published(experiment.published, experiment.columns, experiment.group_title))
    page.write(out / "report.html")
    return out / "report.html"


def _several_datasets(found: Sequence[Found]) -> str:
    number = len({datasets(one.result["question"]) for one in found})
    if number < 2:
        return ""
    return f" The rows are of {number} draws of the data, which their cells name; each row is of one."


def gain(found: Sequence[Found]) -> str:
    """Return the result in one sentence for each block: the best regularised row against the same method without."""
    return _gains(
        found, "From {} samples", "The regulariser uses the energies of the samples, which are there already."
    )


def gain_without_data(found: Sequence[Found]) -> str:
    """Return the same where blocks are budgets of energy evaluations."""
    return _gains(
        found, "From {} evaluations", "The regulariser uses energies that every method has evaluated."
    )


def _gains(found: Sequence[Found], given: str, why: str) -> str:
    sentences = []
    for group in dict.fromkeys(one.row.group for one in found):
        members = [one.row for one in found if one.row.group == group and "ess" in one.row.values]
        means = {row.label: 100 * statistics.fmean(row.values["ess"]) for row in members}
        for plain in (label for label in means if "LDR" not in label):
            regularised = [label for label in means if label.startswith(f"{plain} + LDR")]
            if regularised:
                best = max(regularised, key=means.__getitem__)
                sentences.append(
                    f"{given.format(group)}, {best} reaches an effective sample size of {means[best]:.1f} %, "
                    f"{plain} alone {means[plain]:.1f} %."
                )
    return f"{' '.join(sentences)} {why}" if sentences else "The cells that are finished so far."


def _choice(one: Found) -> list[str]:
    """Return the tuned settings of a row; a rate at the end of its grid might have a better one beyond."""
    chosen, grid = one.result["tuned"], one.planned.cell.tuning
    rates = () if grid is None else grid.learning_rates
    at_end = len(rates) > 1 and chosen["learning_rate"] in (min(rates), max(rates))
    words = "at the end of its grid" if at_end else ""
    return [one.row.group, one.row.label, f"{chosen['learning_rate']:g}", f"{chosen['data_weight']:g}", words]


def _add_table(page: Page, markdown: str) -> None:
    lines = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in markdown.splitlines()]
    page.table(lines[0], [[cell.strip() for cell in line] for line in lines[2:]])


def _published(rows: Sequence[Row], columns: Sequence[Column], group_title: str) -> str:
    """Return the paper's own table: mean ± standard deviation."""
    known = [column for column in columns if any(column.key in row.paper for row in rows)]
    titles = [group_title, "method", *(column.title for column in known)]
    lines = []
    for i, row in enumerate(rows):
        group = row.group if i == 0 or rows[i - 1].group != row.group else ""
        cells = [published_text(row.paper[c.key], c.digits) if c.key in row.paper else "–" for c in known]
        lines.append([group, row.label, *cells])
    return markdown_table(titles, lines)
