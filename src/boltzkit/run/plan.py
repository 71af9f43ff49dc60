"""From a request to a plan: which method, how many samples, how many steps. Made once, kept in the folder."""

import time

from pydantic import Field

from boltzkit.config import Config
from boltzkit.errors import UserError
from boltzkit.flow import SPLINE_PRESETS, SplineFlowConfig
from boltzkit.method import DataConfig, EvaluationConfig, MoleculeConfig, RunConfig, find_recipe
from boltzkit.molecule import Molecule
from boltzkit.run.request import METHODS, Request
from boltzkit.simulate import BatchedSimulation, TemperingConfig

__all__ = [
    "DATA_SHARE",
    "TRAINING_SHARE",
    "Plan",
    "choose_method",
    "describe",
    "fitted",
    "make_plan",
    "planned_training",
]

DATA_SHARE, TRAINING_SHARE = 0.2, 0.6
"""Of the time; the rest is for samples, analysis and report."""
_FEWEST_STEPS, _MOST_STEPS = 400, 60_000
_FEWEST_WALKERS, _WALKERS, _EQUILIBRATION = 100, 500, 600
_EQUILIBRATING = 0.4
"""Share of the sampler's time before its first sample."""
_FEWEST_FRAMES, _MOST_FRAMES = 100, 1_000
_SMALL = 30
"""Atoms up to which turns about bonds cross every barrier at the target's own temperature."""
_BATCH = 512
FLOW: SplineFlowConfig = SPLINE_PRESETS["laptop"].model_copy(update={"pairs": 6})
"""The architecture, whatever the molecule's size."""
_TIMED = 8


class Plan(Config):
    """What will be done before the training, whose steps depend on how long that took."""

    method: str = Field(pattern="^(sampler|data|cmt)$")
    """How the flow is trained."""
    reason: str
    """Why."""
    simulation: BatchedSimulation | None = None
    """Samples to draw first."""


def choose_method(request: Request) -> tuple[str, str]:
    """Return the way to train and why it was chosen.

    The batched sampler draws equilibrium samples of a small molecule a thousand times faster than dynamics does, so
    that data are the cheapest teacher there is. Where evaluations are what counts, the flow learns from the energy
    alone.
    """
    if request.method != "auto":
        if (request.method == "data") != bool(request.data):
            raise UserError("--method data goes with --data, and --data with no other method.")
        return request.method, "you asked for it"
    if request.data:
        return "data", "there are data"
    if request.evaluations is not None:
        return "cmt", f"the energy may be evaluated {request.evaluations:,} times"
    return "sampler", "the energy is cheap to evaluate in batches"


def planned_simulation(
    molecule: Molecule, temperature: float, seconds: float, seed: int
) -> BatchedSimulation:
    """Return a simulation by the batched sampler that takes about a time, a part of it to equilibrate."""
    levels, hottest = (1, 1.0) if molecule.n_atoms <= _SMALL else (4, 2.0)
    moves = TemperingConfig(temperatures=levels, hottest=hottest, seed=seed)
    one = _evaluation_seconds(molecule, temperature) * levels * (moves.leaps + moves.turns + 1)
    walkers = int(_bounded(_EQUILIBRATING * seconds / (_EQUILIBRATION * one), _FEWEST_WALKERS, _WALKERS))
    sweeps = (1 - _EQUILIBRATING) * seconds / (walkers * one)
    frames = int(_bounded(sweeps / 2, _FEWEST_FRAMES, _MOST_FRAMES))
    return BatchedSimulation(
        samples=frames * walkers,
        temperature=temperature,
        validation=0.1,
        equilibration=_EQUILIBRATION,
        every=round(_bounded(sweeps / frames, 1, 5)),
        segment=min(frames, 100),
        tempering=moves.model_copy(update={"walkers": walkers}),
    )


def _bounded(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def planned_training(request: Request, method: str, data: str | None, molecule: str) -> RunConfig:
    """Return the training, before its steps are fitted to the time."""
    target = MoleculeConfig(molecule=molecule, temperature=request.temperature)
    if molecule == request.molecule:
        target = target.model_copy(
            update={"forcefield": request.forcefield, "constraints": request.constraints}
        )
    base = find_recipe("cmt" if method == "cmt" else "unbiased")
    evaluation = EvaluationConfig(samples=100_000, test_samples=20_000)
    update = {
        "target": target,
        "flow": FLOW,
        "data": DataConfig(path=data, samples=300_000, validation_samples=10_000),
        "evaluation": evaluation,
        "seed": request.seed,
        "training": base.training.model_copy(update={"batch": _BATCH, "log_every": 20}),
    }
    if method == "cmt" and request.evaluations is not None and base.annealing is not None:
        update["annealing"] = base.annealing.model_copy(update={"evaluations": request.evaluations})
    return base.model_copy(update=update)


def fitted(config: RunConfig, seconds: float, step: float) -> RunConfig:
    """Return a training whose steps fill a time."""
    steps = int(_bounded(seconds / step, _FEWEST_STEPS, _MOST_STEPS))
    warm_up = config.objective.warm_up and steps // 10
    update = {
        "objective": config.objective.model_copy(update={"warm_up": warm_up}),
        "training": config.training.model_copy(
            update={
                "steps": steps,
                "warm_up": min(200, steps // 10),
                "validate_every": max(1, steps // 25),
                "checkpoint_every": max(1, min(500, steps // 10)),
            }
        ),
    }
    if config.annealing is not None:
        update["annealing"] = config.annealing.model_copy(update={"stages": min(40, max(4, steps // 100))})
    return config.model_copy(update=update)


def make_plan(request: Request, molecule: Molecule) -> Plan:
    """Return the plan of a request."""
    method, reason = choose_method(request)
    simulation = None
    if method == "sampler":
        seconds = DATA_SHARE * 60 * request.minutes
        simulation = planned_simulation(molecule, request.temperature, seconds, request.seed)
    return Plan(method=method, reason=reason, simulation=simulation)


def describe(plan: Plan) -> str:
    """Say in a sentence what will be done."""
    drawn = "" if plan.simulation is None else f" {plan.simulation.samples:,} samples are drawn first."
    return f"Method: {METHODS[plan.method]}, because {plan.reason}.{drawn}"


def _evaluation_seconds(molecule: Molecule, temperature: float) -> float:
    """Return the time of one energy with its gradient, from batches; the shortest, as others may use the machine."""
    energy = molecule.energy(temperature)
    x = molecule.positions.float().expand(_WALKERS, -1, -1).contiguous()
    times = []
    for _ in range(_TIMED):
        start = time.perf_counter()
        energy.energy_and_gradient(x)
        times.append(time.perf_counter() - start)
    return min(times) / _WALKERS
