"""CustomGBForce: generalised Born models written as expressions (HCT, OBC1, OBC2, GBn, GBn2 and any other)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from boltzkit.energy.forcefield.custom import Parameters, pair_mask
from boltzkit.energy.forcefield.formula import Formula
from boltzkit.energy.forcefield.term import Geometry, PairTable, Term

__all__ = ["CustomGB", "Stage"]

Kind = Literal["single", "pair", "pair without exclusions"]


@dataclass(frozen=True)
class Stage:
    """One computed value or energy term, in the order OpenMM evaluates them."""

    name: str
    formula: Formula
    kind: Kind


class CustomGB(Term):
    """Computed values per atom, each from the ones before, then energies from atoms and pairs.

    A pair value of atom i is the sum over all j; a pair energy counts each pair once.
    """

    mask: Tensor
    excluding_mask: Tensor

    def __init__(
        self,
        values: Sequence[Stage],
        energies: Sequence[Stage],
        parameters: Parameters,
        exclusions: Sequence[tuple[int, int]],
        n_atoms: int,
    ) -> None:
        super().__init__()
        self._values = [(stage.name, stage.kind) for stage in values]
        self._energies = [stage.kind for stage in energies]
        self.value_formulas = nn.ModuleList(stage.formula for stage in values)
        self.energy_formulas = nn.ModuleList(stage.formula for stage in energies)
        self._names = list(parameters)
        for name, numbers in parameters.items():
            self.constant(f"parameter_{name}", torch.tensor(numbers, dtype=torch.float64).unsqueeze(-1))
        self.constant("mask", pair_mask(n_atoms, []))
        self.constant("excluding_mask", pair_mask(n_atoms, exclusions))

    def forward(self, geometry: Geometry) -> Tensor:
        """Evaluate all values, then sum all energies."""
        known = {name: self.get_buffer(f"parameter_{name}") for name in self._names}
        known |= dict(zip("xyz", geometry.x, strict=True))
        for (name, kind), formula in zip(self._values, self.value_formulas, strict=True):
            if kind == "single":
                known[name] = formula(known).expand(geometry.x.shape[1:])
            else:
                sides = self._sides(known, geometry.pairs)
                to_first = self._pairs(formula, kind, sides, geometry, ("1", "2"))
                to_second = self._pairs(formula, kind, sides, geometry, ("2", "1"))
                known[name] = geometry.pairs.gather(to_first, to_second)
        total = torch.zeros(geometry.x.shape[-1], dtype=geometry.x.dtype, device=geometry.x.device)
        for kind, formula in zip(self._energies, self.energy_formulas, strict=True):
            if kind == "single":
                total = total + formula(known).expand(geometry.x.shape[1:]).sum(0)
            else:
                sides = self._sides(known, geometry.pairs)
                total = total + self._pairs(formula, kind, sides, geometry, ("1", "2")).sum(0)
        return total

    def _sides(self, known: dict[str, Tensor], pairs: PairTable) -> dict[str, tuple[Tensor, Tensor]]:
        """Return every value of a pair's two atoms, ``(pairs, batch)`` or ``(pairs, 1)`` each."""
        parameters = {name: (known[name][pairs.i], known[name][pairs.j]) for name in self._names}
        computed = [name for name, _ in self._values if name in known]
        return parameters | {name: (pairs.first(known[name]), pairs.second(known[name])) for name in computed}

    def _pairs(
        self,
        formula: nn.Module,
        kind: Kind,
        sides: dict[str, tuple[Tensor, Tensor]],
        geometry: Geometry,
        suffixes: tuple[str, str],
    ) -> Tensor:
        """Return the formula over all pairs, ``(pairs, batch)``; the suffixes say which atom is which."""
        values = {"r": geometry.distance}
        for name, (first, second) in sides.items():
            values |= {name + suffixes[0]: first, name + suffixes[1]: second}
        mask = self.mask if kind == "pair without exclusions" else self.excluding_mask
        result: Tensor = formula(values)
        return torch.where(mask > 0, result.expand_as(geometry.distance), 0.0)
