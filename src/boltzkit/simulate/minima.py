"""The main minima of a molecule's energy surface, found without being told."""

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from boltzkit.config import Config
from boltzkit.molecule import Backbone, Molecule
from boltzkit.molecule.graph import neighbours
from boltzkit.molecule.minimise import minimise
from boltzkit.molecule.torsions import dihedral
from boltzkit.simulate.internal_space import InternalSpace
from boltzkit.simulate.quench import quench
from boltzkit.simulate.tempering import Tempering, TemperingConfig
from boltzkit.simulate.turns import find_turns

__all__ = ["MinimaSearch", "chain_torsions", "find_minima", "select_apart"]


class MinimaSearch(Config):
    """How minima are looked for: a short hot run of many walkers, then downhill from where each is."""

    count: PositiveInt = 4
    """Minima to return, at most: the deepest."""
    separation: PositiveFloat = Field(1.5708, lt=3.1416)
    """By how much one torsion at least must differ between two of them, rad; of closer ones the deepest counts."""
    temperature: PositiveFloat = 1000.0
    """Of the hot run, K."""
    walkers: PositiveInt = 128
    """Walkers of the hot run."""
    sweeps: PositiveInt = 50
    """Its length; with turns about bonds, a few dozen reach everywhere."""
    seed: int = 0
    """Of all draws."""


def find_minima(molecule: Molecule, search: MinimaSearch) -> Tensor:
    """Return minima that differ in their torsions, the deepest first, ``(minima, atoms, 3)`` nm.

    Peptide bonds stay cis or trans as they are in the reference structure. Costs about
    ``walkers · (14 sweeps + 300)`` energy evaluations on the batched force field, and a minimisation by OpenMM for each
    minimum.
    """
    walkers = _hot_walkers(molecule, search)
    cold = InternalSpace(molecule.internal_coordinates(), molecule.energy())
    y, energy = quench(cold, walkers, steps=300)
    x = cold.positions(y)
    backbone = Backbone.of(molecule.topology)
    usable = energy.isfinite() & (backbone.cis(x) == backbone.cis(molecule.positions.float())).all(-1)
    x, energy = x[usable], energy[usable]
    rows = chain_torsions(molecule)
    chosen = x[select_apart(dihedral(x, rows), energy, search)]
    refined = [minimise(molecule.system, structure.double(), molecule.name) for structure in chosen]
    x, energy = torch.stack([m.positions for m in refined]), torch.tensor([m.energy for m in refined])
    # Two that were apart may have met in the last bit of the way.
    return x[select_apart(dihedral(x, rows), energy, search)]


def chain_torsions(molecule: Molecule) -> Tensor:
    """Return one torsion for each rotatable bond between atoms with further heavy neighbours, ``(torsions, 4)``.

    Methyl groups have none: turned by a third, they look the same.
    """
    atoms = list(molecule.topology.atoms())
    heavy = [atom.element is None or atom.element.symbol != "H" for atom in atoms]
    near = neighbours(molecule.topology)
    rows = []
    for turn in find_turns(molecule):
        ends = [
            min((c for c in near[a] if c != b and heavy[c]), default=None)
            for a, b in ((turn.other, turn.origin), (turn.origin, turn.other))
        ]
        if ends[0] is not None and ends[1] is not None:
            rows.append((ends[0], turn.other, turn.origin, ends[1]))
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, 4)


def select_apart(torsions: Tensor, energy: Tensor, search: MinimaSearch) -> list[int]:
    """Return which structures to keep: by rising energy, each that differs from all before it in some torsion."""
    kept: list[int] = []
    for i in energy.argsort(stable=True).tolist():
        difference = torsions[kept] - torsions[i]
        distance = torch.atan2(difference.sin(), difference.cos()).abs().amax(-1)
        if (distance > search.separation).all():
            kept.append(i)
        if len(kept) == search.count:
            break
    return kept


def _hot_walkers(molecule: Molecule, search: MinimaSearch) -> Tensor:
    """Return internal coordinates of walkers after a short run at high temperature, ``(walkers, dim)``."""
    space = InternalSpace(molecule.internal_coordinates(), molecule.energy(search.temperature))
    config = TemperingConfig(walkers=search.walkers, step=0.1, seed=search.seed)
    run = Tempering.start(space, config, molecule.positions.float()[None])
    for _ in run.run(search.sweeps, adapt=True):
        pass
    return run.walkers.y[0]
