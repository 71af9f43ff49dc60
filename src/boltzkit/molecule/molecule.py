"""A molecule: topology, OpenMM System and a minimised reference structure."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

import torch
from torch import Tensor

from boltzkit.molecule.checks import check_parts
from boltzkit.molecule.engine_files import read_amber, read_charmm, read_gromacs
from boltzkit.molecule.graph import bond_pairs
from boltzkit.molecule.identity import content_hash
from boltzkit.molecule.ligand_files import read_ligand, read_smiles
from boltzkit.molecule.minimise import minimise
from boltzkit.molecule.parts import Parts, in_nm
from boltzkit.molecule.sequence import build_sequence
from boltzkit.molecule.structure_files import read_pdb, read_system_xml
from boltzkit.notebook import as_list, as_rows

__all__ = ["DEFAULT_FORCEFIELD", "Constraints", "Molecule"]

DEFAULT_FORCEFIELD = ("amber99sbildn.xml", "amber99_obc.xml")
"""Amber ff99SB-ILDN with the OBC2 implicit solvent."""


@dataclass(frozen=True, eq=False)
class Constraints:
    """Distances that a System holds fixed.

    Attributes:
        pairs: atom indices, ``(constraints, 2)``.
        lengths: nm, ``(constraints,)``, float64.
    """

    pairs: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.pairs)


@final
@dataclass(frozen=True, eq=False)
class Molecule:
    """One connected molecule in vacuum or implicit solvent. Made by one of the ``from_...`` constructors.

    Every constructor checks what it is given, refuses what cannot be treated with one sentence, and minimises
    the structure. Files that carry code are refused unless ``trust=True``; files of the installed OpenMM are
    trusted.

    Attributes:
        name: how messages and reports call the molecule.
        topology: OpenMM Topology.
        system: OpenMM System, without cutoff.
        start_positions: the structure as it was given or built, ``(atoms, 3)`` nm, float64.
        positions: the minimised reference structure, ``(atoms, 3)`` nm, float64.
        minimum_energy: potential energy of the reference structure, kJ/mol.
        residual_force: root mean square force component left by the minimisation, kJ/mol/nm.
        remarks: sentences about what was ignored or chosen.
    """

    name: str
    topology: Any
    system: Any
    start_positions: Tensor
    positions: Tensor
    minimum_energy: float
    residual_force: float
    remarks: tuple[str, ...] = ()

    @classmethod
    def from_pdb(
        cls,
        path: str | Path,
        forcefield: Iterable[str | Path] = DEFAULT_FORCEFIELD,
        constraints: Any = None,
        *,
        add_hydrogens: bool = False,
        trust: bool = False,
    ) -> Self:
        """Read a PDB file, or mmCIF by its ending, and apply OpenMM force-field files.

        Args:
            path: the structure; the first of several models counts.
            forcefield: files by path, or by name as OpenMM installs them.
            constraints: None, ``"HBonds"``, ``"AllBonds"`` or ``"HAngles"``.
            add_hydrogens: add those that are missing, for pH 7.
            trust: let force-field files run the scripts they carry.
        """
        return cls._build(read_pdb(path, forcefield, constraints, add_hydrogens, trust))

    @classmethod
    def from_sequence(
        cls,
        sequence: str,
        forcefield: Iterable[str | Path] = DEFAULT_FORCEFIELD,
        constraints: Any = None,
        *,
        seed: int = 0,
        trust: bool = False,
    ) -> Self:
        """Build a peptide such as ``"ACE-ALA-NME"`` from the force field's own residue templates.

        Extended, L-amino acids, trans peptide bonds; uncapped ends take their charged forms. The same seed gives
        the same structure.
        """
        return cls._build(build_sequence(sequence, forcefield, constraints, seed, trust))

    @classmethod
    def from_ligand(cls, path: str | Path, *, add_hydrogens: bool = False) -> Self:
        """Read a small organic molecule, an SDF, MOL or MOL2 file, and give it MMFF94 in vacuum; needs RDKit.

        Args:
            path: the file; a flat drawing gets a structure in space.
            add_hydrogens: add those that are missing.
        """
        return cls._build(read_ligand(path, add_hydrogens))

    @classmethod
    def from_smiles(cls, smiles: str, *, seed: int = 0) -> Self:
        """Build a small organic molecule with MMFF94 in vacuum; needs RDKit. The same seed gives the same structure."""
        return cls._build(read_smiles(smiles, seed))

    @classmethod
    def from_amber(
        cls,
        topology: str | Path,
        coordinates: str | Path,
        implicit_solvent: str | None = None,
        constraints: Any = None,
    ) -> Self:
        """Read an Amber prmtop with inpcrd or rst7 coordinates.

        Args:
            topology: the prmtop.
            coordinates: inpcrd or rst7.
            implicit_solvent: ``"HCT"``, ``"OBC1"``, ``"OBC2"``, ``"GBn"``, ``"GBn2"``, or None for vacuum.
            constraints: None, ``"HBonds"``, ``"AllBonds"`` or ``"HAngles"``.
        """
        return cls._build(read_amber(topology, coordinates, implicit_solvent, constraints))

    @classmethod
    def from_gromacs(
        cls,
        topology: str | Path,
        coordinates: str | Path,
        include_folder: str | Path | None = None,
        constraints: Any = None,
    ) -> Self:
        """Read a GROMACS top with gro coordinates; included files are looked for in ``include_folder``."""
        return cls._build(read_gromacs(topology, coordinates, include_folder, constraints))

    @classmethod
    def from_charmm(
        cls,
        topology: str | Path,
        coordinates: str | Path,
        parameters: Iterable[str | Path],
        implicit_solvent: str | None = None,
        constraints: Any = None,
    ) -> Self:
        """Read a CHARMM psf with crd or PDB coordinates and its parameter files (rtf, prm, str)."""
        return cls._build(read_charmm(topology, coordinates, parameters, implicit_solvent, constraints))

    @classmethod
    def from_system_xml(cls, path: str | Path, structure: str | Path, *, trust: bool = False) -> Self:
        """Read a serialised OpenMM System and the PDB or mmCIF file that it belongs to."""
        return cls._build(read_system_xml(path, structure, trust))

    @classmethod
    def from_openmm(cls, topology: Any, system: Any, positions: Any, name: str = "molecule") -> Self:
        """Take OpenMM objects as they are; the System is copied. Positions without a unit are nm."""
        return cls._build(Parts(name, topology, deepcopy(system), in_nm(positions)))

    @classmethod
    def _build(cls, parts: Parts) -> Self:
        check_parts(parts)
        minimum = parts.minimum or minimise(parts.system, parts.positions, parts.name)
        return cls(
            name=parts.name,
            topology=parts.topology,
            system=parts.system,
            start_positions=parts.positions,
            positions=minimum.positions,
            minimum_energy=minimum.energy,
            residual_force=minimum.residual_force,
            remarks=parts.remarks,
        )

    def named(self, name: str) -> Self:
        """Return the same molecule under another name."""
        return replace(self, name=name)

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return int(self.system.getNumParticles())

    @cached_property
    def bonds(self) -> Tensor:
        """Bonded atoms, ``(bonds, 2)``, each pair and the list in ascending order."""
        return bond_pairs(self.topology)

    @cached_property
    def constraints(self) -> Constraints:
        """Distances that the System holds fixed; empty when there are none."""
        rows = [self.system.getConstraintParameters(i) for i in range(self.system.getNumConstraints())]
        pairs = torch.tensor([(a, b) for a, b, _ in rows], dtype=torch.int64).reshape(-1, 2)
        return Constraints(pairs, torch.tensor([length._value for *_, length in rows], dtype=torch.float64))

    @cached_property
    def hash(self) -> str:
        """Content hash of topology and System, the same in every process; see `content_hash`."""
        return content_hash(self.topology, self.system)

    def energy(self, temperature: float = 300.0, backend: str = "torch", **options: Any) -> Any:
        """Return the molecule's reduced energy, a Target: ``(batch, atoms, 3)`` nm -> ``(batch,)``.

        A convenience for `boltzkit.energy.molecular_energy`, which explains the arguments.
        """
        # The energy room lies to the right of this one: the import waits until it is asked for.
        from boltzkit.energy.molecular import molecular_energy

        return molecular_energy(self, temperature, backend, **options)

    def internal_coordinates(self, **settings: Any) -> Any:
        """Return the molecule's internal coordinates, a Bijection: unit box -> ``(batch, atoms, 3)`` nm.

        A convenience for `boltzkit.coordinates.InternalCoordinates`; settings are those of its `CoordinatesConfig`.
        """
        # The coordinates room lies to the right of this one too.
        from boltzkit.coordinates import CoordinatesConfig, InternalCoordinates

        config = CoordinatesConfig.parse(settings, source="internal_coordinates")
        return InternalCoordinates.of(self, config)

    def __repr__(self) -> str:
        return f"Molecule({self.name!r}, {self.n_atoms} atoms)"

    def _repr_html_(self) -> str:
        """What a notebook shows: enough to see whether it is the molecule one meant."""
        forces = dict.fromkeys(force.getName() for force in self.system.getForces())
        rows = {
            "atoms": f"{self.n_atoms:,}",
            "residues": " ".join(residue.name for residue in self.topology.residues()),
            "forces": ", ".join(forces),
            "fixed distances": f"{len(self.constraints.pairs):,}",
            "minimum": f"{self.minimum_energy:.1f} kJ/mol",
        }
        return as_rows(self.name, rows) + (as_list(self.remarks) if self.remarks else "")
