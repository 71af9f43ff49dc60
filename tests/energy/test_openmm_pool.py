"""OpenMM as a target: right numbers, whatever becomes of its workers."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import openmm
import pytest
import torch
from torch import Tensor

from boltzkit.energy.openmm_pool import OpenMMEnergy
from boltzkit.errors import UserError

ATOMS = 4
THERMAL = 0.00831446261815324 * 300


def chain() -> openmm.System:
    """Return four atoms on a string: springs between neighbours, a soft repulsion between all others."""
    system = openmm.System()
    springs, pairs = openmm.HarmonicBondForce(), openmm.NonbondedForce()
    for atom in range(ATOMS):
        system.addParticle(1.0)
        pairs.addParticle((-1) ** atom * 0.2, 0.2, 0.5)
        if atom:
            springs.addBond(atom - 1, atom, 0.15, 1000.0)
            pairs.addException(atom - 1, atom, 0.0, 0.1, 0.0)
    system.addForce(springs)
    system.addForce(pairs)
    return system


def configurations(n: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    line = torch.zeros(ATOMS, 3, dtype=torch.float64)
    line[:, 0] = 0.15 * torch.arange(ATOMS)
    return (line + 0.02 * torch.randn(n, ATOMS, 3, generator=generator, dtype=torch.float64)).to(dtype)


def expected(x: Tensor) -> Tensor:
    """Return the same reduced energy written out by hand."""
    total = torch.zeros(len(x), dtype=x.dtype)
    for i in range(ATOMS):
        for j in range(i + 1, ATOMS):
            r = (x[:, i] - x[:, j]).norm(dim=-1)
            if j == i + 1:
                total += 500.0 * (r - 0.15) ** 2
            else:
                charge = 138.93545764438198 * 0.04 * (-1) ** (j - i)
                total += 2.0 * ((0.2 / r) ** 12 - (0.2 / r) ** 6) + charge / r
    return total / THERMAL


def is_running(process: int) -> bool:
    """Return whether a process is there, be it a zombie."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait for a condition for as long as any machine may need."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize(("platform", "tolerance"), [("Reference", 1e-12), ("CPU", 1e-5)])
def test_energies_are_the_formula(platform: str, tolerance: float) -> None:
    x = configurations(7)
    torch.testing.assert_close(
        OpenMMEnergy(chain(), platform=platform)(x), expected(x), rtol=tolerance, atol=tolerance
    )


def test_the_gradient_is_that_of_the_formula_and_counts_once() -> None:
    x = configurations(5)
    target = OpenMMEnergy(chain())
    energy, gradient = target.energy_and_gradient(x)
    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(expected(leaf).sum(), leaf)
    torch.testing.assert_close(gradient, wanted)
    torch.testing.assert_close(energy, expected(x))
    assert target.evaluations == 5


def test_temperature_scales() -> None:
    x = configurations(3)
    torch.testing.assert_close(OpenMMEnergy(chain(), 600.0)(x), expected(x) / 2)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (5,)])
def test_batches_of_any_shape(workers: int, shape: tuple[int, ...]) -> None:
    x = configurations(max(1, torch.Size(shape).numel()))[: torch.Size(shape).numel()]
    x = x.reshape(*shape, ATOMS, 3).to(torch.float32)
    with OpenMMEnergy(chain(), workers=workers) as target:
        energy, gradient = target.energy_and_gradient(x)
        assert energy.shape == shape
        assert energy.dtype == gradient.dtype == torch.float32
        assert gradient.shape == x.shape
        torch.testing.assert_close(energy.flatten(), expected(x.reshape(-1, ATOMS, 3)), rtol=1e-4, atol=1e-4)


def test_workers_give_what_this_process_gives_in_order() -> None:
    x = configurations(23)
    with OpenMMEnergy(chain(), workers=2, chunk=4) as target:
        energy, gradient = target.energy_and_gradient(x)
        alone = OpenMMEnergy(chain()).energy_and_gradient(x)
        assert torch.equal(energy, alone[0])
        assert torch.equal(gradient, alone[1])
        assert torch.equal(target(x), alone[0])
        assert target.evaluations == 46


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("platform", ["Reference", "CPU"])
def test_a_coordinate_that_is_no_number_spoils_its_own_row_only(platform: str, workers: int) -> None:
    x = configurations(6)
    x[1, 2, 0], x[4, 0, 1] = torch.nan, torch.inf
    spoilt = torch.tensor([False, True, False, False, True, False])
    with OpenMMEnergy(chain(), platform=platform, workers=workers) as target:
        energy, gradient = target.energy_and_gradient(x)
    assert torch.equal(energy.isnan(), spoilt)
    assert torch.equal(gradient.isnan().all((1, 2)), spoilt)
    torch.testing.assert_close(energy[~spoilt], expected(x[~spoilt]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("platform", ["Reference", "CPU"])
def test_overlapping_atoms_are_huge_and_finite(platform: str) -> None:
    x = configurations(2)
    x[1, 3] = x[1, 0] + 1e-9
    energy, gradient = OpenMMEnergy(chain(), platform=platform).energy_and_gradient(x)
    assert energy.isfinite().all()
    assert gradient.isfinite().all()
    assert energy[1] > 1e8
    assert OpenMMEnergy(chain(), platform=platform, regularised=False)(x)[1] > 1e50


def test_a_killed_worker_loses_nothing() -> None:
    x = configurations(4000)
    wanted = OpenMMEnergy(chain())(x)
    found: list[Tensor] = []
    with OpenMMEnergy(chain(), workers=2, chunk=100) as target:
        call = threading.Thread(target=lambda: found.append(target(x)))
        call.start()
        assert until(lambda: len(target.worker_ids) == 2)
        victim = target.worker_ids[0]
        os.kill(victim, signal.SIGKILL)
        call.join()
        assert torch.equal(found[0], wanted)
        # Killed while idle as well; whichever of the two kills came at rest, the next call starts a new worker.
        for process in target.worker_ids:
            os.kill(process, signal.SIGKILL)
        assert torch.equal(target(x), wanted)
        assert victim not in target.worker_ids
        assert len(target.worker_ids) == 2


def test_a_hung_worker_is_ended_and_loses_nothing() -> None:
    x = configurations(200)
    wanted = OpenMMEnergy(chain())(x)
    with OpenMMEnergy(chain(), workers=1, timeout=60) as target:
        assert torch.equal(target(x), wanted)
        (hung,) = target.worker_ids
        os.kill(hung, signal.SIGSTOP)  # it lives, and does not answer
        target.timeout = 1.0
        found: list[Tensor] = []
        call = threading.Thread(target=lambda: found.append(target(x)))
        call.start()
        # Only the first attempt shall be short of time: a new worker needs some to start.
        assert until(lambda: hung not in target.worker_ids)
        target.timeout = 60.0
        call.join()
        assert torch.equal(found[0], wanted)


def test_configurations_that_hang_every_worker_are_named() -> None:
    with OpenMMEnergy(chain(), workers=1, timeout=1e-3) as target:
        with pytest.raises(UserError, match=r"rows 0 to 4 of the batch.*0\.001 s to answer"):
            target(configurations(5))
        target.timeout = 60.0
        assert torch.equal(target(configurations(5)), OpenMMEnergy(chain())(configurations(5)))


@pytest.fixture
def python_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> openmm.System:
    """Return a System whose force raises where x > 10 nm and ends its process where x > 20 nm."""
    code = """
        import os
        import signal

        import numpy as np


        def compute(state):
            positions = state.getPositions(asNumpy=True)._value
            if positions.max() > 20:
                os.kill(os.getpid(), signal.SIGKILL)
            if positions.max() > 10:
                raise ValueError("too far away")
            return float(positions[0, 0]), np.zeros(positions.shape)
    """
    (tmp_path / "unreliable_force.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    import unreliable_force  # type: ignore[import-not-found]

    system = openmm.System()
    system.addParticle(1.0)
    system.addForce(openmm.PythonForce(unreliable_force.compute))
    return system


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_is_no_number(python_force: openmm.System, workers: int) -> None:
    x = torch.zeros(5, 1, 3, dtype=torch.float64)
    x[:, 0, 0] = torch.tensor([1.0, 15.0, 2.0, 3.0, 16.0])
    with OpenMMEnergy(python_force, workers=workers) as target:
        energy = target(x)
        assert torch.equal(energy.isnan(), torch.tensor([False, True, False, False, True]))
        torch.testing.assert_close(energy[[0, 2, 3]] * THERMAL, x[[0, 2, 3], 0, 0])
        assert sum(target.failures.values()) == 2
        assert "too far away" in next(iter(target.failures))


def test_a_chunk_that_ends_every_worker_is_named(python_force: openmm.System) -> None:
    x = torch.zeros(6, 1, 3, dtype=torch.float64)
    x[4, 0, 0] = 25.0
    with OpenMMEnergy(python_force, workers=2, chunk=2) as target:
        with pytest.raises(UserError, match="rows 4 to 5 of the batch ended 3 OpenMM worker processes"):
            target(x)
        assert target(x[:4]).isfinite().all()


def test_workers_end_with_close() -> None:
    target = OpenMMEnergy(chain(), workers=2)
    assert target.worker_ids == []
    target(configurations(4))
    workers = target.worker_ids
    assert len(workers) == 2
    target.close()
    target.close()
    assert not any(is_running(worker) for worker in workers)
    assert target(configurations(1)).isfinite().all()
    target.close()


def test_workers_end_with_their_energy() -> None:
    target = OpenMMEnergy(chain(), workers=1)
    target(configurations(2))
    (worker,) = target.worker_ids
    del target
    gc.collect()
    assert not is_running(worker)


@pytest.mark.parametrize("ending", ["pass", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_workers_end_with_their_parent(ending: str, tmp_path: Path) -> None:
    # A script without a guard for its main part: workers must not run it again.
    script = f"""
        import os, signal, openmm, torch
        from boltzkit.energy.openmm_pool import OpenMMEnergy

        system = openmm.System()
        system.addParticle(1.0)
        target = OpenMMEnergy(system, workers=1)
        target(torch.zeros(3, 1, 3))
        print(len(target.worker_ids), flush=True)
        {ending}
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    # The pipes reach their end when nobody holds them any more: neither the script nor its worker.
    ran = subprocess.run(
        [sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.stderr == ""
    assert ran.stdout == "1\n"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: OpenMMEnergy(chain(), platform="Abacus"),
            "OpenMM cannot evaluate molecule on its Abacus platform",
        ),
        (lambda: OpenMMEnergy(openmm.System(), name="nothing"), "OpenMM cannot evaluate nothing"),
        (lambda: OpenMMEnergy(chain(), temperature=0.0), "molecule needs a finite temperature above zero"),
        (lambda: OpenMMEnergy(chain(), workers=-1), "workers of at least 0"),
        (lambda: OpenMMEnergy(chain(), chunk=0), "chunks of at least 1"),
        (lambda: OpenMMEnergy(chain())(torch.zeros(2, 5, 3)), r"takes configurations of shape \(4, 3\)"),
    ],
)
def test_mistakes_are_named(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make()
