"""Terms of a force field by torch operations, compiled into a few fused loops where that is wanted."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from boltzkit.energy.forcefield.term import Geometry, PairTable, Term
from boltzkit.native import compiler

__all__ = ["TorchTerms"]

_Kernel = Callable[[Tensor], tuple[Tensor, Tensor]]


class TorchTerms:
    """Energies and gradients of any terms, chunk by chunk, on any device.

    Args:
        terms: what to sum.
        n_atoms: atoms of the molecule.
        precision: of all numbers.
        device: of the parameters.
        compiled: compile on first use; needs a C++ compiler.
        chunk: configurations per call.
    """

    def __init__(
        self,
        terms: Iterable[Term],
        n_atoms: int,
        precision: torch.dtype,
        device: torch.device | str,
        compiled: bool,
        chunk: int,
    ) -> None:
        self._terms = nn.ModuleList(terms).to(device, precision)
        self._pairs = PairTable(n_atoms).to(device, precision)
        self._compile = compiled and compiler() is not None
        self._chunk_size = chunk
        self._kernels: dict[bool, _Kernel] = {}

    def __call__(self, x: Tensor, gradient: bool) -> tuple[Tensor, Tensor]:
        """Return energies ``(n,)`` in kJ/mol and gradients ``(n, atoms, 3)``, empty unless asked for."""
        parts = [
            self._chunk(part, gradient) for part in torch.split(x.permute(2, 1, 0), self._chunk_size, dim=-1)
        ]
        energy = torch.cat([part[0] for part in parts])
        if not gradient:
            return energy, x.new_empty(0)
        return energy, torch.cat([part[1] for part in parts], dim=-1).permute(2, 1, 0)

    def _chunk(self, x: Tensor, gradient: bool) -> tuple[Tensor, Tensor]:
        n, full = x.shape[-1], self._chunk_size
        if not self._compile or n < full // 4:
            return self._kernel(gradient)(x.contiguous())
        # One shape for the compiler: the last chunk is filled up with copies of its last configuration.
        filled = torch.cat([x, x[..., -1:].expand(-1, -1, full - n)], dim=-1) if n < full else x
        energy, slope = self._compiled(gradient)(filled.contiguous())
        return energy[:n], slope[..., :n]

    def _compiled(self, gradient: bool) -> _Kernel:
        if gradient not in self._kernels:
            self._kernels[gradient] = torch.compile(self._kernel(gradient), dynamic=False, fullgraph=True)
        return self._kernels[gradient]

    def _kernel(self, gradient: bool) -> _Kernel:
        return self._with_gradient if gradient else self._without_gradient

    def _total(self, x: Tensor) -> Tensor:
        geometry = Geometry.of(x, self._pairs)
        total = torch.zeros(x.shape[-1], dtype=x.dtype, device=x.device)
        for term in self._terms:
            total = total + term(geometry)
        return total

    def _without_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return self._total(x), x.new_empty(0)

    def _with_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def summed(y: Tensor) -> tuple[Tensor, Tensor]:
            energy = self._total(y)
            return energy.sum(), energy

        slope, energy = torch.func.grad(summed, has_aux=True)(x)
        return energy, slope
