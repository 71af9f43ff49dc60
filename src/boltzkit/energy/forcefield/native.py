"""The common terms of a force field by one C++ kernel: energies and hand-derived gradients in one pass."""

import ctypes
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from boltzkit.energy.forcefield.bonded import HarmonicAngles, HarmonicBonds, TorsionSeries
from boltzkit.energy.forcefield.generalised_born import GeneralisedBorn
from boltzkit.energy.forcefield.nonbonded import Nonbonded
from boltzkit.energy.forcefield.term import Term
from boltzkit.native import load_library
from boltzkit.native.call import call

__all__ = ["NativeTerms"]

_SOURCE = Path(__file__).with_name("kernel.cpp")


class _Tables(ctypes.Structure):
    """The struct ``Tables`` of kernel.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("atoms", "bonds", "angles", "torsions", "orders")),
        *((name, ctypes.c_void_p) for name in ("bond_atoms", "angle_atoms", "torsion_atoms")),
        *((name, ctypes.c_void_p) for name in ("bond", "angle", "torsion", "pair", "polar", "born")),
        ("shape", ctypes.c_double * 3),
        ("nested", ctypes.c_int64),
    )


class NativeTerms:
    """Bonds, angles, torsions, Lennard-Jones, Coulomb and generalised Born of one molecule.

    Results of a configuration do not depend on its neighbours in the batch, nor on the number of threads.
    """

    def __init__(self, library: ctypes.CDLL, terms: Iterable[Term], n_atoms: int, dtype: torch.dtype) -> None:
        self._library = library
        self._function = "energies_float" if dtype == torch.float32 else "energies_double"
        self._dtype, self._arrays = dtype, {"none": torch.empty(0)}
        self._tables = _Tables(atoms=n_atoms)
        for term in terms:
            _FILLERS[type(term)](self, term)

    @classmethod
    def split(cls, terms: list[Term], n_atoms: int, dtype: torch.dtype) -> tuple[Self | None, list[Term]]:
        """Return the terms the kernel takes, and those it leaves to torch: one of each kind, all without compiler."""
        library = load_library(_SOURCE) if dtype in (torch.float32, torch.float64) else None
        first = {type(term): term for term in reversed(terms) if type(term) in _FILLERS}
        if library is None or not first:
            return None, terms
        taken = set(first.values())
        return cls(library, taken, n_atoms, dtype), [term for term in terms if term not in taken]

    def __call__(self, x: Tensor, gradient: bool) -> tuple[Tensor, Tensor]:
        """Return energies ``(n,)`` in kJ/mol and gradients ``(n, atoms, 3)``, empty unless asked for."""
        x = x.to(self._dtype).contiguous()
        energy = x.new_empty(len(x))
        slope = torch.empty_like(x) if gradient else x.new_empty(0)
        call(self._library, self._function, self._tables, x, len(x), energy, slope if gradient else None)
        return energy, slope

    def bonds(self, term: HarmonicBonds) -> None:
        """Take the harmonic bonds."""
        self._tables.bonds = len(term.atoms)
        self._fill("bond_atoms", term.atoms)
        self._fill("bond", torch.cat([term.length, term.stiffness], dim=-1))

    def angles(self, term: HarmonicAngles) -> None:
        """Take the harmonic angles."""
        self._tables.angles = len(term.atoms)
        self._fill("angle_atoms", term.atoms)
        self._fill("angle", torch.cat([term.equilibrium, term.stiffness], dim=-1))

    def torsions(self, term: TorsionSeries) -> None:
        """Take the torsion series."""
        self._tables.torsions, self._tables.orders = len(term.atoms), len(term.cosine)
        self._fill("torsion_atoms", term.atoms)
        self._fill("torsion", torch.cat([term.cosine, term.sine], dim=-1).transpose(0, 1))

    def nonbonded(self, term: Nonbonded) -> None:
        """Take Lennard-Jones and Coulomb."""
        self._fill("pair", torch.cat([term.sigma_squared, term.epsilon, term.charge], dim=-1))

    def solvent(self, term: GeneralisedBorn) -> None:
        """Take the solvent."""
        self._fill("polar", term.charge)
        columns = (term.own_charge, term.radius, term.reduced, term.scaled, term.surface)
        self._fill("born", torch.cat(columns, dim=-1))
        self._tables.shape = (ctypes.c_double * 3)(*(term.shape or (0.0, 0.0, 0.0)))
        self._tables.nested = term.nested

    def _fill(self, name: str, values: Tensor) -> None:
        kind = self._dtype if values.is_floating_point() else torch.int32
        # Kept here: the struct holds bare pointers.
        self._arrays[name] = values.detach().to("cpu", kind).contiguous()
        setattr(self._tables, name, self._arrays[name].data_ptr())


_FILLERS: dict[type[Term], Callable[[NativeTerms, Any], None]] = {
    HarmonicBonds: NativeTerms.bonds,
    HarmonicAngles: NativeTerms.angles,
    TorsionSeries: NativeTerms.torsions,
    Nonbonded: NativeTerms.nonbonded,
    GeneralisedBorn: NativeTerms.solvent,
}
"""Kind of term -> how its parameters enter the kernel's tables."""
