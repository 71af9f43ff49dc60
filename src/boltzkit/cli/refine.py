"""boltzkit refine: a flow becomes unweighted frames, by Markov chains that it proposes to."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from boltzkit.cli.figures import aligned, number
from boltzkit.errors import UserError

if TYPE_CHECKING:
    from boltzkit.analysis import Refined
    from boltzkit.method import Model
    from boltzkit.simulate import Space

__all__ = ["refine"]


def refine(
    run: Path,
    /,
    *,
    out: Path,
    frames: int = 1_000,
    export: Literal["xtc", "dcd", "h5", "pdb"] = "xtc",
    chains: int = 100,
    burn_in: int = 50,
    moves: int = 1,
    seed: int = 0,
) -> None:
    """Draw unweighted frames of a molecule, for programs that know no weights.

    Markov chains accept or reject samples of the flow as a whole (independence Metropolis–Hastings) and make short
    Hamiltonian moves on the force field in between. Both keep the Boltzmann distribution: averages become exact with
    the length of the chains, whatever the flow; a poor flow makes chains slow, and what it never proposes may be
    missing. Where weights are welcome, boltzkit sample gives more for the same energies.

    **Examples**

    ```
    boltzkit refine alanine-dipeptide --frames 2000 --out frames
    boltzkit refine runs/a --frames 10000 --chains 500 --moves 2 --export dcd --out frames
    ```

    **Files in the folder**

    - `trajectory.xtc`, `topology.pdb`: the frames, one chain after the other; all weights are equal
    - `refinement.json`: acceptance, autocorrelation, effective number of frames, energy evaluations

    Args:
        run: Folder of a run, or the name of a molecule whose flow comes with the package.
        out: Folder of the frames.
        frames: How many, at least; a multiple of the chains.
        export: Format of the trajectory.
        chains: Independent chains, moved together.
        burn_in: Sweeps of every chain before its first frame.
        moves: Short Hamiltonian moves between two proposals of the flow; 0 leaves the proposals alone.
        seed: Of all draws.
    """
    from boltzkit.analysis import Local
    from boltzkit.analysis import export as write_frames
    from boltzkit.analysis import refine as draw
    from boltzkit.ensemble import Ensemble
    from boltzkit.method import load
    from boltzkit.storage import finite, write_json

    if moves < 0 or burn_in < 0:
        raise UserError(f"--moves and --burn-in are 0 or more, not {moves} and {burn_in}.")
    model = load(run)
    if model.subject is None:
        raise UserError(f"{run} is no molecule's flow: frames are of molecules.")
    found = draw(
        model.flow,
        model.target,
        frames,
        seed,
        Local(moves=moves),
        space=_space(model),
        chains=chains,
        burn_in=burn_in,
    )
    equal = Ensemble.from_samples(
        found.x.float(),
        found.energy,
        -found.energy,
        found.evaluations,
        model.target.name,
        None,
        model.subject,
    )
    written = write_frames(equal, out, export)
    write_json(out / "refinement.json", finite(_numbers(found)))
    print(written.sentence())
    print(aligned(_rows(found)))


def _space(model: "Model") -> "Space":
    """Return the coordinates of local moves: Cartesian, or internal where bonds are constrained."""
    from boltzkit.coordinates import InternalCoordinates
    from boltzkit.method import MoleculeConfig
    from boltzkit.simulate import CartesianSpace, InternalSpace

    assert model.subject is not None
    assert isinstance(model.config.target, MoleculeConfig)
    molecule = model.subject.molecule
    if len(molecule.constraints):
        # The flow's own windows: beyond others its samples would be refused.
        return InternalSpace(InternalCoordinates.of(molecule, model.config.target.coordinates), model.target)
    return CartesianSpace(molecule, model.target)


def _numbers(found: "Refined") -> dict[str, float]:
    names = (
        "jump_acceptance",
        "local_acceptance",
        "autocorrelation",
        "effective",
        "evaluations",
        "failed_proposals",
    )
    return {"frames": len(found.x)} | {name: getattr(found, name) for name in names}


def _rows(found: "Refined") -> list[tuple[str, str]]:
    rows = [
        ("independent frames", f"{number(round(found.effective))} of {number(len(found.x))}"),
        ("accepted proposals of the flow", f"{100 * found.jump_acceptance:.1f} %"),
        ("energy evaluations", number(found.evaluations)),
    ]
    if math.isfinite(found.local_acceptance):
        rows.insert(2, ("accepted local moves", f"{100 * found.local_acceptance:.1f} %"))
    if found.failed_proposals:
        rows.append(("failed proposals, never taken", number(found.failed_proposals)))
    return rows
