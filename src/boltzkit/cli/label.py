"""boltzkit label: trajectories of any engine become a dataset."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from boltzkit.cli.bias_options import BiasOptions
from boltzkit.cli.figures import aligned, number
from boltzkit.cli.progress import tell
from boltzkit.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from boltzkit.data import FrameBias, LabelResult
    from boltzkit.molecule import Molecule

__all__ = ["label"]

Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
Files = Annotated[tuple[Path, ...], Parameter(negative=(), show_default=False)]
"""One file each time the option is given."""


def label(
    trajectories: list[Path] | None = None,
    /,
    *,
    out: Path,
    topology: Path | None = None,
    molecule: str | None = None,
    forcefield: str | None = None,
    constraints: str | None = None,
    temperature: float = 300.0,
    split: Literal["train", "validation", "test"] = "train",
    energies: Path | None = None,
    ignore_energies: Flag = False,
    forces: Flag = False,
    bias: str | None = None,
    colvar: Files = (),
    bias_energies: Files = (),
    bias_column: str | None = None,
    bias_unit: Literal["kJ/mol", "kcal/mol", "kT"] = "kJ/mol",
    bias_group: str | None = None,
    colvar_every: int | None = None,
    colvar_first: int | None = None,
    umbrella: Path | None = None,
    workers: int = 1,
    dask: str | None = None,
    timeout: float | None = None,
) -> None:
    """Turn trajectories of any engine into a dataset with energies.

    Energies are computed anew for every frame, of the unbiased potential. Frames that fail are left out, counted and
    named in the manifest. Units, atoms and their order are checked by bond lengths; energies that came with the
    frames are compared up to a constant and a unit. Each file is one trajectory, and all of it goes to one split:
    neighbours in time are alike, so a split through a trajectory would test on what was trained on.

    The same command again goes on where it stopped and stores nothing twice; other files are added to the same
    folder in the same way.

    Of a biased simulation the bias energy of every frame is stored too: read from PLUMED's COLVAR file or a plain
    file, or computed from the positions for umbrella windows. How rows and frames were matched is told; what is
    ambiguous is refused. At the end a sentence says what the frames are good for.

    **Examples**

    ```
    boltzkit label traj.xtc --topology my.pdb --out data
    boltzkit label run1.dcd run2.dcd --molecule alanine-dipeptide --out data
    boltzkit label run3.dcd --molecule alanine-dipeptide --out data --split validation
    boltzkit label traj.npz --topology my.pdb --forcefield amber14-all.xml,implicit/gbn2.xml --out data
    boltzkit label traj.h5 --topology my.pdb --energies log.csv --forces --out data
    boltzkit label traj.xtc --topology my.pdb --out biased --colvar COLVAR --bias-column metad.rbias
    boltzkit label traj.xtc --topology my.pdb --out biased --colvar COLVAR --colvar-every 10 --colvar-first 0
    boltzkit label traj.dcd --topology my.pdb --out biased --bias-energies bias.npy --bias-unit kT
    boltzkit label --umbrella umbrella.toml --topology my.pdb --out windows
    boltzkit label long.dcd --topology my.pdb --out data --workers 8
    boltzkit label long.dcd --topology my.pdb --out data --dask tcp://host:8786 --timeout 600
    ```

    **Files in the dataset folder**

    - `manifest.json`: molecule, temperature, splits, frames left out, and the checksum of every file
    - `shards/`: positions (nm), energy (kJ/mol), trajectory and frame numbers, forces if asked for and bias if given,
      as .npy files

    Args:
        trajectories: Files: .xtc, .trr, .dcd, .h5 (as mdtraj writes it), .npy of shape (frames, atoms, 3) in nm, or
            .npz with such an array positions and perhaps energy.
        out: Folder of the dataset.
        topology: File of the molecule, atoms in the order of the frames: PDB, mmCIF, or an Amber prmtop or GROMACS top
            with coordinates beside it.
        molecule: Instead of --topology: a name, a sequence, or a folder that boltzkit prepare wrote.
        forcefield: OpenMM force-field files with commas between; Amber ff99SB-ILDN with OBC2 by default.
        constraints: Bonds that the simulation held fixed: HBonds, AllBonds or HAngles; none by default.
        temperature: Kelvin, at which the simulation ran.
        split: What the samples may be used for: train, validation or test.
        energies: Energies to compare with, .npy or .csv, one per frame; those in a .npz or .h5 file by default.
        ignore_energies: Compare with no energies.
        forces: Store forces too; path gradients need them.
        bias: How the simulation departs from the Boltzmann distribution, in words; not at all by default.
        colvar: COLVAR file of PLUMED with the bias along the trajectory; one for each trajectory.
        bias_energies: Bias energies, .npy or .csv, one per frame; one file for each trajectory.
        bias_column: Columns whose sum is the bias, with commas between; the single one named *.rbias or *.bias by
            default.
        bias_unit: Unit of the bias: kJ/mol, kcal/mol or kT.
        bias_group: Name of the bias, where several trajectories ran under one and the same, as walkers that share it.
        colvar_every: Rows of the COLVAR file from one frame to the next; found by default.
        colvar_first: Row of the first frame, from 0; found by default.
        umbrella: TOML file of umbrella windows, each with its trajectory, atoms, centre and force constant.
        workers: Processes that compute energies, one thread each; this one alone by default. What is stored is the
            same bit for bit.
        dask: Address or file of a dask scheduler, whose workers compute energies instead. They must see the
            trajectories, and you must trust the scheduler: it can run any code.
        timeout: Seconds that a worker may take for one shard; then it is ended, and the shard is tried again.
    """
    from boltzkit.data import About, Dataset, DatasetWriter, Labeller, assign
    from boltzkit.workers import WorkerOptions, workers_if_asked

    where = WorkerOptions.parse(
        {"workers": workers, "dask": dask, "timeout": timeout}, source="boltzkit label"
    )
    options = BiasOptions(
        colvar,
        bias_energies,
        umbrella,
        bias_column,
        bias_unit,
        bias_group,
        colvar_every,
        colvar_first,
    )
    files = trajectories or []
    options.refuse_mixed(files)
    _refuse_missing(files)
    given = _given_energies(energies, files)
    subject = _molecule(topology, molecule, forcefield, constraints)
    work = options.pairs(files, subject, temperature)
    _refuse_missing([path for path, _ in work])
    optional = (*(("forces",) if forces else ()), *(("bias",) if options.given else ()))
    source = _source(subject, forcefield, constraints)
    about = About.of(subject, temperature, bias=bias or options.words, optional=optional, source=source)
    with DatasetWriter(out, about) as writer, workers_if_asked(where, tell) as there:
        labeller = Labeller(subject, writer, workers=there, tell=tell)
        for path, frame_bias in work:
            result = labeller.label(path, split, given, ignore_energies=ignore_energies, bias=frame_bias)
            for line in (*_lines(path, result), *_told(path, frame_bias)):
                tell(line)
        counts = writer.manifest.counts
    print(aligned([("dataset", str(out)), *((name, f"{number(n)} samples") for name, n in counts.items())]))
    if about.bias is not None:
        print(f"Good for: {assign(Dataset.open(out, subject).split(split)).reason}")


def _refuse_missing(paths: list[Path]) -> None:
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise UserError(f"There is no file {missing[0]}.")


def _given_energies(path: Path | None, trajectories: list[Path]) -> "NDArray[np.float64] | None":
    """Read energies to compare with; they belong to one trajectory."""
    from boltzkit.data import read_energies

    if path is None:
        return None
    if len(trajectories) != 1:
        raise UserError("--energies belongs to one trajectory: label the files one by one.")
    return read_energies(path)


def _told(path: Path, bias: "FrameBias | None") -> list[str]:
    """Say what was assumed about a bias."""
    from boltzkit.data import GivenBias

    return [f"{path}: {s}." for s in bias.sentences] if isinstance(bias, GivenBias) else []


def _molecule(
    topology: Path | None, name: str | None, forcefield: str | None, constraints: str | None
) -> "Molecule":
    from boltzkit.molecule import read_molecule

    if (topology is None) == (name is None):
        raise UserError("Say whose trajectory it is: either --topology FILE or --molecule NAME.")
    return read_molecule(str(topology or name), forcefield, constraints)


def _source(molecule: "Molecule", forcefield: str | None, constraints: str | None) -> dict[str, str | None]:
    """Return what the dataset says of where its samples come from."""
    return {
        "protocol": "trajectories labelled by boltzkit label",
        "topology": molecule.name,
        "forcefield": forcefield,
        "constraints": constraints,
    }


def _lines(path: Path, result: "LabelResult") -> list[str]:
    before = f", {number(result.n_before)} were there before" if result.n_before else ""
    lines = [f"{path}: {number(result.n_new)} of {number(result.n_frames)} frames stored{before}."]
    lines += [f"Left out: {number(n)} frames, {reason}." for reason, n in result.left_out.items()]
    if result.comparison is not None:
        lines.append(f"{path}: {result.comparison.sentence}.")
    return lines + [f"Remark: {path}: {remark}." for remark in result.remarks]
