"""boltzkit results: one page of everything that was reproduced and measured."""

from pathlib import Path

from boltzkit.errors import UserError

__all__ = ["results"]


def results(*, root: Path = Path("results"), check: bool = False) -> None:
    """Write one page of all results: each table and figure of the paper with ours beside it.

    The page is made from the files of the results alone: finished cells, tables and the READMEs beside them, whose
    section `## Reading` (or first paragraph) it quotes. What is missing is named with the command that runs it. Tables
    in those READMEs are filled with numbers of the files beside them.

    **Examples**

    ```
    boltzkit results
    boltzkit results --check
    ```

    **Files in the folder**

    - `README.md`: the page
    - `*/README.md`: the notes, their tables filled

    Args:
        root: Folder of the results.
        check: Write nothing; end with code 2 if page or tables are not what the files give.
    """
    from boltzkit.reproduce.note_tables import filled
    from boltzkit.reproduce.overview import overview
    from boltzkit.storage import write_bytes

    def settle(path: Path, text: str) -> None:
        if path.is_file() and path.read_text() == text:
            return
        if check:
            raise UserError(f"{path} is not what the results give: write it anew with boltzkit results.")
        write_bytes(path, text.encode())

    for note in sorted(root.glob("*/README.md")):
        settle(note, filled(note.read_text(), note.parent))
    page = root / "README.md"
    settle(page, overview(root))
    print(f"{page} is up to date." if check else f"Written to {page}.")
