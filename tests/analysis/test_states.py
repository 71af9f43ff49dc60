"""States: ranges that go round, states found without being told, and files of states with their mistakes."""

import math

import pytest
import torch

from boltzkit.analysis import (
    Observable,
    analyse,
    automatic_states,
    observables_of,
    read_states,
    write_analysis,
)
from boltzkit.analysis.analyse import state_results
from boltzkit.analysis.states import within
from boltzkit.ensemble import Ensemble, Subject
from boltzkit.errors import UserError
from boltzkit.molecule import pdb_text
from boltzkit.molecule.torsions import turned_about

ANGLE = Observable("angle", "rad", True, lambda x: x)
LENGTH = Observable("length", "nm", False, lambda x: x)


def degrees(*values):
    return torch.tensor([math.radians(v) for v in values], dtype=torch.float64)


@pytest.fixture
def write(tmp_path):
    def write_states(text):
        path = tmp_path / "states.toml"
        path.write_text(text)
        return path

    return write_states


def test_ranges_of_angles_go_round():
    x = degrees(-180, -100, -10, 0, 10, 100, 170, 180)
    assert within(ANGLE, *degrees(90, -90).tolist())(x).tolist() == [1, 1, 0, 0, 0, 1, 1, 1]
    assert within(ANGLE, *degrees(-90, 90).tolist())(x).tolist() == [0, 0, 1, 1, 1, 0, 0, 0]
    assert within(ANGLE, *degrees(0, 360).tolist())(x).all()
    assert within(ANGLE, *degrees(-180, 180).tolist())(x).all()
    assert not within(ANGLE, -3.0, 3.0)(torch.tensor([math.nan])).any()


def test_ranges_of_lengths_hold_their_lower_end():
    x = torch.tensor([0.1, 0.2, 0.3, math.nan])
    assert within(LENGTH, 0.1, 0.3)(x).tolist() == [True, True, False, False]


def test_both_signs_of_phi(peptide_ensemble):
    ensemble = peptide_ensemble(5_000, failed=30)
    states = automatic_states(ensemble)
    assert [state.name for state in states] == ["phi ALA2 < 0", "phi ALA2 > 0"]
    left, right = state_results(ensemble, states)
    assert left.n_samples + right.n_samples == 4_970
    assert left.population.value + right.population.value == pytest.approx(1)
    assert abs(right.population.value - 0.2) < 4 * right.population.standard_error
    assert abs(right.free_energy.value - math.log(4)) < 4 * right.free_energy.standard_error
    assert (right.reference, left.free_energy.value) == ("phi ALA2 < 0", 0)


def test_cis_and_trans_where_both_are(peptide_ensemble, dipeptide):
    ensemble = peptide_ensemble(200)
    omega = observables_of(dipeptide)["omega ALA2-NME3"]
    atoms = {(a.residue.name, a.name): a.index for a in dipeptide.topology.atoms()}
    names = [a for a in dipeptide.topology.atoms() if a.residue.name == "NME" and a.name != "N"]
    beyond = torch.tensor([a.index for a in names])
    x = ensemble.x.clone()
    bond = (atoms["ALA", "C"], atoms["NME", "N"])
    x[:50] = turned_about(x[:50], bond, beyond, torch.full((50,), math.pi))
    assert omega.values(x)[:50].abs().max() < 0.6
    turned = Ensemble.from_samples(x, ensemble.energy, ensemble.log_prob, subject=ensemble.subject)
    states = [state for state in automatic_states(turned) if state.group == omega.name]
    assert [state.name for state in states] == [f"{omega.name} trans", f"{omega.name} cis"]
    assert [int(state.inside(x).sum()) for state in states] == [150, 50]


def test_basins_of_a_ligand(ligand):
    molecule = ligand("aspirin")
    found = observables_of(molecule)["C1-C2-O4-C5"]
    x = molecule.positions.repeat(400, 1, 1)
    names = {atom.name: atom.index for atom in molecule.topology.atoms()}
    beyond = torch.tensor([names["C1"], names["O3"], *(names[f"H{i}"] for i in (14, 15, 16))])
    x[200:] = turned_about(x[200:], (names["O4"], names["C2"]), beyond, torch.full((200,), math.pi))
    x = x + 0.003 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    subject = Subject(molecule, 300.0)
    ensemble = Ensemble.from_samples(x, torch.zeros(400), torch.zeros(400), subject=subject)
    states = [state for state in automatic_states(ensemble) if state.group == found.name]
    assert len(states) == 2
    assert sorted(int(state.inside(x).sum()) for state in states) == [200, 200]
    assert all(" near " in state.name for state in states)


def test_what_is_no_molecule_has_no_automatic_states(gaussian_ensemble):
    with pytest.raises(UserError, match="no molecule: give states"):
        automatic_states(gaussian_ensemble(1.0, 10))


def test_a_file_of_states(write, tmp_path, peptide_ensemble, dipeptide):
    ensemble = peptide_ensemble(2_000, failed=10)
    (tmp_path / "near.pdb").write_text(pdb_text(dipeptide, ensemble.x[0].double().numpy()))
    path = write(
        """
        [helix]
        "phi ALA2" = [-120, -30]
        "ψ_ala2" = { above = -90, below = 30 }

        [through]
        "psi ALA2" = [90, -150]

        [long]
        end_to_end = { above = 0.62 }

        [near]
        rmsd = { to = "near.pdb", below = 0.03 }

        [reference]
        rmsd = [0, 0.05]
        """
    )
    states = {state.name: state.inside(ensemble.x) for state in read_states(path, dipeptide)}
    observables = observables_of(dipeptide)
    phi, psi = (observables[f"{name} ALA2"].values(ensemble.x).rad2deg() for name in ("phi", "psi"))
    assert torch.equal(states["helix"], (phi >= -120) & (phi < -30) & (psi >= -90) & (psi < 30))
    assert torch.equal(states["through"], (psi >= 90) | (psi < -150))
    assert torch.equal(states["long"], observables["end_to_end"].values(ensemble.x) >= 0.62)
    assert torch.equal(states["reference"], observables["rmsd"].values(ensemble.x) < 0.05)
    assert bool(states["near"][0])
    assert 1 <= int(states["near"].sum()) < 1_000
    assert all(mask.any() and not mask[-10:].any() for mask in states.values())


def test_the_cluster_of_an_earlier_analysis_is_a_state(write, tmp_path, peptide_ensemble, dipeptide):
    earlier = analyse(peptide_ensemble(1_000))
    write_analysis(earlier, tmp_path)
    path = write('[second]\ncluster = { analysis = "analysis.json", number = 2 }\n')
    (state,) = read_states(path, dipeptide)
    ensemble = peptide_ensemble(2_000, seed=5, failed=5)
    (found,) = state_results(ensemble, [state])
    assert abs(found.population.value - earlier.clusters[1].population.value) < 0.05
    assert not state.inside(ensemble.x)[-5:].any()
    for text, sentence in (
        ('{ analysis = "analysis.json", number = 9 }', "clusters 1 to 4, not 9"),
        ('{ analysis = "states.toml", number = 1 }', "not valid JSON"),
        ("2", "write it as"),
        ('{ analysis = "analysis.json", nummer = 1 }', "Did you mean 'number'?"),
    ):
        with pytest.raises(UserError, match=sentence.replace("?", r"\?")):
            read_states(write(f"[a]\ncluster = {text}\n"), dipeptide)


MISTAKES = {
    "": "has no states",
    "x = [": "not valid TOML",
    "x = 1": r"state 'x': a state is a table, \[x\]",
    "[a]": "has no conditions",
    '[a]\n"phi ALA3" = [0, 90]': "state 'a', 'phi ALA3': there is no such observable. Did you mean 'phi ALA2'",
    "[a]\nclustr = 1": "Did you mean 'cluster'",
    '[a]\n"phi ALA2" = [0, 90, 180]': r"a range is \[from, to\]",
    '[a]\n"phi ALA2" = "left"': "in degrees, not 'left'",
    '[a]\n"phi ALA2" = [0, "a"]': "to must be a number, not 'a'",
    '[a]\n"phi ALA2" = [0, nan]': "must be a number, not nan",
    '[a]\n"phi ALA2" = [true, 5]': "from must be a number",
    '[a]\n"phi ALA2" = [-3.14, 0]': "looks like radians",
    '[a]\n"phi ALA2" = [0, 400]': "from -360 to 360",
    '[a]\n"phi ALA2" = [90, 90]': "nothing lies between 90 and 90",
    '[a]\n"phi ALA2" = [180, -180]': "nothing lies between",
    '[a]\n"phi ALA2" = {}': "give above, below, or both, in degrees",
    '[a]\n"phi ALA2" = { abve = 1 }': "there is no setting 'abve'. Did you mean 'above'",
    "[a]\nend_to_end = [0.5, 0.2]": "write the lower end first",
    '[a]\nrmsd = { to = "nowhere.pdb", below = 0.1 }': "There is no file .*nowhere.pdb",
    '[a]\nrmsd = { to = "other.pdb", below = 0.1 }': "other.pdb has 1 atoms",
    '[a]\nrmsd = { to = "other.pdb" }': "below must be a number, not None",
    '[a]\nrmsd = { to = "other.pdb", below = -1 }': "positive number of nm",
    '[a]\nrmsd = { to = "other.pdb", below = 1, atoms = "hevy" }': "Did you mean 'heavy'",
    '[a]\nrmsd = { to = "other.pdb", below = 1, atoms = "CA" }': "only 1 such atoms",
    "[a]\nrmsd = { to = 5, below = 1 }": "to is the name of a file",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_one_sentence(write, tmp_path, dipeptide, text):
    atom = "ATOM      1  CA  ALA A   1       0.000   0.000   0.000  1.00  0.00           C\nEND\n"
    (tmp_path / "other.pdb").write_text(atom)
    with pytest.raises(UserError, match=MISTAKES[text]) as told:
        read_states(write(text), dipeptide)
    assert "\n" not in str(told.value).strip()


def test_a_missing_file(tmp_path, dipeptide):
    with pytest.raises(UserError, match="There is no file"):
        read_states(tmp_path / "none.toml", dipeptide)


def test_a_structure_with_other_atoms_is_refused(write, tmp_path, dipeptide):
    lines = pdb_text(dipeptide, dipeptide.positions.numpy()).splitlines()
    first, second = (i for i, line in enumerate(lines) if " CH3 ACE" in line or " HH31 ACE" in line)
    lines[first], lines[second] = lines[second], lines[first]
    (tmp_path / "swapped.pdb").write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match="molecule's order"):
        read_states(write('[a]\nrmsd = { to = "swapped.pdb", below = 1 }'), dipeptide)
