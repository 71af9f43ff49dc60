"""Dynamics by OpenMM, one trajectory after the other."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import openmm
import torch
from openmm import unit

from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule import Molecule
from boltzkit.randomness import generator
from boltzkit.simulate.dynamics import Advanced, DynamicsConfig, Engine, PhasePoints, exploded
from boltzkit.simulate.recording import Check, Tell

__all__ = [
    "OpenMMEngine",
    "explosions_explained",
    "langevin_integrator",
    "openmm_seed",
    "phase_point",
    "platform_arguments",
    "settled_platform",
    "tight",
]

_TOLERANCE = 1e-8
"""Relative, of constrained distances."""
_TRIAL_SECONDS, _TRIAL_STEP = 0.3, 0.0005
_CHECKED = 1000
"""Steps between two looks at whether a stop was asked for."""


class OpenMMEngine(Engine):
    """A new Context for every trajectory and segment: OpenMM takes a seed only when one is made.

    Args:
        molecule: what moves.
        temperature: kelvin.
        config: how; the platform must be named.
        seed: of all noise.
    """

    def __init__(self, molecule: Molecule, temperature: float, config: DynamicsConfig, seed: int) -> None:
        self._molecule, self._temperature, self._config, self._seed = molecule, temperature, config, seed

    def advance(self, points: PhasePoints, segment: int, steps: int, every: int, check: Check) -> Advanced:
        """Integrate one trajectory after the other."""
        ends, frames = [], []
        for number, (x, v) in enumerate(zip(*points.centred(), strict=True)):
            context = self._context(openmm_seed(self._seed, f"segment {segment}", number))
            context.setPositions(x.numpy())
            context.setVelocities(v.numpy())
            tight(context)
            with explosions_explained(self._molecule.name, number):
                frames.append(_frames(context, steps, every, check))
            state = context.getState(positions=True, velocities=True)
            ends.append(phase_point(state, self._molecule.name, number))
            self.evaluations += steps
        end = PhasePoints(*(torch.stack(part) for part in zip(*ends, strict=True)))
        return Advanced(end, torch.from_numpy(np.stack(frames)))

    def _context(self, seed: int) -> Any:
        integrator = langevin_integrator(self._temperature, self._config, seed)
        return openmm.Context(self._molecule.system, integrator, *platform_arguments(self._config))


def langevin_integrator(temperature: float, config: DynamicsConfig, seed: int) -> Any:
    """Return OpenMM's integrator with all that is set about it."""
    integrator = openmm.LangevinMiddleIntegrator(temperature, config.friction, config.step)
    integrator.setRandomNumberSeed(seed)
    integrator.setConstraintTolerance(_TOLERANCE)
    return integrator


def openmm_seed(seed: int, purpose: str, number: int) -> int:
    """Return a seed as OpenMM takes it: positive, below 2³¹; 0 would mean a new one every time."""
    return int(torch.randint(1, 2**31 - 1, (), generator=generator(seed, f"openmm {purpose}", number)))


def tight(context: Any) -> None:
    """Put positions and velocities on the constraints, where there are any."""
    if context.getSystem().getNumConstraints():
        context.applyConstraints(_TOLERANCE)
        context.applyVelocityConstraints(_TOLERANCE)


def platform_arguments(config: DynamicsConfig) -> tuple[Any, dict[str, str]]:
    """Return platform and properties for a Context."""
    known = [openmm.Platform.getPlatform(i).getName() for i in range(openmm.Platform.getNumPlatforms())]
    if config.platform not in known:
        raise UserError(
            f"OpenMM has no platform {config.platform} here.{did_you_mean(config.platform, known)}"
        )
    properties = {"Threads": str(config.threads)} if config.platform == "CPU" else {}
    return openmm.Platform.getPlatformByName(config.platform), properties


def settled_platform(molecule: Molecule, config: DynamicsConfig, tell: Tell) -> DynamicsConfig:
    """Return the settings with a named platform: the fastest one here, measured on some steps."""
    if config.platform != "auto":
        return config
    found = {}
    for number in range(openmm.Platform.getNumPlatforms()):
        name = openmm.Platform.getPlatform(number).getName()
        try:
            found[name] = _seconds_per_step(molecule, config.model_copy(update={"platform": name}))
        except openmm.OpenMMException:
            continue  # a platform that is installed without its hardware
    best = min(found, key=lambda name: found[name])
    times = ", ".join(f"{name} {1e6 * seconds:.0f} µs" for name, seconds in found.items())
    tell(f"a step of {molecule.name} takes: {times}; OpenMM's {best} platform is used")
    return config.model_copy(update={"platform": best})


def _seconds_per_step(molecule: Molecule, config: DynamicsConfig) -> float:
    # A short step: whether the one that was asked for is too long is for the simulation to find out.
    integrator = langevin_integrator(300.0, config.model_copy(update={"step": _TRIAL_STEP}), seed=1)
    context = openmm.Context(molecule.system, integrator, *platform_arguments(config))
    context.setPositions(molecule.positions.numpy())
    integrator.step(5)
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < _TRIAL_SECONDS:
        integrator.step(20)
        steps += 20
    return (time.perf_counter() - start) / steps


def _frames(context: Any, steps: int, every: int, check: Check) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Integrate and return the positions after every so many steps."""
    integrator = context.getIntegrator()
    count, stride = (steps // every, every) if every else (0, steps)
    rows = np.empty((count, context.getSystem().getNumParticles(), 3))
    for frame in range(count):
        check()
        integrator.step(stride)
        rows[frame] = _array(context.getState(positions=True).getPositions(asNumpy=True), unit.nanometer)
    left = steps - count * stride
    while left > 0:
        check()
        integrator.step(min(left, _CHECKED))
        left -= _CHECKED
    return rows


@contextmanager
def explosions_explained(name: str, trajectory: int) -> Iterator[None]:
    """Turn OpenMM's complaint about coordinates that are no numbers into one sentence."""
    try:
        yield
    except openmm.OpenMMException as error:
        if "NaN" not in str(error):
            raise
        raise exploded(name, trajectory) from error


def phase_point(state: Any, name: str, trajectory: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return positions and velocities of an OpenMM State, ``(atoms, 3)`` nm and nm/ps; refuse what is not finite."""
    x = _array(state.getPositions(asNumpy=True), unit.nanometer)
    v = _array(state.getVelocities(asNumpy=True), unit.nanometer / unit.picosecond)
    if not (np.isfinite(x).all() and np.isfinite(v).all()):
        raise exploded(name, trajectory)
    return torch.from_numpy(x), torch.from_numpy(v)


def _array(quantity: Any, of: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(quantity.value_in_unit(of), dtype=np.float64)
