"""Two runs of one molecule agree; the same molecule in another force field does not."""

import math
from pathlib import Path

import pytest
import torch

from boltzkit.data import Dataset
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule, find_molecule
from boltzkit.simulate import BatchedSimulation, TemperingConfig, simulate_batched
from boltzkit.simulate.agreement import Compared, compare_datasets, conditional_mean


def sampled(molecule: Molecule, folder: Path, seed: int) -> Dataset:
    config = BatchedSimulation(
        samples=64 * 30,
        equilibration=60,
        every=2,
        segment=30,
        tempering=TemperingConfig(walkers=64, seed=seed),
    )
    simulate_batched(molecule, config, folder, lambda text: None)
    return Dataset.open(folder, molecule)


def test_runs_agree_and_force_fields_do_not(peptide: Molecule, tmp_path: Path) -> None:
    first, second = (sampled(peptide, tmp_path / str(seed), seed) for seed in (0, 1))
    agreement = compare_datasets(first, second, peptide)
    assert agreement.good
    assert {c.name for c in agreement.compared} >= {"energy", "α_R ALA2, φ < 0", "cos ψ ALA2, φ < 0"}
    other = sampled(find_molecule("alanine-dipeptide"), tmp_path / "other", 0)
    wrong = compare_datasets(first, other, peptide)
    assert not wrong.good
    # Not by the energy alone, whose zero means nothing.
    assert max(abs(c.deviation) for c in wrong.compared if c.name != "energy") > 4
    assert wrong.to_json()["observables"][0]["deviation"] == wrong.compared[0].deviation


def test_a_conditional_mean_looks_at_what_was_asked() -> None:
    values = torch.tensor([[1.0, 2.0, 9.0, 9.0], [3.0, 2.0, 9.0, 9.0]])
    given = torch.tensor([[True, True, False, False]]).expand(2, -1)
    mean, error = conditional_mean(values, given)
    assert mean == pytest.approx(2.0)
    assert error > 0
    nowhere = conditional_mean(values, torch.zeros_like(given))
    assert math.isnan(nowhere[0])
    assert nowhere[1] == math.inf


def test_deviations_are_in_standard_errors_of_the_difference() -> None:
    assert Compared("x", (1.0, 0.3), (0.0, 0.4)).deviation == pytest.approx(2.0)


def test_an_empty_dataset_is_refused(peptide: Molecule, tmp_path: Path) -> None:
    dataset = sampled(peptide, tmp_path, 0)
    with pytest.raises(UserError, match="no samples to compare"):
        compare_datasets(dataset, dataset.split("test"), peptide)


def test_what_one_side_has_never_seen_is_no_agreement() -> None:
    never, seen = (math.nan, math.inf), (0.2, 0.01)
    assert Compared("φ < 0", never, seen).deviation == math.inf
    assert Compared("φ < 0", never, never).deviation == 0
    assert Compared("α_R", (0.0, 0.0), (0.0, 0.0)).deviation == 0
    assert Compared("α_R", (0.0, 0.0), (1.0, 0.0)).deviation == -math.inf
