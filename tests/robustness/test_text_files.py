"""What people and other programs write as text: COLVAR, umbrella.toml, states.toml, energies."""

import json
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from boltzkit.analysis.state_file import read_states
from boltzkit.data.bias import bias_from_file
from boltzkit.data.colvar import bias_columns, read_colvar
from boltzkit.data.given_energies import read_energies
from boltzkit.data.umbrella import read_umbrella
from boltzkit.molecule.saved import pdb_text

COLVAR = b"""#! FIELDS time phi metad.rbias
#! SET min_phi -pi
 0.000000 -1.5 0.25
 1.000000 -1.4 0.50
#! FIELDS time phi metad.rbias
 1.000000 -1.4 0.50
 2.000000 -1.2 0.75
"""
UMBRELLA = b"""force_constant = 100.0
[[window]]
file = "a.xtc"
torsion = [4, 6, 8, 14]
centre = -1.5
[[window]]
file = "sub/b.xtc"
torsion = [4, 6, 8, 14]
centre = 1
force_constant = 50
[[window]]
file = 'c.xtc'
distance = [0, 3]
centre = 0.4
"""
STATES = b"""[helix]
"phi ALA2" = [-120, -30]
"psi ALA2" = [-90, 30]
[extended]
"psi ALA2" = [90, -150]
end_to_end = { above = 0.7 }
[folded]
rmsd = { to = "folded.pdb", below = 0.15, atoms = "heavy" }
[second]
cluster = { analysis = "analysis.json", number = 2 }
"""
ENERGIES = b"time,Potential Energy (kJ/mol)\n0,-12.5\n1,-13\n2,1e2\n"


def test_colvar(fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / "COLVAR"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        found = read_colvar(path)
        assert found.values.shape == (len(found), len(found.fields))
        found.column(bias_columns(found)[0])

    fuzz(read, COLVAR, spoiled["text"](COLVAR), 100)


def test_many_columns_and_restarts_take_no_time(refusal, tmp_path: Path) -> None:
    path = tmp_path / "COLVAR"
    path.write_text("#! FIELDS " + " ".join(f"c{i}" for i in range(100_000)) + "\n")
    assert "holds no rows" in refusal(lambda: read_colvar(path))
    path.write_text("#! FIELDS time b.bias\n0 0\n" + "#! FIELDS time b.bias\n1 0\n" * 20_000)
    assert refusal(lambda: read_colvar(path)) is None


def test_umbrella(fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / "umbrella.toml"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        for file, window in read_umbrella(path, n_atoms=22):
            assert isinstance(file, Path)
            assert window.energy(np.zeros(2)).shape == (2,)

    fuzz(read, UMBRELLA, spoiled["text"](UMBRELLA), 100)


def test_states(fuzz, spoiled, tmp_path: Path, dipeptide) -> None:
    path = tmp_path / "states.toml"
    (tmp_path / "folded.pdb").write_text(pdb_text(dipeptide, dipeptide.positions))
    clusters = [{"torsions": {"phi ALA2": -1.0, "psi ALA2": value}} for value in (1.0, 2.0)]
    (tmp_path / "analysis.json").write_text(json.dumps({"clusters": clusters}))
    x = dipeptide.positions.repeat(2, 1, 1)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        for state in read_states(path, dipeptide):
            assert state.inside(x).shape == (2,)

    fuzz(read, STATES, spoiled["text"](STATES), 100)

    def read_clusters(content: bytes) -> None:
        (tmp_path / "analysis.json").write_bytes(content)
        read(b'[second]\ncluster = { analysis = "analysis.json", number = 2 }\n')

    content = {"clusters": clusters}
    fuzz(read_clusters, json.dumps(content).encode(), spoiled["json"](content), 100)


def test_energies(fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / "energies.csv"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        assert read_energies(path).ndim == 1

    def read_bias(content: bytes) -> None:
        path.write_bytes(content.replace(b"Potential Energy", b"bias"))
        bias_from_file(path, 300.0)

    fields = st.sampled_from(
        (b'"' + b"x" * 200_000, b"1,2\n" * 50_000, b"1\0\n", b"a;b\n1\n", b"1_0\n2\n", b"\n\n")
    )
    fuzz(read, ENERGIES, spoiled["text"](ENERGIES) | fields, 100)
    fuzz(read_bias, ENERGIES, spoiled["text"](ENERGIES) | fields, 100)
