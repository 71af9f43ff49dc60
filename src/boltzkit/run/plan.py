"""From a request to a plan: which method, how many samples, how many steps. Made once, kept in the folder."""

import time

from pydantic import Field

from boltzkit.config import Config
from boltzkit.errors import UserError
from boltzkit.flow import SplineFlowConfig
from boltzkit.method import DataConfig, EvaluationConfig, MoleculeConfig, RunConfig, find_recipe
from boltzkit.molecule import Molecule
from boltzkit.molecule.graph import neighbours, reachable
from boltzkit.run.request import METHODS, Request
from boltzkit.simulate import BatchedSimulation, TemperingConfig, space_of

__all__ = [
    "Plan",
    "choose_method",
    "describe",
    "fitted",
    "flow_for",
    "make_plan",
    "planned_training",
    "stage_cost",
    "training_share",
]

_DATA_SHARE, _TRAINING_SHARE = 0.2, 0.6
"""Of the time; the rest is for samples, analysis and report."""
_FEWEST_STEPS, _MOST_STEPS = 400, 60_000
_FEWEST_WALKERS, _TOGETHER = 100, 512
"""Walkers at the target's temperature at least, and at all temperatures together at most: more of them evaluate no
faster, and each comes less far."""
_FEWEST_SWEEPS, _MOST_SWEEPS = 600, 6_000
"""Before the first sample."""
_EQUILIBRATING = 0.4
"""Share of the sampler's time before its first sample."""
_FEWEST_FRAMES, _MOST_SAMPLES = 100, 500_000
_SMALL = 30
"""Atoms up to which turns about bonds cross every barrier at the target's own temperature."""
_TURNING = TemperingConfig()
_LARGE = TemperingConfig(temperatures=4, hottest=2.0)
_FOLDING = TemperingConfig(temperatures=5, hottest=3.0, leaps=12, turns=4)
"""How walkers move: where turns about bonds suffice, in large molecules, and where rings fold, which turns cannot
help: a ribose forgets its fold in a third of the evaluations that it takes with the moves of large molecules."""
_BATCH = 512
_FLOWS = {
    12: SplineFlowConfig(pairs=5, hidden=(96, 96, 96)),
    30: SplineFlowConfig(pairs=6, hidden=(128, 128, 128)),
    60: SplineFlowConfig(pairs=6, hidden=(192, 192, 192)),
}
_LARGEST_FLOW = SplineFlowConfig(pairs=8, hidden=(256, 256, 256))
"""Architectures by the number of atoms up to which they are used, and that of all larger molecules."""
_REFERENCE_COST = 1.5
"""A step with a reference batch of half the size, in steps without."""
_IMPORTANCE_PER_MINUTE = 10_000
_TIMED = 8


class Plan(Config):
    """What will be done before the training, whose steps depend on how long that took."""

    method: str = Field(pattern="^(sampler|data|biased|cmt)$")
    """How the flow is trained."""
    reason: str
    """Why."""
    simulation: BatchedSimulation | None = None
    """Samples to draw first."""


def flow_for(n_atoms: int) -> SplineFlowConfig:
    """Return the architecture for a molecule's size: wider conditioners for more coordinates.

    >>> flow_for(22).hidden, flow_for(100).pairs
    ((128, 128, 128), 8)
    """
    fitting = [flow for most, flow in _FLOWS.items() if n_atoms <= most]
    return fitting[0] if fitting else _LARGEST_FLOW


def choose_method(request: Request, bias: str | None = None) -> tuple[str, str]:
    """Return the way to train and why it was chosen.

    The batched sampler draws equilibrium samples of a small molecule a thousand times faster than dynamics does, so
    that data are the cheapest teacher there is. Where evaluations are what counts, the flow learns from the energy
    alone.

    Args:
        request: what is asked for.
        bias: how the data depart from the Boltzmann distribution, None if they do not or there are none.
    """
    if request.evaluations is not None and (request.data or request.method not in ("auto", "cmt")):
        raise UserError(
            "--evaluations bounds learning from the energy alone: leave it out, or --data and --method."
        )
    if request.method != "auto":
        if (request.method in ("data", "biased")) != bool(request.data):
            raise UserError("--method data and biased go with --data, and --data with no other method.")
        if request.method == "data" and bias is not None:
            raise UserError(f"The data are biased ({bias}): leave out --method, or give --method biased.")
        return request.method, "you asked for it"
    if request.data:
        return ("data", "there are data") if bias is None else ("biased", f"the data are biased: {bias}")
    if request.evaluations is not None:
        return "cmt", f"the energy may be evaluated {request.evaluations:,} times"
    return "sampler", "the energy is cheap to evaluate in batches"


def planned_simulation(
    molecule: Molecule, temperature: float, seconds: float, seed: int
) -> BatchedSimulation:
    """Return a simulation by the batched sampler that takes about a time, a part of it to equilibrate.

    Large molecules take more than little time, since fewer walkers or sweeps than some are worth nothing.
    """
    moves = _moves(molecule).model_copy(update={"seed": seed})
    one = _sweep_seconds(molecule, temperature, moves)
    most = max(_FEWEST_WALKERS, _TOGETHER // moves.temperatures)
    before = _EQUILIBRATING * seconds / one
    walkers = int(_bounded(before / _FEWEST_SWEEPS, _FEWEST_WALKERS, most))
    sweeps = (1 - _EQUILIBRATING) * seconds / (walkers * one)
    frames = int(_bounded(sweeps / 2, _FEWEST_FRAMES, _MOST_SAMPLES // walkers))
    return BatchedSimulation(
        samples=frames * walkers,
        temperature=temperature,
        validation=0.1,
        equilibration=int(_bounded(before / walkers, _FEWEST_SWEEPS, _MOST_SWEEPS)),
        every=round(_bounded(sweeps / frames, 1, 5)),
        segment=min(frames, 100),
        tempering=moves.model_copy(update={"walkers": walkers}),
    )


def _moves(molecule: Molecule) -> TemperingConfig:
    if _has_pucker(molecule):
        return _FOLDING
    return _TURNING if molecule.n_atoms <= _SMALL else _LARGE


def _has_pucker(molecule: Molecule) -> bool:
    """Whether there is a ring that can fold: turns about bonds leave rings as they are."""
    near = neighbours(molecule.topology)
    return any(
        len(near[a]) == len(near[b]) == 4 and b in reachable(a, near, without=(a, b))
        for a, b in molecule.bonds.tolist()
    )


def _bounded(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def planned_training(
    request: Request,
    method: str,
    data: str | None,
    molecule: str,
    n_atoms: int,
    *,
    weighted: bool = False,
) -> RunConfig:
    """Return the training, before its steps are fitted to the time.

    Args:
        request: what is asked for.
        method: how to train.
        data: folder of the dataset.
        molecule: its name, or the folder it is kept in.
        n_atoms: its size.
        weighted: whether biased data have weights that let them stand for the target.
    """
    target = MoleculeConfig(molecule=molecule, temperature=request.temperature)
    if molecule == request.molecule:
        target = target.model_copy(
            update={"forcefield": request.forcefield, "constraints": request.constraints}
        )
    base = find_recipe(method if method in ("cmt", "biased") else "unbiased")
    evaluation = EvaluationConfig(samples=100_000, test_samples=20_000)
    update = {
        "target": target,
        "flow": flow_for(n_atoms),
        "data": DataConfig(path=data, samples=300_000, validation_samples=10_000, biased=method == "biased"),
        "evaluation": evaluation,
        "seed": request.seed,
        "training": base.training.model_copy(
            update={"batch": _BATCH, "log_every": 20, "gradients": "bfloat16"}
        ),
    }
    if method == "cmt" and request.evaluations is not None and base.annealing is not None:
        update["annealing"] = base.annealing.within(request.evaluations)
    if base.importance is not None and weighted:
        # Frames with fair weights stand for the target themselves; all of them still teach by their energies.
        update["importance"] = None
        update["data"] = DataConfig(
            path=data, samples=300_000, validation_samples=10_000, biased=True, weighted=True
        )
    elif base.importance is not None:
        drawn = round(_bounded(_IMPORTANCE_PER_MINUTE * request.minutes, 10_000, 200_000))
        update["importance"] = base.importance.model_copy(update={"samples": drawn})
    return base.model_copy(update=update)


def stage_cost(config: RunConfig) -> float:
    """Return what a step of all stages costs, in steps without reference."""
    if config.importance is not None:
        return 1.0 + _REFERENCE_COST
    return 1.0 if config.reference is None else _REFERENCE_COST


def fitted(config: RunConfig, seconds: float, step: float) -> RunConfig:
    """Return a training whose steps fill a time."""
    steps = int(_bounded(seconds / (stage_cost(config) * step), _FEWEST_STEPS, _MOST_STEPS))
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
    if config.importance is not None:
        update["importance"] = config.importance.model_copy(update={"steps": steps})
    if config.annealing is not None:
        before = min(config.annealing.pretraining, max(100, steps // 8))
        stages = min(40, max(4, steps // 100))
        update["annealing"] = config.annealing.model_copy(update={"stages": stages, "pretraining": before})
    return config.model_copy(update=update)


def make_plan(request: Request, molecule: Molecule, bias: str | None = None) -> Plan:
    """Return the plan of a request; see `choose_method` for the bias."""
    method, reason = choose_method(request, bias)
    simulation = None
    if method == "sampler":
        seconds = _DATA_SHARE * 60 * request.minutes
        simulation = planned_simulation(molecule, request.temperature, seconds, request.seed)
    return Plan(method=method, reason=reason, simulation=simulation)


def describe(plan: Plan, request: Request, molecule: Molecule) -> str:
    """Say in sentences what will be done, and what it will cost."""
    drawn = "" if plan.simulation is None else f" {plan.simulation.samples:,} samples are drawn first."
    share, training = 0.0 if plan.simulation is None else _DATA_SHARE, training_share(plan.method)
    asked = share * request.minutes
    # Close to what was asked for, what was asked for is told: the time of a sweep is known no better.
    data = asked if plan.simulation is None else _simulation_seconds(plan.simulation, molecule) / 60
    data = asked if data < 1.5 * asked else data
    times = [
        (data, "for samples to learn from"),
        (training * request.minutes, "to train"),
        ((1 - share - training) * request.minutes, "for the rest"),
    ]
    parts = ", ".join(f"{_told(minutes)} {what}" for minutes, what in times if minutes > 0)
    total = request.minutes - asked + data
    more = "" if data == asked else "; more than asked for, since so large a molecule is not sampled in less"
    return f"Method: {METHODS[plan.method]}, because {plan.reason}.{drawn} About {_told(total)} minutes: {parts}{more}."


def _told(minutes: float) -> str:
    return f"{minutes:.2g}" if minutes < 10 else f"{minutes:.0f}"


def training_share(method: str) -> float:
    """Return the share of the time that the training takes."""
    return _TRAINING_SHARE if method == "sampler" else _TRAINING_SHARE + _DATA_SHARE


def _simulation_seconds(simulation: BatchedSimulation, molecule: Molecule) -> float:
    sweep = _sweep_seconds(molecule, simulation.temperature, simulation.tempering)
    frames = simulation.samples / simulation.tempering.walkers
    return simulation.tempering.walkers * sweep * (simulation.equilibration + frames * simulation.every)


def _sweep_seconds(molecule: Molecule, temperature: float, moves: TemperingConfig) -> float:
    """Return the time of one walker's sweep at all temperatures, from batches; the shortest of some."""
    space = space_of(molecule, molecule.energy(temperature))
    y = space.coordinates(molecule.positions.float().expand(1, _TOGETHER, -1, -1).contiguous())
    times = []
    for _ in range(_TIMED):
        start = time.perf_counter()
        space.evaluate(y)
        times.append(time.perf_counter() - start)
    return min(times) / _TOGETHER * moves.temperatures * (moves.leaps + moves.turns + 1)
