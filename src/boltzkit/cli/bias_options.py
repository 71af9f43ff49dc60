"""What boltzkit label is told about a bias: three ways to give it, one of which at most is taken."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from boltzkit.errors import UserError

if TYPE_CHECKING:
    from boltzkit.data import FrameBias
    from boltzkit.molecule import Molecule

__all__ = ["BiasOptions"]


@dataclass(frozen=True)
class BiasOptions:
    """The options of the command line that are about a bias; `label` explains them."""

    colvar: tuple[Path, ...]
    energies: tuple[Path, ...]
    umbrella: Path | None
    column: str | None
    unit: Literal["kJ/mol", "kcal/mol", "kT"]
    group: str | None
    every: int | None
    first: int | None

    @property
    def given(self) -> bool:
        """Whether frames come with bias energies."""
        return bool(self.colvar or self.energies or self.umbrella)

    @property
    def words(self) -> str | None:
        """What the dataset says about the bias."""
        if self.umbrella is not None:
            return "harmonic umbrella windows; every frame has the bias energy of its own"
        return "a bias of the simulation; every frame has its bias energy" if self.given else None

    def refuse_mixed(self, trajectories: list[Path]) -> None:
        """Refuse options that contradict each other or mean nothing."""
        ways = {"--colvar": self.colvar, "--bias-energies": self.energies, "--umbrella": self.umbrella}
        taken = [name for name, value in ways.items() if value]
        if len(taken) > 1:
            raise UserError(f"{' and '.join(taken)} both say what the bias is: give one of them.")
        if bool(trajectories) == (self.umbrella is not None):
            raise UserError(
                "Say which trajectories to label: files, or --umbrella with a file that names them."
            )
        for name, files in (("--colvar", self.colvar), ("--bias-energies", self.energies)):
            if files and len(files) != len(trajectories):
                raise UserError(
                    f"{name} was given {len(files)} times for {len(trajectories)} trajectories: each has its own."
                )
        if not self.colvar and (self.every is not None or self.first is not None):
            raise UserError("--colvar-every and --colvar-first are about the rows of a --colvar file.")
        if not (self.colvar or self.energies) and (
            self.column is not None or self.group is not None or self.unit != "kJ/mol"
        ):
            raise UserError(
                "--bias-column, --bias-unit and --bias-group go with --colvar or --bias-energies."
            )

    def pairs(
        self, trajectories: list[Path], molecule: "Molecule", temperature: float
    ) -> "list[tuple[Path, FrameBias | None]]":
        """Return the trajectories to label, each with its bias."""
        from boltzkit.data import WindowBias, bias_from_colvar, bias_from_file, read_umbrella

        if self.umbrella is not None:
            return [
                (path, WindowBias(window)) for path, window in read_umbrella(self.umbrella, molecule.n_atoms)
            ]
        if self.energies:
            return [
                (
                    path,
                    bias_from_file(file, temperature, column=self.column, unit=self.unit, group=self.group),
                )
                for path, file in zip(trajectories, self.energies, strict=True)
            ]
        if self.colvar:
            return [
                (
                    path,
                    bias_from_colvar(
                        file,
                        path,
                        temperature,
                        column=self.column,
                        unit=self.unit,
                        every=self.every,
                        first=self.first,
                        group=self.group,
                        molecule=molecule,
                    ),
                )
                for path, file in zip(trajectories, self.colvar, strict=True)
            ]
        return [(path, None) for path in trajectories]
