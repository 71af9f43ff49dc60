"""Labelling: the potential's own energies, failures named, foreign frames refused, nothing stored twice."""

import json

import numpy as np
import pytest
import torch

from boltzkit.data import About, Dataset, DatasetWriter, GivenBias, Labeller, Window, WindowBias
from boltzkit.data.rounding import energy_error, rounding_step
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule


@pytest.fixture
def label(tmp_path, dipeptide):
    """Label arrays of positions, as if each had come in a file of its own."""

    def run(positions, name="a.npz", shard_frames=None, split="train", forces=False, **options):
        np.savez(tmp_path / name, positions=positions, **options.pop("arrays", {}))
        optional = (*(("forces",) if forces else ()), *(("bias",) if "bias" in options else ()))
        words = "a bias" if "bias" in options else None
        about = About.of(dipeptide, 300.0, bias=words, optional=optional)
        with DatasetWriter(tmp_path / "data", about) as writer:
            result = Labeller(dipeptide, writer, shard_frames).label(tmp_path / name, split, **options)
        return result, Dataset.open(tmp_path / "data", dipeptide)

    return run


def test_energies_are_those_of_openmm(label, frames, dipeptide):
    x = frames(30)
    result, dataset = label(x, shard_frames=8, forces=True)
    referee = dipeptide.energy(300.0, backend="openmm", workers=1)
    with referee:
        energy, gradient = referee.energy_and_gradient(torch.from_numpy(x).double())
    everything = np.arange(30)
    np.testing.assert_allclose(dataset.energy(everything), energy * BOLTZMANN * 300, rtol=1e-6)
    scale = float(gradient.abs().max()) * BOLTZMANN * 300
    forces = dataset.column("forces", everything)
    np.testing.assert_allclose(forces, -gradient * BOLTZMANN * 300, atol=1e-5 * scale)
    np.testing.assert_array_equal(dataset.positions(everything), x)
    assert (result.n_new, len(dataset.manifest.shards), dataset.verify(dipeptide).problems) == (30, 4, ())


def test_failed_frames_are_left_out_and_named(label, frames):
    x = frames(30)
    x[3, 5, 1] = np.nan
    x[4] = np.inf
    x[20, 7] += 1.0  # an atom on the other side of a box
    x[21, 7] = x[21, 6]  # and one on top of another
    result, dataset = label(x, shard_frames=10)
    assert result.left_out == {"coordinates are not finite": 2, "a bond is broken": 2}
    assert (result.n_new, len(dataset), dataset.n_left_out) == (26, 26, 4)
    left_out = [failed for shard in dataset.manifest.shards for failed in shard.left_out]
    assert {(failed.reason, failed.frames) for failed in left_out} == {
        ("coordinates are not finite", ((3, 4),)), ("a bond is broken", ((20, 21),))
    }  # fmt: skip
    assert dataset.column("frame", np.arange(26)).tolist() == sorted({*range(30)} - {3, 4, 20, 21})
    assert np.isfinite(dataset.energy(np.arange(26))).all()


def test_atoms_on_each_other_are_left_out(label, frames, dipeptide):
    x = frames(5)
    place = {(a.residue.name, a.name): a.index for a in dipeptide.topology.atoms()}
    methyl = [place["ALA", name] for name in ("CB", "HB1", "HB2", "HB3")]
    # The whole methyl moves, so that no bond breaks but its carbon lies on the amide hydrogen.
    x[2, methyl] += x[2, place["ALA", "H"]] - x[2, methyl[0]]
    x[2, methyl[0]] = x[2, place["ALA", "H"]]
    result, dataset = label(x)
    assert result.left_out == {"no finite energy below 1e+08 k_BT": 1}
    assert dataset.column("frame", range(4)).tolist() == [0, 1, 3, 4]


def test_the_same_file_again_adds_nothing_and_a_stopped_one_goes_on(label, frames, tmp_path, dipeptide):
    x = frames(30)
    np.savez(tmp_path / "a.npz", positions=x)
    about = About.of(dipeptide, 300.0)

    class Stop(Exception):
        pass

    with DatasetWriter(tmp_path / "data", about) as writer:
        append = writer.append

        def twice(key, *arguments, **options):
            if writer.n_committed >= 20:
                raise Stop
            append(key, *arguments, **options)

        writer.append = twice
        with pytest.raises(Stop):
            Labeller(dipeptide, writer, 10).label(tmp_path / "a.npz")
    assert len(Dataset.open(tmp_path / "data")) == 20
    for new, before in ((10, 20), (0, 30)):
        result, dataset = label(x, shard_frames=10)
        assert (result.n_new, result.n_before, result.trajectory) == (new, before, 0)
    assert dataset.column("frame", np.arange(30)).tolist() == list(range(30))


def test_each_file_is_a_trajectory_of_one_split(label, frames):
    label(frames(5, seed=0), "a.npz")
    result, _ = label(frames(6, seed=1), "b.npz", split="test")
    assert result.trajectory == 1
    with pytest.raises(
        UserError, match=r"is in .* already, in the split test: a trajectory belongs to one split"
    ):
        label(frames(6, seed=1), "copy-of-b.npz", split="train")
    _, dataset = label(frames(7, seed=2), "c.npz")
    assert dataset.manifest.counts == {"train": 12, "validation": 0, "test": 6}
    assert [len(t.frame) for t in dataset.trajectories()] == [5, 6, 7]


def test_angstrom_are_recognised(label, frames):
    with pytest.raises(
        UserError, match=r"a\.npz: bonds are typically .* so the coordinates are Å given as nm: divide by 10"
    ):
        label(frames(5) * 10)
    with pytest.raises(UserError, match="nm given as Å: multiply by 10"):
        label(frames(5) / 10)


def test_another_molecule_of_as_many_atoms_is_refused(label, dipeptide):
    other = Molecule.from_sequence("GLY-GLY-NME")
    assert other.n_atoms == dipeptide.n_atoms
    with pytest.raises(
        UserError, match=r"is not of ACE-ALA-NME: the bond \w+ of \w+ \d to \w+ of \w+ \d is typically"
    ):
        label(other.positions.numpy()[None])


def test_another_order_of_atoms_is_refused(label, frames):
    x = frames(5)
    x[:, [8, 9]] = x[:, [9, 8]]
    with pytest.raises(UserError, match="another order of atoms"):
        label(x)


def test_another_number_of_atoms_is_refused(label, frames):
    with pytest.raises(UserError, match="has 21 atoms, but ACE-ALA-NME has 22"):
        label(frames(5)[:, :21])


def test_elements_are_compared_where_a_file_has_them(tmp_path, dipeptide, frames):
    h5py = pytest.importorskip("h5py")
    last = list(dipeptide.topology.atoms())[-1]
    symbols = [atom.element.symbol for atom in dipeptide.topology.atoms()]
    results = []
    for name, known in (("right.h5", symbols), ("wrong.h5", [*symbols[:-1], "O"])):
        atoms = [{"index": i, "name": s, "element": s} for i, s in enumerate(known)]
        topology = {"chains": [{"residues": [{"atoms": atoms}]}]}
        with h5py.File(tmp_path / name, "w") as file:
            file["coordinates"] = frames(3)
            file["topology"] = [json.dumps(topology).encode()]
        with DatasetWriter(tmp_path / "data", About.of(dipeptide, 300.0)) as writer:
            try:
                results.append(Labeller(dipeptide, writer).label(tmp_path / name).n_new)
            except UserError as error:
                results.append(str(error))
    assert results[0] == 3
    assert f"its atom 22 is O, but {last.name} of NME 3 is H" in results[1]


def test_energies_in_the_file_are_compared(label, frames, potential):
    x = frames(20)
    result, _ = label(x, arrays={"energy": potential(x) / 4.184 + 3})
    assert result.comparison.unit == "kcal/mol"
    assert result.comparison.offset == pytest.approx(3 * 4.184)
    assert result.comparison.spread < 1e-6


def test_energies_of_another_force_field_are_refused_before_anything_is_stored(
    label, frames, potential, tmp_path
):
    x = frames(20)
    energy = {"energy": potential(x)[::-1]}
    with pytest.raises(UserError, match=r"a\.npz: the energies given with it are not those of this molecule"):
        label(x, arrays=energy)
    assert len(Dataset.open(tmp_path / "data")) == 0
    assert label(x, arrays=energy, ignore_energies=True)[0].n_new == 20
    with pytest.raises(UserError, match="has 20 frames, but 7 energies were given with it"):
        label(x, energies=np.zeros(7))


def test_rounded_coordinates_are_remarked_with_their_price(label, frames, potential):
    x = frames(200)
    rounded = np.round(x, 3)
    assert (rounding_step(rounded), rounding_step(np.round(x, 4)), rounding_step(x)) == (1e-3, 1e-4, 0.0)
    price = energy_error(rounded, 1e-3, potential)
    assert price == pytest.approx(float((potential(rounded) - potential(x)).std()), rel=0.2)
    # Energies of before the rounding agree then, and would not without knowing its price.
    result, _ = label(rounded, "rounded.npz", arrays={"energy": potential(x)})
    assert result.remarks[0].startswith("coordinates are rounded to 0.001 nm, which moves energies by about")
    assert label(x, "exact.npz")[0].remarks == []


def test_frames_that_the_potential_does_not_know_are_remarked(label, frames):
    hot = frames(50) + np.random.default_rng(5).normal(0, 0.008, (50, 22, 3)).astype(np.float32)
    (remark,) = label(hot)[0].remarks
    assert "above the minimum, where thermal motion explains 74.8" in remark


def test_the_bias_follows_its_frames_past_those_left_out(label, frames):
    x = frames(30)
    x[[3, 20]] = np.nan
    bias = GivenBias(np.arange(30.0), "a list", group="walkers")
    _, dataset = label(x, shard_frames=8, bias=bias)
    kept = sorted({*range(30)} - {3, 20})
    assert dataset.column("bias", np.arange(28)).tolist() == kept
    source = dataset.manifest.shards[0].source
    assert (source["bias"]["from"], source["bias"]["group"]) == ("a list", "walkers")
    result, _ = label(x, shard_frames=8, bias=bias)
    assert (result.n_new, result.n_before) == (0, 30)


def test_the_same_frames_with_another_bias_are_refused(label, frames):
    x = frames(6)
    label(x, bias=GivenBias(np.zeros(6), "a list"))
    with pytest.raises(UserError, match=r"is in .* already, with another bias: stored frames never change"):
        label(x, bias=GivenBias(np.ones(6), "a list"))
    with pytest.raises(UserError, match="has 6 frames, but 5 bias energies were given with it"):
        label(x, bias=GivenBias(np.ones(5), "a list"))


def test_a_window_needs_no_list_and_is_kept_with_its_frames(label, frames):
    x = frames(6)
    window = Window(distance=(0, 5), centre=0.3, force_constant=500.0)
    _, dataset = label(x, bias=WindowBias(window))
    distance = np.linalg.norm(x[:, 0].astype(float) - x[:, 5], axis=-1)
    np.testing.assert_allclose(dataset.column("bias", range(6)), 250 * (distance - 0.3) ** 2, rtol=1e-6)
    assert Window.parse(dataset.manifest.shards[0].source["umbrella"][0]) == window
    with pytest.raises(UserError, match="with another bias"):
        label(x, bias=WindowBias(window.model_copy(update={"centre": 0.4})))


def test_a_bias_of_another_simulation_is_remarked(label, frames):
    window = Window(distance=(0, 5), centre=3.0, force_constant=5000.0)
    (remark,) = label(frames(6), bias=WindowBias(window))[0].remarks
    assert "check that bias and frames belong together" in remark


def test_all_frames_of_a_dataset_have_a_bias_or_none(label, frames, tmp_path, dipeptide):
    label(frames(6))
    with DatasetWriter(tmp_path / "data", About.of(dipeptide, 300.0)) as writer:
        labeller = Labeller(dipeptide, writer)
        with pytest.raises(UserError, match=r"of all of its frames or of none, and .* stores none"):
            labeller.label(tmp_path / "a.npz", bias=GivenBias(np.zeros(6), "a list"))
