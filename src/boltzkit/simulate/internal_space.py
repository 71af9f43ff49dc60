"""Internal coordinates as a space to move in: constrained bonds stay at their lengths, handedness is kept."""

import math

import torch
from torch import Tensor

from boltzkit.coordinates import InternalCoordinates
from boltzkit.energy import Target
from boltzkit.simulate.space import Evaluated, Space

__all__ = ["InternalSpace"]

_THERMAL = {"bond": 0.003, "angle": 0.05, "torsion": 0.2}
"""How far coordinates typically fluctuate at 300 K, in nm and rad."""


class InternalSpace(Space):
    """The unit box of internal coordinates, with log|∂x/∂u| as its measure.

    Full torsions go round; beyond any other window the density is zero, so that moves across its ends are refused.
    """

    def __init__(self, coordinates: InternalCoordinates, target: Target) -> None:
        self.target, self._map = target, coordinates
        self.event_shape = torch.Size([coordinates.dim])
        width = (coordinates.high - coordinates.low).float()
        self.scale = width.new_tensor([_THERMAL[kind] for kind in coordinates.kinds]) / width
        self._turning = coordinates.circular.nonzero().squeeze(-1).tolist()
        self.turns = len(self._turning)

    def evaluate(self, y: Tensor) -> Evaluated:
        """Evaluate the energy at the positions, with gradients through the map."""
        y = torch.where(self._map.circular, y % 1, y).detach().requires_grad_()
        with torch.enable_grad():
            x, log_det = self._map.transform(y)
            energy = self.target(x)
            (slope,) = torch.autograd.grad(energy.sum(), y, retain_graph=True)
            (measure,) = torch.autograd.grad(log_det.sum(), y)
        inside = ((y >= 0) & (y <= 1)).all(-1)
        return Evaluated(
            y.detach(),
            torch.where(inside, energy.detach(), math.inf),
            slope,
            log_det.detach(),
            measure,
        )

    def positions(self, y: Tensor) -> Tensor:
        """Return positions in the frame of the z-matrix."""
        with torch.no_grad():
            return self._map.transform(y)[0]

    def coordinates(self, x: Tensor) -> Tensor:
        """Return u of positions."""
        with torch.no_grad():
            return self._map.inverse(x)[0]

    def turn(self, y: Tensor, index: int, angle: Tensor) -> Tensor:
        """Turn one torsion and all that hangs on it."""
        turned = y.clone()
        turned[..., self._turning[index]] += angle / (2 * math.pi)
        return turned
