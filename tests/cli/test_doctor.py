"""The doctor passes a healthy machine, and finds what is planted in an ill one."""

import pytest
import torch

from boltzkit.cli import checks
from boltzkit.cli.doctor import _kernels
from boltzkit.coordinates import Bijection
from boltzkit.energy import Harmonic
from boltzkit.native import load_library


def test_a_healthy_machine(cli):
    ending = cli("doctor")
    assert (ending.code, ending.err) == (0, "")
    assert ending.out.count("✓") == 3 + len(checks.MOLECULES)
    assert "✗" not in ending.out
    assert torch.__version__ in ending.out
    assert "C++ compiler" in ending.out
    assert "4 compiled" in ending.out or "none without a compiler" in ending.out


def test_kernels_that_do_not_compile_are_named(tmp_path, monkeypatch):
    script = tmp_path / "broken"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    load_library.cache_clear()
    try:
        told = _kernels()
    finally:
        load_library.cache_clear()
    assert told.startswith("kernel.cpp, layers.cpp, spline.cpp, tanh_layers.cpp cannot be compiled")


class Scaling(Bijection):
    """x = 2z, which may claim a wrong log-determinant."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def transform(self, z):
        return 2 * z, z.new_full(z.shape[:-1], z.shape[-1]) * torch.tensor(
            2.0, dtype=z.dtype
        ).log() + self.error

    def inverse(self, x):
        z = x / 2
        return z, -self.transform(z)[1]


@pytest.mark.parametrize(("error", "good"), [(0.0, True), (1e-6, False)])
def test_a_wrong_log_determinant_is_found(error, good):
    assert checks.check_log_det(Scaling(error)).good is good


def test_the_checked_flow_is_not_the_identity():
    _, log_det = checks._flow().bijection.transform(torch.ones(3, 4, dtype=torch.float64))
    assert (log_det.abs() > 0.01).all()


@pytest.mark.parametrize(("error", "good"), [(0.0, True), (0.1, False)])
def test_a_wrong_log_z_is_found(monkeypatch, error, good):
    exact = Harmonic.log_z.fget
    monkeypatch.setattr(Harmonic, "log_z", property(lambda self: exact(self) + error))
    frequencies = torch.tensor([1.0, 2.0, 3.0, 5.0], dtype=torch.float64)
    assert checks.check_log_z(Harmonic.from_frequencies(frequencies)).good is good


def test_an_ill_machine_gets_exit_code_2(cli, monkeypatch):
    def accept_anything(path):
        return {}, {}

    monkeypatch.setattr(checks, "read_checkpoint", accept_anything)
    ending = cli("doctor")
    assert ending.code == 2
    assert "✗ A checkpoint comes back changed, and a damaged one is accepted." in ending.out
    assert ending.out.count("✓") == 2 + len(checks.MOLECULES)


def test_a_check_that_breaks_down_is_a_finding(cli, monkeypatch):
    monkeypatch.setattr(checks, "save_checkpoint", lambda *_: 1 / 0)
    ending = cli("doctor")
    assert ending.code == 2
    assert "✗ A checkpoint could not be checked: ZeroDivisionError: division by zero" in ending.out
