"""Every move leaves the exact distribution as it is, at every temperature; a wrong one is caught."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from boltzkit.energy import Harmonic, build_target
from boltzkit.energy.library import TargetConfig
from boltzkit.molecule import Molecule, find_molecule
from boltzkit.simulate import CartesianSpace, PlainSpace, Tempering, TemperingConfig, moves
from boltzkit.simulate.moves import hamiltonian, swap
from boltzkit.simulate.turns import find_turns, turned


@pytest.fixture(scope="module")
def peptide() -> Molecule:
    return find_molecule("alanine-dipeptide-cartesian")


def harmonic() -> PlainSpace:
    return PlainSpace(Harmonic.from_frequencies(torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)))


def second_moments(space: PlainSpace, config: TemperingConfig, sweeps: int) -> Tensor:
    """Return ⟨y²⟩ of every coordinate at every temperature, ``(temperatures, dim)``."""
    start = torch.zeros(1, *space.event_shape, dtype=torch.float64)
    run = Tempering.start(space, config, start)
    for _ in run.run(30, adapt=True):
        pass
    total = torch.zeros(config.temperatures, *space.event_shape, dtype=torch.float64)
    for _ in run.run(sweeps):
        total += run.walkers.y.square().mean(1)
    return total / sweeps


def test_a_harmonic_well_at_all_temperatures() -> None:
    space = harmonic()
    config = TemperingConfig(walkers=1000, temperatures=3, hottest=4.0, step=0.3, leaps=6)
    found = second_moments(space, config, 60)
    variance = torch.linalg.inv(space.target.stiffness).diagonal()  # type: ignore[attr-defined]
    exact = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)[:, None] * variance
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0)


def test_a_move_accepted_always_is_caught() -> None:
    # The control: with steps this long and no accept step the same moments are far off.
    space = harmonic()
    step, beta = torch.full((1, 1), 0.45, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    walkers = space.evaluate(torch.zeros(1, 4000, 3, dtype=torch.float64))
    careless, eager = walkers, _Eager(space)
    for seed in range(60):
        random = torch.Generator().manual_seed(seed)
        walkers = hamiltonian(walkers, space, beta, step, 3, random).walkers
        careless, accepted = hamiltonian(careless, eager, beta, step, 3, random)
        assert accepted.all()
    exact = torch.linalg.inv(space.target.stiffness).diagonal()  # type: ignore[attr-defined]
    torch.testing.assert_close(walkers.y.square().mean((0, 1)), exact, rtol=0.1, atol=0)
    assert (careless.y.square().mean((0, 1)) / exact - 1).abs().max() > 0.3


class _Eager(PlainSpace):
    """A space whose energy seems to fall at every look, so that all is accepted, but whose slopes are right."""

    def __init__(self, space: PlainSpace) -> None:
        super().__init__(space.target)
        self.looks = 0

    def evaluate(self, y: Tensor):  # type: ignore[no-untyped-def]
        found = super().evaluate(y)
        self.looks += 1
        return found._replace(energy=torch.full_like(found.energy, -1e6 * self.looks))


def test_swaps_carry_walkers_between_wells() -> None:
    # Started in the shallow well: at the low temperature alone, few find the deep one.
    target = build_target(TargetConfig(name="double-well"))
    space = PlainSpace(target)
    start = torch.tensor([[1.7, 0.0]], dtype=torch.float64)
    config = TemperingConfig(walkers=400, temperatures=6, hottest=12.0, step=0.1, leaps=8)

    def share(config: TemperingConfig) -> float:
        run = Tempering.start(space, config, start)
        for _ in run.run(100, adapt=True):
            pass
        return sum(float((s.y[:, 0] > 0).double().mean()) for s in run.run(300)) / 300

    grid = torch.linspace(-4, 4, 2001, dtype=torch.float64)
    weight = torch.exp(-target(torch.stack([grid, torch.zeros_like(grid)], -1)))
    exact = float(weight[grid > 0].sum() / weight.sum())
    assert share(config) == pytest.approx(exact, abs=0.04)
    assert abs(share(config.model_copy(update={"temperatures": 1})) - exact) > 0.2


def test_a_swap_moves_whole_configurations() -> None:
    space = harmonic()
    y = torch.randn(4, 50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    walkers = space.evaluate(y)
    beta = torch.tensor([[1.0], [0.7], [0.5], [0.3]], dtype=torch.float64)
    for odd in (False, True):
        moved, accepted = swap(walkers, beta, odd, torch.Generator().manual_seed(1))
        again = space.evaluate(moved.y)
        torch.testing.assert_close(moved.energy, again.energy)
        torch.testing.assert_close(moved.energy_slope, again.energy_slope)
        torch.testing.assert_close(moved.energy.sum(0), walkers.energy.sum(0))
        assert accepted[(1 if odd else 0) :: 2].any()
        assert not accepted[(0 if odd else 1) :: 2].any()


def test_an_energy_that_is_no_number_is_never_accepted() -> None:
    space = harmonic()
    good = space.evaluate(torch.zeros(1, 8, 3, dtype=torch.float64))

    class Broken(PlainSpace):
        def evaluate(self, y: Tensor):  # type: ignore[no-untyped-def]
            return super().evaluate(y)._replace(energy=torch.full(y.shape[:2], torch.nan, dtype=y.dtype))

    step = torch.full((1, 1), 0.1, dtype=torch.float64)
    moved = hamiltonian(good, Broken(space.target), torch.ones_like(step), step, 2, torch.Generator())
    assert not moved.accepted.any()
    assert torch.equal(moved.walkers.y, good.y)


def test_a_turn_keeps_lengths_and_volume_and_is_undone(peptide: Molecule) -> None:
    x = peptide.positions
    turns = find_turns(peptide)
    assert len(turns) == 7
    angle = torch.tensor(0.8, dtype=torch.float64)
    for turn in turns:
        moved = turned(x, turn, angle)
        assert (moved - x).norm() > 0.01
        torch.testing.assert_close(turned(moved, turn, -angle), x, rtol=0, atol=1e-12)
        lengths = [(p[peptide.bonds[:, 0]] - p[peptide.bonds[:, 1]]).norm(dim=-1) for p in (x, moved)]
        torch.testing.assert_close(*lengths, rtol=0, atol=1e-12)
    jacobian = torch.func.jacrev(lambda flat: turned(flat.reshape(22, 3), turns[3], angle).reshape(-1))
    assert float(torch.linalg.slogdet(jacobian(x.reshape(-1))).logabsdet) == pytest.approx(0, abs=1e-9)


def test_rings_do_not_turn() -> None:
    proline = Molecule.from_sequence("ACE-PRO-NME")
    ring = {"N", "CA", "CB", "CG", "CD"}
    names = [(atom.residue.name, atom.name) for atom in proline.topology.atoms()]
    for turn in find_turns(proline):
        ends = {names[turn.origin], names[turn.other]}
        assert not ends <= {("PRO", name) for name in ring}


def test_going_on_from_the_state_is_the_same_run(peptide: Molecule) -> None:
    config = TemperingConfig(walkers=8, temperatures=2, hottest=1.5, leaps=3, turns=2)
    space = CartesianSpace(peptide, peptide.energy())
    start = peptide.positions.float()[None]
    whole, part = (Tempering.start(space, config, start) for _ in range(2))
    for _ in whole.run(6):
        pass
    for _ in part.run(3):
        pass
    resumed = replace(part, walkers=space.evaluate(part.walkers.y))
    for _ in resumed.run(3):
        pass
    assert torch.equal(resumed.walkers.y, whole.walkers.y)
    other = Tempering.start(space, config.model_copy(update={"seed": 1}), start)
    for _ in other.run(6):
        pass
    assert not torch.equal(other.walkers.y, whole.walkers.y)


def test_the_virial_of_a_molecule_is_that_of_equipartition(peptide: Molecule) -> None:
    # ⟨y · ∂u/∂y⟩ = T/T₀ times the number of coordinates, about the centre less the three that translate. Walkers are
    # independent, so their scatter gives the standard error; one temperature is the other's control.
    config = TemperingConfig(walkers=400, temperatures=2, hottest=2.0, leaps=4, turns=2)
    run = Tempering.start(CartesianSpace(peptide, peptide.energy()), config, peptide.positions.float()[None])
    for _ in run.run(60, adapt=True):
        pass
    virial = []
    for _ in run.run(60):
        y = run.walkers.y
        centred = y - y.mean(2, keepdim=True)
        virial.append((centred * run.walkers.energy_slope).sum((2, 3)).double())
    per_walker = torch.stack(virial).mean(0)
    error = per_walker.std(dim=1) / 20
    off = (per_walker.mean(1) - torch.tensor([63.0, 126.0], dtype=torch.float64)).abs()
    assert (error < torch.tensor([4.0, 8.0])).all()
    assert (off < 4 * error).all()


def test_no_draw_accepts_what_is_impossible(peptide: Molecule, monkeypatch: pytest.MonkeyPatch) -> None:
    """A float32 draw is zero once in 2²⁴: even the smallest number that is drawn must refuse overlapping atoms."""
    drawn = []

    def smallest(like: Tensor, generator: torch.Generator) -> Tensor:
        drawn.append(like.dtype)
        return torch.full_like(like, torch.finfo(like.dtype).eps / 2)

    monkeypatch.setattr(moves, "_uniform", smallest)
    space = CartesianSpace(peptide, peptide.energy())
    walkers = space.evaluate(peptide.positions.float().expand(1, 2, -1, -1))
    worse = walkers._replace(energy=walkers.energy + 30.0)
    gain = -30.0 * torch.ones(1, 2)
    moved = moves._accept(walkers, worse, gain, torch.Generator())
    assert drawn == [torch.float64]
    assert moved.accepted.all()  # e⁻³⁰ is larger than 2⁻⁵³: the draw is as fine as that
    assert not moves._accept(walkers, worse, 2 * gain, torch.Generator()).accepted.any()
