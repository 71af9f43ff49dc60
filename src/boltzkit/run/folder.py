"""The folder of an answer: everything that led to it, so that it goes on where it stopped and can be checked."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from boltzkit.config import Config
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule, load_molecule, read_molecule, save_molecule
from boltzkit.run.request import Request
from boltzkit.storage import read_json, write_json

__all__ = ["AnswerFolder"]

C = TypeVar("C", bound=Config)

_REMARKS = "remarks.json"
"""What was ignored or chosen when the molecule's own files were read."""

_FIRST_FILES = {".lock", "molecule", ".request.json.partial"}
"""What a run that was killed before its request was complete leaves behind."""


@dataclass(frozen=True)
class AnswerFolder:
    """Where things are.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def molecule(self) -> Path:
        """The molecule, whatever files it came from."""
        return self.path / "molecule"

    @property
    def data(self) -> Path:
        """Samples to learn from."""
        return self.path / "data"

    @property
    def training(self) -> Path:
        """The run folder of the flow."""
        return self.path / "training"

    @property
    def ensemble(self) -> Path:
        """The weighted samples."""
        return self.path / "ensemble"

    @property
    def report(self) -> Path:
        """The page."""
        return self.path / "report.html"

    def open(self, request: Request) -> Molecule:
        """Create the folder or join it; return the molecule. Another request is refused."""
        stored = self.path / "request.json"
        content = json.loads(request.model_dump_json())
        if stored.is_file():
            before = read_json(stored)
            if not _same_question(request, before):
                raise UserError(
                    f"{self.path} holds the answer to another question: choose another folder with --out, or repeat "
                    "the options it was started with."
                )
            molecule = self._stored_molecule(request)
            if before != content:
                request.check_files(molecule)
                write_json(stored, content)
            return molecule
        # The molecule first: of two mistakes, the one in its name comes before the one in the folder's.
        molecule = read_molecule(request.molecule, request.forcefield, request.constraints)
        request.check_files(molecule)
        if self.path.is_dir() and {path.name for path in self.path.iterdir()} - _FIRST_FILES:
            raise UserError(
                f"{self.path} is not empty and holds no answer: choose another folder with --out."
            )
        save_molecule(molecule, self.molecule)
        write_json(self.molecule / _REMARKS, list(molecule.remarks))
        # The request last: a folder that has one has its molecule, whenever a kill came.
        write_json(stored, content)
        # As a later run reads it: files hold fewer digits, and the reference structure is minimised again.
        return self._stored_molecule(request)

    def _stored_molecule(self, request: Request) -> Molecule:
        # Not trusted: a folder may come from somebody else, and no molecule that was read once needs it.
        molecule = load_molecule(self.molecule, _name(request.molecule))
        path = self.molecule / _REMARKS
        remarks = read_json(path) if path.is_file() else []
        if not isinstance(remarks, list) or not all(isinstance(remark, str) for remark in remarks):
            raise UserError(f"{path} is damaged: remove it, and the page lacks remarks on the molecule.")
        return replace(molecule, remarks=tuple(remarks))

    def stored(self, name: str, kind: type[C]) -> C | None:
        """Return a configuration that was kept, None if there is none yet."""
        path = self.path / name
        return kind.parse(read_json(path), source=str(path)) if path.is_file() else None

    def keep(self, name: str, config: Config) -> None:
        """Keep a configuration."""
        write_json(self.path / name, json.loads(config.model_dump_json()))


def _same_question(request: Request, before: Any) -> bool:
    """Whether the ensemble would be the same; which states it is asked about afterwards may change."""
    if not isinstance(before, dict):
        return False
    return request.model_copy(update={"states": None}).is_stored_as(before | {"states": None})


def _name(text: str) -> str:
    return Path(text).stem if Path(text).suffix else text
