"""What is built is what is needed: the wheel and the source archive, their content and their metadata."""

import importlib.util
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILD = (
    "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1])); print(b.build_sdist(sys.argv[1]))"
)
PACKAGE = ROOT / "src" / "boltzkit"
NEEDED = (
    "boltzkit/py.typed",
    "boltzkit/report/molecule/assets/3Dmol-min.js",
    "boltzkit/report/molecule/assets/3Dmol-LICENSE.txt",
    "boltzkit/report/molecule/assets/page.css",
    "boltzkit/method/flows/alanine-dipeptide/config.json",
    "boltzkit/energy/forcefield/kernel.cpp",
    "boltzkit/flow/spline.cpp",
    "boltzkit/native/lanes.h",
)


@dataclass(frozen=True)
class Built:
    """Names of the files in both archives, and the wheel's metadata."""

    wheel: set[str]
    sdist: set[str]
    about: Message


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build both archives with the project's own backend, without network."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the archives, is not installed: pip install hatchling")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-c", BUILD, str(out)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    wheel, sdist = answer.stdout.split()
    with zipfile.ZipFile(out / wheel) as archive:
        names = set(archive.namelist())
        (path,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        about = Parser().parsestr(archive.read(path).decode())
    with tarfile.open(out / sdist) as tar:
        inside = {name.partition("/")[2] for name in tar.getnames()}
    return Built(names, inside, about)


@pytest.mark.parametrize("name", NEEDED)
def test_both_archives_hold_what_is_no_python(built, name):
    assert name in built.wheel
    assert f"src/{name}" in built.sdist


def test_the_pretrained_flow_is_whole(built):
    tensors = [name for name in built.wheel if name.endswith(".safetensors")]
    assert [name.split("/")[:4] for name in tensors] == [["boltzkit", "method", "flows", "alanine-dipeptide"]]


def test_the_wheel_holds_the_package_and_nothing_else(built):
    files = {
        f"boltzkit/{path.relative_to(PACKAGE).as_posix()}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.endswith(".partial")
    }
    inside = {name for name in built.wheel if ".dist-info/" not in name}
    assert inside == files
    assert not any("test" in Path(name).parts[0] or "/tests/" in name for name in built.wheel)


def test_the_source_archive_can_be_tested(built):
    assert {"README.md", "LICENSE", "CHANGELOG.md", "constraints.txt", "pyproject.toml"} <= built.sdist
    assert "tests/test_packaging.py" in built.sdist
    assert "docs/index.md" in built.sdist
    assert not any(name.startswith(("results/", ".venv", "runs/")) for name in built.sdist)


def test_metadata(built):
    about = built.about
    assert (about["Name"], about["Version"]) == ("boltzkit", PROJECT["version"])
    assert about["Requires-Python"] == ">=3.11"
    extras = {"benchmark", "docs", "lint", "test", "tica"}
    assert extras <= set(about.get_all("Provides-Extra") or [])
    assert about["License-Expression"] == "MIT"
    versions = [f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)]
    assert set(versions) <= set(about.get_all("Classifier") or [])


def test_the_version_has_one_place():
    """Everything else asks the metadata or is compared with it here."""
    version = PROJECT["version"]
    assert metadata.version("boltzkit") == version
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [version]
    assert re.findall(r"^license: (.*)$", citation, re.MULTILINE) == [PROJECT["license"]]
    written = [
        path
        for path in PACKAGE.rglob("*.py")
        if re.search(rf"[\"']{re.escape(version)}[\"']", path.read_text())
    ]
    assert written == []


def test_every_requirement_is_pinned_for_the_tests():
    pinned = {
        re.split(r"[=<>]", line)[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    extras = PROJECT["optional-dependencies"]
    for requirement in (*PROJECT["dependencies"], *extras["test"], *extras["lint"], *extras["docs"]):
        assert re.split(r"[=<>]", requirement)[0].lower().replace("_", "-") in pinned, requirement
