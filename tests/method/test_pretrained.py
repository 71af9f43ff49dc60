"""The flow that comes with the package: it loads by name, and it is as good as it says."""

import json

import pytest

import boltzkit as bk
from boltzkit.cli import main
from boltzkit.errors import UserError
from boltzkit.method.pretrained import find_run, pretrained


def test_the_flow_of_alanine_dipeptide_is_good():
    ensemble = bk.load("alanine-dipeptide").ensemble(20_000, seed=3)
    assert ensemble.reweighting.ess_raw > 0.75  # 83 % when it was made
    assert ensemble.verdict.level == "trust"
    # log Z of flows that were trained on other data, to four standard errors.
    assert abs(ensemble.reweighting.log_z + 178.6855) < 4 * ensemble.reweighting.log_z_se + 0.003


def test_it_fits_into_a_package():
    (folder,) = {find_run(name) for name in pretrained()}
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 10e6
    assert json.loads((folder / "metrics.json").read_text())["command"].startswith(
        "boltzkit run alanine-dipeptide"
    )


def test_a_name_becomes_an_ensemble(tmp_path, capsys):
    assert main(["sample", "alanine-dipeptide", "--effective", "1000", "--out", str(tmp_path)]) == 0
    assert "Verdict: trust." in capsys.readouterr().out
    assert bk.Ensemble.load(tmp_path).subject.molecule.n_atoms == 22


def test_other_names_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"no run folder alanine-dipeptid\. Did you mean 'alanine-dipeptide'"):
        bk.load("alanine-dipeptid")
    with pytest.raises(UserError, match=r"is not a run folder: it has no config\.json"):
        bk.load(tmp_path)
