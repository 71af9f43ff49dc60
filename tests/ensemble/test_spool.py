"""A drawing that stops goes on with the next chunk, and ends as if it had never stopped."""

import os
import signal
from pathlib import Path

import pytest
import torch

from boltzkit.energy.target import Target
from boltzkit.ensemble import Ensemble, draw, draw_into
from boltzkit.ensemble.spool import Spool
from boltzkit.errors import Interrupted

CHUNK = 10_000


class Spring(Target):
    """A spring that ends the drawing at a call: as a person would, or as a crash would."""

    name = "spring"

    def __init__(self, stop_at: int = 0, crash_at: int = 0) -> None:
        self.event_shape = torch.Size([2])
        self.calls, self.stop_at, self.crash_at = 0, stop_at, crash_at

    def _energy(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == self.stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        if self.calls == self.crash_at:
            raise RuntimeError("crash")
        return (x**2).sum(-1)


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("how", "kept"), [({"stop_at": 2}, 2), ({"crash_at": 3}, 2)])
def test_a_stopped_drawing_goes_on(how, kept, flow, tmp_path):
    n = 4 * CHUNK + 7
    first, second, whole = Spring(**how), Spring(), Spring()
    with pytest.raises((Interrupted, RuntimeError)):
        draw_into(tmp_path / "a", flow, first, 0, samples=n)
    assert files(tmp_path) == [".a.chunks"]
    draw_into(tmp_path / "a", flow, second, 0, samples=n)
    assert second.calls == 5 - kept
    assert files(tmp_path) == ["a"]
    expected, found = draw(flow, whole, n, 0), Ensemble.load(tmp_path / "a")
    assert torch.equal(found.x, expected.x)
    assert torch.equal(found.energy, expected.energy)
    assert torch.equal(found.log_prob, expected.log_prob)
    # What was spent before the stop counts too.
    assert found.energy_evaluations == expected.energy_evaluations == n


def test_until_an_effective_number_too(flow, tmp_path):
    with pytest.raises(Interrupted):
        draw_into(tmp_path / "a", flow, Spring(stop_at=1), 3, effective=15_000, limit=10 * CHUNK)
    second = Spring()
    found = draw_into(tmp_path / "a", flow, second, 3, effective=15_000, limit=10 * CHUNK)
    whole = draw_into(tmp_path / "b", flow, Spring(), 3, effective=15_000, limit=10 * CHUNK)
    assert found.summary() == whole.summary()
    assert second.calls == whole.n // CHUNK - 1


def test_chunks_of_something_else_are_not_taken(flow, tmp_path):
    with pytest.raises(Interrupted):
        draw_into(tmp_path / "a", flow, Spring(stop_at=1), 0, samples=2 * CHUNK)
    other = Spring()
    found = draw_into(tmp_path / "a", flow, other, 1, samples=2 * CHUNK)
    assert other.calls == 2
    assert torch.equal(found.x, draw(flow, Spring(), 2 * CHUNK, 1).x)


def test_a_damaged_chunk_is_drawn_again(flow, tmp_path):
    with pytest.raises(Interrupted):
        draw_into(tmp_path / "a", flow, Spring(stop_at=2), 0, samples=3 * CHUNK)
    first, _ = sorted((tmp_path / ".a.chunks").rglob("*.safetensors"))
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    second = Spring()
    found = draw_into(tmp_path / "a", flow, second, 0, samples=3 * CHUNK)
    assert second.calls == 2
    assert torch.equal(found.log_prob, draw(flow, Spring(), 3 * CHUNK, 0).log_prob)


def test_a_chunk_of_another_size_is_not_taken(flow, tmp_path):
    chunk = (torch.zeros(3, 2), torch.zeros(3), torch.zeros(3))
    with Spool(tmp_path / "a", flow, "spring") as spool:
        spool.put(0, chunk)
        assert spool.get(0, 3) is not None
        assert spool.get(0, 4) is None
        assert spool.get(1, 3) is None


def test_the_folder_one_stands_in_has_a_spool(flow, tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    for name in (".", "../a"):
        with Spool(Path(name), flow, "spring"):
            assert (tmp_path / ".a.chunks").is_dir()
