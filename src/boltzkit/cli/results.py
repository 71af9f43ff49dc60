"""boltzkit results: one page of everything that was reproduced and measured."""

from pathlib import Path

from boltzkit.errors import UserError

__all__ = ["results"]


def results(*, root: Path = Path("results"), check: bool = False) -> None:
    """Write one page of all results: each table and figure of the paper with ours beside it.

    The page is made from the files of the results alone: finished cells, tables and the READMEs beside them, whose
    section `## Reading` (or first paragraph) it quotes. What is missing is named with the command that runs it.

    **Examples**

    ```
    boltzkit results
    boltzkit results --check
    ```

    **Files in the folder**

    - `README.md`: the page

    Args:
        root: Folder of the results.
        check: Write nothing; end with code 2 if the page is not what the files give.
    """
    from boltzkit.reproduce.overview import overview
    from boltzkit.storage import write_bytes

    page, path = overview(root), root / "README.md"
    if not check:
        write_bytes(path, page.encode())
        print(f"Written to {path}.")
    elif not path.is_file() or path.read_text() != page:
        raise UserError(f"{path} is not what the results give: write it anew with boltzkit results.")
    else:
        print(f"{path} is up to date.")
