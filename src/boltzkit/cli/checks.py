"""Self-checks of a machine that run in seconds, each against something known exactly."""

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from boltzkit.coordinates import Bijection
from boltzkit.energy import ForceField, Harmonic, OpenMMEnergy, Target
from boltzkit.energy.forcefield import check_parity
from boltzkit.energy.forcefield.parity import perturbed
from boltzkit.errors import UserError
from boltzkit.flow import Flow, RealNVPConfig, build_realnvp
from boltzkit.molecule import MOLECULES, Molecule, find_molecule
from boltzkit.randomness import generator
from boltzkit.training import TrainingConfig, TrainState, checkpoints, read_checkpoint, save_checkpoint
from boltzkit.weights import LogWeights

__all__ = ["Finding", "check_checkpoint", "check_force_field", "check_log_det", "check_log_z", "run_checks"]

_DIM = 4


@dataclass(frozen=True)
class Finding:
    """Whether a check passed, and what it saw."""

    good: bool
    sentence: str


def run_checks() -> Iterator[Finding]:
    """Run all checks; one that breaks down is a finding too, and the others still run."""
    checks: tuple[Callable[[], Finding], ...] = (
        lambda: check_log_det(_flow().bijection),
        lambda: check_log_z(Harmonic.from_frequencies(torch.logspace(0, 1, _DIM, dtype=torch.float64))),
        check_checkpoint,
        *(partial(check_force_field, name) for name in MOLECULES),
    )
    names = ("The flow's log-determinant", "The reweighted log Z", "A checkpoint", *MOLECULES)
    for name, check in zip(names, checks, strict=True):
        try:
            yield check()
        except Exception as error:
            yield Finding(False, f"{name} could not be checked: {type(error).__name__}: {error}")


def check_log_det(bijection: Bijection) -> Finding:
    """Compare log|∂x/∂z| of a float64 bijection with the determinant of autograd's Jacobian."""
    z = torch.randn(5, _DIM, generator=generator(0, "doctor"), dtype=torch.float64)
    _, log_det = bijection.transform(z)
    jacobian = torch.func.jacrev(lambda row: bijection.transform(row[None])[0][0])
    exact = torch.stack([torch.linalg.slogdet(jacobian(row)).logabsdet for row in z])
    worst = float((log_det - exact).detach().abs().max())
    return Finding(
        worst < 1e-9,
        f"The flow's log-determinant differs from the Jacobian's by {worst:.1e} (allowed: 1e-9).",
    )


def check_log_z(target: Harmonic, n: int = 20_000, widening: float = 1.3) -> Finding:
    r"""Recover log Z of a harmonic well by reweighting samples of the same Gaussian, widened.

    With x − x₀ = s K^{−1/2} ε the proposal's density is
    log q = −|ε|²/2 + ½ log det K − d log s − (d/2) log 2π.
    """
    narrow = target.sample(n, generator(1, "doctor")) - target.centre
    x = target.centre + widening * narrow
    squared = ((narrow @ target.stiffness) * narrow).sum(-1)
    constant = 0.5 * torch.logdet(target.stiffness) - _DIM * math.log(widening * math.sqrt(2 * math.pi))
    weights = LogWeights.from_samples(constant - 0.5 * squared, target(x))
    deviation = abs(weights.log_mean() - target.log_z) / weights.log_mean_error()
    return Finding(
        deviation < 4,
        f"The reweighted log Z of a harmonic well is {deviation:.1f} standard errors from the exact one "
        "(allowed: 4).",
    )


def check_checkpoint() -> Finding:
    """Write a state, read it back bit for bit, and see a damaged copy refused."""
    with tempfile.TemporaryDirectory() as folder:
        state = TrainState.start(_flow(), TrainingConfig())
        path = save_checkpoint(Path(folder), state)
        stored, _ = read_checkpoint(checkpoints(Path(folder))[-1])
        written = state.tensors()
        same = stored.keys() == written.keys() and all(torch.equal(stored[k], written[k]) for k in written)
        content = bytearray((path / "state.safetensors").read_bytes())
        content[-1] ^= 1
        (path / "state.safetensors").write_bytes(content)
        try:
            read_checkpoint(path)
            refused = False
        except UserError:
            refused = True
    return Finding(
        same and refused,
        f"A checkpoint comes back {'bit for bit' if same else 'changed'}, and a damaged one is "
        f"{'refused' if refused else 'accepted'}.",
    )


def check_force_field(name: str) -> Finding:
    """Compare the batched force field of a named molecule with OpenMM's Reference platform."""
    molecule = find_molecule(name)
    report = check_parity(molecule.system, molecule.positions, name=name)
    ours = _per_second(ForceField(molecule.system, compiled=False), molecule, 4096)
    theirs = _per_second(OpenMMEnergy(molecule.system), molecule, 32)
    return Finding(
        report.ok,
        f"The batched energies of {name} ({molecule.n_atoms} atoms) differ from OpenMM's by "
        f"{report.energy_error:.1e} kJ/mol at most (in single precision {report.float32_error:.1e}); "
        f"{ours:,.0f} a second, OpenMM Reference {theirs:,.0f}.",
    )


def _per_second(energy: Target, molecule: Molecule, n: int) -> float:
    """Return energies per second, the best of three calls after a first one."""
    x = perturbed(molecule.positions, n, seed=0).float()
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        energy(x)
        seconds.append(time.perf_counter() - start)
    return n / min(seconds[1:])


def _flow() -> Flow:
    """Return a small float64 flow away from the identity it would start as."""
    flow = build_realnvp(RealNVPConfig(layers=4, hidden=(16, 16)), _DIM, (0,), batched=False).double().eval()
    random = generator(2, "doctor")
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=random, dtype=torch.float64))
    return flow
