"""Tables as text: CSV for programs, markdown for people."""

import csv
import io
from collections.abc import Iterable, Sequence

__all__ = ["csv_text", "markdown_table"]

_RULES = {"l": "---", "r": "---:"}


def csv_text(head: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    r"""Return the lines of a CSV file, its names first; what holds a comma, a quote or a new line is quoted.

    >>> csv_text(["flow", "parameters"], [["RealNVP, small", 12]])
    'flow,parameters\n"RealNVP, small",12\n'
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return buffer.getvalue()


def markdown_table(head: Sequence[str], rows: Iterable[Iterable[object]], align: str = "") -> str:
    """Return a table in markdown, its last line ended; cells stand as they are, so that they may hold markdown.

    Args:
        head: titles, which may be empty.
        rows: cells, one for each title.
        align: ``l`` or ``r`` for each column; all ``l`` if not given.

    >>> print(markdown_table(["atoms", "22"], [["energy", 1.5]], align="lr"), end="")
    | atoms | 22 |
    |---|---:|
    | energy | 1.5 |
    """
    lines = [
        "|" + "".join(f" {title} |" if title else " |" for title in head),
        "|" + "".join(f"{_RULES[side]}|" for side in align or "l" * len(head)),
        *("| " + " | ".join(map(str, row)) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"
