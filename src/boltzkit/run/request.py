"""What a person asks for: a molecule, what there is to learn from, and how much time there is."""

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from boltzkit.analysis import read_states
from boltzkit.config import Config
from boltzkit.data import Dataset
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule

__all__ = ["METHODS", "Request"]

Method = Literal["auto", "sampler", "data", "biased", "cmt"]
METHODS: dict[str, str] = {
    "sampler": "samples of the batched sampler, learned with LDR",
    "data": "your samples, learned with LDR",
    "biased": "your biased samples, by importance samples of a flow that learned them, with LDR on both",
    "cmt": "the energy alone, by constrained mass transport with LDR",
}
"""Ways to train, and how messages call them."""


class Request(Config):
    """Everything that decides the answer, besides the molecule's files."""

    molecule: str
    """Name of a molecule, a structure file, a prmtop, a folder, a sequence such as ACE-ALA-NME, or smiles:CCO."""
    forcefield: str | None = None
    """OpenMM force-field files with commas between; of a prmtop the implicit solvent."""
    constraints: str | None = None
    """Bonds held fixed: HBonds, AllBonds or HAngles."""
    temperature: PositiveFloat = 300.0
    """Kelvin."""
    data: tuple[str, ...] = ()
    """A dataset folder, or trajectories of the molecule at this temperature."""
    method: Method = "auto"
    """How the flow is trained."""
    minutes: PositiveFloat = 30.0
    """Time for all of it."""
    evaluations: PositiveInt | None = None
    """Energy evaluations of the training; given, the flow learns from the energy alone."""
    effective: PositiveInt = 20_000
    """Effective samples that the ensemble shall have."""
    states: str | None = None
    """A file of states to compare."""
    seed: int = Field(0, ge=0)
    """Of everything that is drawn."""

    def check_files(self, molecule: Molecule) -> None:
        """Refuse files that are not there or do not fit, before anything is done."""
        if self.states is not None:
            read_states(self.states, molecule)
        folders = [path for path in self.data if Path(path).is_dir()]
        missing = [path for path in self.data if not Path(path).exists()]
        if missing:
            raise UserError(f"There is no file or dataset {missing[0]}.")
        if folders and len(self.data) > 1:
            raise UserError(
                f"--data takes one dataset folder, or trajectories: {folders[0]} is a folder among others."
            )
        for folder in folders:
            Dataset.open(folder, molecule)
