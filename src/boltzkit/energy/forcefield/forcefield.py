"""Any supported OpenMM System as a batched, differentiable, counted torch energy."""

import shutil
from collections.abc import Callable

import openmm
import torch
from torch import Tensor, nn

from boltzkit.energy.constants import BOLTZMANN
from boltzkit.energy.forcefield.reader import read_terms
from boltzkit.energy.forcefield.term import Geometry, PairTable
from boltzkit.energy.regularised import regularise
from boltzkit.energy.supplied_gradient import differentiable
from boltzkit.energy.target import Target

__all__ = ["ForceField"]

_Kernel = Callable[[Tensor], tuple[Tensor, Tensor]]


class ForceField(Target):
    """Reduced energies u = E/k_BT of a molecule, thousands of configurations at once.

    Batches are cut into chunks that stay in the processor's cache, whatever their number. On first use the whole
    energy is compiled into a few fused loops (tens of seconds, cached on disk); without a C++ compiler, or with
    ``compiled=False``, it runs as plain torch operations.

    Args:
        system: an OpenMM System of supported forces, without periodic boundaries.
        temperature: in kelvin.
        precision: float32 (errors below 0.01 kJ/mol at 300 K) or float64 (agrees with OpenMM to 1e-9).
        compiled: compile the energy.
        regularised: pass energies through the paper's regularisation, so that overlapping atoms give a huge but
            finite energy.
        chunk: configurations per call of the compiled energy.
        name: how messages call the molecule.
    """

    def __init__(
        self,
        system: openmm.System,
        temperature: float = 300.0,
        *,
        precision: torch.dtype = torch.float32,
        compiled: bool = True,
        regularised: bool = True,
        chunk: int = 512,
        name: str = "molecule",
    ) -> None:
        self.name, self.temperature, self.chunk, self.regularised = name, temperature, chunk, regularised
        self.event_shape = torch.Size([system.getNumParticles(), 3])
        self.precision = precision
        self.compiled = compiled and shutil.which("g++") is not None
        self._terms = nn.ModuleList(read_terms(system)).to(precision)
        self._pairs = PairTable(system.getNumParticles()).to(precision)
        self._kernels: dict[bool, _Kernel] = {}

    def to(self, device: torch.device | str) -> "ForceField":
        """Move the parameters to a device."""
        self._terms.to(device)
        self._pairs.to(device)
        return self

    def _energy(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, *self.event_shape)
        energy = differentiable(self._evaluate, flat).reshape(x.shape[:-2])
        return regularise(energy) if self.regularised else energy

    def _evaluate(self, x: Tensor, gradient: bool) -> tuple[Tensor, Tensor]:
        """Return reduced energies ``(n,)`` and gradients ``(n, atoms, 3)`` (empty unless asked)."""
        if len(x) == 0:
            return x.new_empty(0), torch.zeros_like(x)
        layout = x.to(self.precision).permute(2, 1, 0)
        parts = [self._chunk(part, gradient) for part in torch.split(layout, self.chunk, dim=-1)]
        beta = 1 / (BOLTZMANN * self.temperature)
        energy = torch.cat([part[0] for part in parts]).to(x.dtype) * beta
        if not gradient:
            return energy, x.new_empty(0)
        return energy, torch.cat([part[1] for part in parts], dim=-1).permute(2, 1, 0).to(x.dtype) * beta

    def _chunk(self, x: Tensor, gradient: bool) -> tuple[Tensor, Tensor]:
        n = x.shape[-1]
        if not self.compiled or n < self.chunk // 4:
            return self._kernel(gradient)(x.contiguous())
        # One shape for the compiler: the last chunk is filled up with copies of its last configuration.
        filled = torch.cat([x, x[..., -1:].expand(-1, -1, self.chunk - n)], dim=-1) if n < self.chunk else x
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
