"""boltzkit report: the page of an answer, written anew."""

from pathlib import Path

from boltzkit.cli.progress import tell
from boltzkit.errors import UserError

__all__ = ["report"]


def report(folder: Path, /, *, states: Path | None = None) -> None:
    """Write the page of an answer anew, from what its folder holds.

    Draws and trains nothing that is there already; goes on where the run stopped, if it is not finished.

    **Examples**

    ```
    boltzkit report runs/alanine-dipeptide
    boltzkit report runs/alanine-dipeptide --states states.toml
    ```

    **Files in the folder**

    - `report.html`: the page; open it in any browser
    - `analysis.json` and its tables, written anew too

    Args:
        folder: Folder of a boltzkit run.
        states: File of states to compare instead, see boltzkit analyze.
    """
    from boltzkit.run import AnswerFolder, Request, answer

    found = AnswerFolder(folder)
    request = found.stored("request.json", Request)
    if request is None:
        raise UserError(f"{folder} holds no answer: make one with boltzkit run.")
    answer(request, found, tell, states=None if states is None else str(states))
    print(f"Report: {found.report}")
