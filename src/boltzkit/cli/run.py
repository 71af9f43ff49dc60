"""boltzkit run: a molecule becomes an ensemble with error bars and a page to read."""

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import quote

from cyclopts import Parameter

from boltzkit.cli.figures import aligned, whole_number
from boltzkit.cli.progress import progress, tell
from boltzkit.cli.sample import NOT_TRUSTED, reweighting_rows, verdict_lines
from boltzkit.errors import UserError

if TYPE_CHECKING:
    from boltzkit.run import Answer

__all__ = ["run"]

_QUICK = 2.0
"""Minutes."""
_LONG = 100
"""Characters of a name that a folder may have."""


def run(
    molecule: str,
    /,
    *,
    out: Path | None = None,
    data: tuple[Path, ...] = (),
    minutes: float | None = None,
    quick: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    evaluations: float | None = None,
    method: Literal["auto", "sampler", "data", "biased", "cmt"] = "auto",
    temperature: float = 300.0,
    effective: int = 20_000,
    states: Path | None = None,
    forcefield: str | None = None,
    constraints: str | None = None,
    seed: int = 0,
    strict: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int | None:
    """Go from a molecule to its equilibrium ensemble, with free energies, error bars and a report.

    Prepares the molecule and checks its energies against OpenMM, chooses how to train by what there is to learn from,
    trains a flow within the time, draws samples and weights them, analyses them and writes a page. Asks nothing.
    Ctrl-C or SIGTERM saves and stops; the same command goes on where it stopped.

    **Examples**

    ```
    boltzkit run alanine-dipeptide --quick
    boltzkit run my.pdb --forcefield amber99sbildn.xml,amber99_obc.xml --minutes 60
    boltzkit run my.prmtop --forcefield OBC2 --temperature 310
    boltzkit run ACE-VAL-NME --states states.toml --out runs/val
    boltzkit run smiles:OCCO --quick
    boltzkit run my.pdb --data traj1.xtc --data traj2.xtc
    boltzkit run my.pdb --data data/metadynamics
    boltzkit run alanine-dipeptide --evaluations 1e6
    ```

    **Files in the folder**

    - `report.html`: one page to read
    - `analysis.json`: every number with its interval
    - `ensemble/`: weighted samples, topology.pdb, system.xml, summary.json
    - `training/`: the run folder of the flow, for boltzkit sample and evaluate
    - `data/`: samples that were drawn or labelled to learn from

    Args:
        molecule: Name of a molecule, PDB, mmCIF, SDF or MOL2 file, prmtop or top (coordinates beside it), a sequence
            like ACE-ALA-NME, SMILES like smiles:CCO, or a folder that boltzkit prepare wrote.
        out: Folder of the answer; runs/NAME by default.
        data: A dataset folder, or your trajectories of this molecule at this temperature. Repeat it for more. Biased
            data serve too: a folder that boltzkit label made knows their bias.
        minutes: Time for all of it; 30 by default.
        quick: Two minutes: a first honest answer for a small molecule.
        evaluations: Energy evaluations of the training, such as 1e6; given, the flow learns from the energy alone.
        method: How to train: sampler (samples of the batched sampler), data (yours), biased (yours, if they do not
            follow the Boltzmann distribution) or cmt (energy alone).
        temperature: Kelvin.
        effective: Effective samples that the ensemble shall have.
        states: File of states to compare, see boltzkit analyze.
        forcefield: OpenMM force-field files with commas between; for a prmtop the implicit solvent.
        constraints: Bonds held fixed: HBonds, AllBonds or HAngles; none by default.
        seed: Of everything that is drawn.
        strict: End with exit code 3 if the verdict is "do not trust".
    """
    if quick and minutes is not None:
        raise UserError("--quick is a time of its own: leave out --minutes.")
    from boltzkit.run import AnswerFolder, Request, answer

    request = Request.parse(
        {
            "molecule": molecule,
            "forcefield": forcefield,
            "constraints": constraints,
            "temperature": temperature,
            "data": [str(path) for path in data],
            "method": method,
            "minutes": _QUICK if quick else (30.0 if minutes is None else minutes),
            "evaluations": None if evaluations is None else whole_number(evaluations, "--evaluations"),
            "effective": effective,
            "states": None if states is None else str(states),
            "seed": seed,
        },
        source="boltzkit run",
    )
    folder = AnswerFolder(Path("runs", _folder_name(molecule)) if out is None else out)
    with progress(f"Training for {molecule}") as watch:
        found = answer(request, folder, tell, watch)
    _print(found, folder.path)
    return NOT_TRUSTED if strict and found.verdict.level == "do not trust" else None


def _folder_name(molecule: str) -> str:
    """Return the folder's name for a molecule; slashes of SMILES are no folders.

    >>> _folder_name("files/my.pdb"), _folder_name("smiles:C/C=C/C")
    ('my', 'C%2FC=C%2FC')
    """
    from boltzkit.molecule import SMILES

    if not molecule.startswith(SMILES):
        return Path(molecule).stem
    name = quote(molecule.removeprefix(SMILES), safe="()[]=#@+")
    return name if len(name) < _LONG else name[:_LONG] + sha256(name.encode()).hexdigest()[:8]


def _print(found: "Answer", folder: Path) -> None:
    print(aligned(reweighting_rows(found.found.ensemble.reweighting)))
    for title, rows in found.tables():
        print(f"\n{title}")
        print(aligned(rows))
    print()
    for line in verdict_lines(found.verdict):
        print(line)
    if found.found.ensemble.shortfall is not None:
        print(found.found.ensemble.shortfall)
    print(f"Report: {folder / 'report.html'}")
