"""Files that could carry code run none of it unless they are trusted."""

from pathlib import Path
from typing import Any

import openmm
import pytest

from boltzkit.errors import UserError
from boltzkit.molecule import Molecule

SCRIPT = "import pathlib; pathlib.Path({mark!r}).write_text('ran')"


def forcefield(body: str) -> str:
    return f"<ForceField>{body}</ForceField>"


def refusal(pdb: Path, *files: Path) -> str:
    with pytest.raises(UserError) as caught:
        Molecule.from_pdb(pdb, ("amber99sbildn.xml", *files))
    return str(caught.value)


@pytest.mark.parametrize("tag", ["Script", "InitializationScript"])
def test_scripts_of_force_fields_run_only_when_trusted(tag: str, tmp_path: Path, dipeptide_pdb: Path) -> None:
    mark, path = tmp_path / "mark", tmp_path / "mine.xml"
    path.write_text(forcefield(f"<{tag}>{SCRIPT.format(mark=str(mark))}</{tag}>"))
    sentence = refusal(dipeptide_pdb, path)
    assert sentence.startswith(f"{path} carries a <{tag}>, which is code")
    assert "trust=True" in sentence
    assert not mark.exists()
    Molecule.from_pdb(dipeptide_pdb, ("amber99sbildn.xml", path), trust=True)
    assert mark.read_text() == "ran"


def test_scripts_are_found_behind_includes(tmp_path: Path, dipeptide_pdb: Path) -> None:
    (tmp_path / "sub").mkdir()
    inner, middle, outer = (tmp_path / name for name in ("sub/inner.xml", "middle.xml", "outer.xml"))
    outer.write_text(forcefield('<Include file="middle.xml"/>'))
    middle.write_text(forcefield('<Include file="sub/inner.xml"/><Include file="outer.xml"/>'))
    inner.write_text(forcefield("<Script>1/0</Script>"))
    assert "inner.xml carries a <Script>" in refusal(dipeptide_pdb, outer)
    middle.write_text(forcefield('<Include file="gone.xml"/>'))
    assert "There is no force-field file gone.xml" in refusal(dipeptide_pdb, outer)


def test_a_file_of_the_working_folder_is_not_the_installed_one(
    tmp_path: Path, dipeptide_pdb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "amber99_obc.xml").write_text(forcefield("<Script>1/0</Script>"))
    monkeypatch.chdir(tmp_path)
    assert "amber99_obc.xml carries a <Script>" in refusal(dipeptide_pdb, Path("amber99_obc.xml"))


def test_installed_scripts_are_trusted(dipeptide_pdb: Path) -> None:
    molecule = Molecule.from_pdb(dipeptide_pdb, ("amber96.xml", "implicit/obc1.xml"))
    assert any(type(force).__name__ == "CustomGBForce" for force in molecule.system.getForces())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_document_types_are_refused_in_any_encoding(
    encoding: str, tmp_path: Path, dipeptide_pdb: Path
) -> None:
    path = tmp_path / "mine.xml"
    entity = '<!DOCTYPE x [<!ENTITY e "<Script>1/0</Script>">]>'
    path.write_bytes(
        f'<?xml version="1.0" encoding="{encoding}"?>{entity}{forcefield("&e;")}'.encode(encoding)
    )
    assert refusal(dipeptide_pdb, path) == f"{path} has a DOCTYPE, which no OpenMM file needs: remove it."
    path.write_text("<ForceField>")
    assert "mine.xml is not valid XML" in refusal(dipeptide_pdb, path)


def serialised(dipeptide: Molecule, force: Any) -> str:
    system = openmm.XmlSerializer.clone(dipeptide.system)
    system.addForce(force)
    text: str = openmm.XmlSerializer.serialize(system)
    return text


def system_refusal(path: Path, pdb: Path) -> str:
    with pytest.raises(UserError) as caught:
        Molecule.from_system_xml(path, pdb)
    return str(caught.value)


def test_python_and_plugin_forces_are_refused(
    tmp_path: Path, dipeptide_pdb: Path, dipeptide: Molecule
) -> None:
    path = tmp_path / "system.xml"
    code = serialised(dipeptide, openmm.PythonForce(_no_force))
    path.write_text(code)
    sentence = system_refusal(path, dipeptide_pdb)
    assert "system.xml holds a PythonForce, which can run code" in sentence
    assert "trust=True" in sentence
    collective = openmm.CustomCVForce("x")
    collective.addCollectiveVariable("x", openmm.PythonForce(_no_force))
    path.write_text(serialised(dipeptide, collective))
    assert "holds a PythonForce" in system_refusal(path, dipeptide_pdb)
    path.write_text(code.replace("PythonForce", "TorchForce"))
    assert "holds a TorchForce" in system_refusal(path, dipeptide_pdb)


def _no_force(state: Any) -> tuple[float, Any]:
    return 0.0, 0 * state.getPositions(asNumpy=True)._value


def test_a_trusted_python_force_is_used(tmp_path: Path, dipeptide_pdb: Path, dipeptide: Molecule) -> None:
    path = tmp_path / "system.xml"
    path.write_text(serialised(dipeptide, openmm.PythonForce(_no_force)))
    molecule = Molecule.from_system_xml(path, dipeptide_pdb, trust=True)
    assert molecule.system.getNumForces() == dipeptide.system.getNumForces() + 1


def test_a_force_hidden_from_one_parser_is_hidden_from_both(
    tmp_path: Path, dipeptide_pdb: Path, dipeptide: Molecule
) -> None:
    """OpenMM's parser ends a comment at the first unmatched '>', where the standard goes on to '-->'."""
    text = serialised(dipeptide, openmm.PythonForce(_no_force))
    start = text.index('<Force forceGroup="0" function=')
    end = text.index("</Force>", start) + len("</Force>")
    hidden = f"{text[:start]}<!-- > {text[start:end]} <? -->{text[end:]}"
    # Without the detour over the checked tree the force is there, so the test can fail.
    assert openmm.XmlSerializer.deserialize(hidden).getNumForces() == dipeptide.system.getNumForces() + 1
    path = tmp_path / "system.xml"
    path.write_text(hidden)
    assert Molecule.from_system_xml(path, dipeptide_pdb).hash == dipeptide.hash


def test_other_xml_is_no_system(tmp_path: Path, dipeptide_pdb: Path) -> None:
    path = tmp_path / "system.xml"
    path.write_text(openmm.XmlSerializer.serialize(openmm.VerletIntegrator(0.001)))
    assert "holds a VerletIntegrator, not an OpenMM System" in system_refusal(path, dipeptide_pdb)
    path.write_text('<System type="System" version="1"><Particles/></System>')
    assert "could not be read as an OpenMM System" in system_refusal(path, dipeptide_pdb)
