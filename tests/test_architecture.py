"""The house rules that a machine can check, and controls that show it does."""

import ast
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "boltzkit"

# Data flows from left to right along this line; imports point left.
ROOMS = (
    "molecule",
    "energy",
    "coordinates",
    "flow",
    "weights",
    "objective",
    "data",
    "simulate",
    "training",
    "ensemble",
    "analysis",
    "method",
    "report",
    "run",
    "reproduce",
    "benchmark",
    "cli",
)
FOUNDATION = (
    "errors",
    "randomness",
    "storage",
    "config",
    "interrupt",
    "native",
    "workers",
    "ranks",
    "notebook",
)

# (importing module, imported room) pairs that may point right; each needs a reason in docs/design.md.
EXCEPTIONS = frozenset({("molecule.molecule", "energy"), ("molecule.molecule", "coordinates")})

MAX_LINES = 400
PICKLING_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
PICKLING_CALLS = {"torch.load", "torch.save"}

Rule = Callable[[Path], Iterator[str]]


def sources(package: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """Yield (path, dotted name below the package, syntax tree) of every source file."""
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        yield path, ".".join(parts), ast.parse(path.read_text())


def imported_names(tree: ast.Module, module: str) -> Iterator[str]:
    """Yield the absolute dotted name of everything imported anywhere in a module, lazily or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = ["boltzkit", *module.split(".")][: -node.level] if node.level else []
            prefix = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{prefix}.{alias.name}" for alias in node.names)


def imports_point_left(package: Path) -> Iterator[str]:
    """Rooms import rooms to their left and the foundation; nothing inside imports the package's root."""
    for _, module, tree in sources(package):
        here = module.split(".")[0]
        if here in {"__init__", "__main__"}:
            continue  # the package's own face: public names from every room, and the command
        for name in imported_names(tree, module):
            parts = name.split(".")
            if parts[0] != "boltzkit":
                continue
            there = parts[1] if len(parts) > 1 else "the root"
            if there not in FOUNDATION and there != here and not _may_import(module, here, there):
                yield f"{module} imports {name}"


def _may_import(module: str, here: str, there: str) -> bool:
    if (module, there) in EXCEPTIONS:
        return True
    return here in ROOMS and there in ROOMS and ROOMS.index(there) < ROOMS.index(here)


def folders_are_rooms(package: Path) -> Iterator[str]:
    """Every folder has a place on the line; in particular there is no ``utils``."""
    for path in sorted(package.rglob("*")):
        if not path.is_dir() or path.name == "__pycache__":
            continue
        if path.parent == package and path.name not in (*ROOMS, *FOUNDATION):
            yield f"{path.name} is not a room"
        elif path.name in {"utils", "util", "helpers", "common", "misc"}:
            yield f"{path.relative_to(package)} does not say what it holds"


def root_modules_are_foundation(package: Path) -> Iterator[str]:
    """Only foundation modules and the package's own dunder modules live beside the rooms."""
    for path in sorted(package.glob("*.py")):
        if path.stem not in {*FOUNDATION, "__init__", "__main__"}:
            yield f"{path.name} belongs in a room"


def modules_name_their_public_parts(package: Path) -> Iterator[str]:
    """Every module has ``__all__``, but for ``__main__`` and packages that only hold a docstring."""
    for path, module, tree in sources(package):
        only_docstring = all(isinstance(node, ast.Expr) for node in tree.body)
        if path.name == "__main__.py" or (path.name == "__init__.py" and only_docstring):
            continue
        if not any(_assigns_all(node) for node in tree.body):
            yield f"{module} has no __all__"


def _assigns_all(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def files_are_short(package: Path) -> Iterator[str]:
    """One concept per file: none is longer than a few screens."""
    for path, module, _ in sources(package):
        lines = len(path.read_text().splitlines())
        if lines > MAX_LINES:
            yield f"{module} has {lines} lines"


def nothing_is_pickled(package: Path) -> Iterator[str]:
    """Reading a file never runs code from it: no pickle, ``torch.load`` or ``allow_pickle=True``."""
    for _, module, tree in sources(package):
        for name in imported_names(tree, module):
            if name.split(".")[0] in PICKLING_MODULES or name in PICKLING_CALLS:
                yield f"{module} imports {name}"
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in PICKLING_CALLS:
                yield f"{module} uses {ast.unparse(node)}"
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and not _is_false(node.value):
                yield f"{module} allows pickles"


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


RULES: tuple[Rule, ...] = (
    imports_point_left,
    folders_are_rooms,
    root_modules_are_foundation,
    modules_name_their_public_parts,
    files_are_short,
    nothing_is_pickled,
)

# For each rule, lines of code planted in a copy of the package that the rule must catch.
PLANTED: tuple[tuple[Rule, str, str], ...] = (
    (imports_point_left, "energy/planted.py", "from boltzkit.flow.flow import Flow"),
    (imports_point_left, "energy/planted.py", "import boltzkit.training"),
    (imports_point_left, "energy/planted.py", "from boltzkit import flow"),
    (imports_point_left, "energy/planted.py", "from ..flow import Flow"),
    (imports_point_left, "energy/planted.py", "def lazily():\n    from boltzkit.cli import main"),
    (imports_point_left, "training/planted.py", "from boltzkit import Flow"),
    (imports_point_left, "training/planted.py", "import boltzkit"),
    (imports_point_left, "errors.py", "from boltzkit.energy.target import Target"),
    (folders_are_rooms, "flow/utils/planted.py", ""),
    (folders_are_rooms, "utils/planted.py", ""),
    (root_modules_are_foundation, "planted.py", ""),
    (modules_name_their_public_parts, "energy/planted.py", "x = 1"),
    (modules_name_their_public_parts, "energy/planted/__init__.py", "from boltzkit.errors import UserError"),
    (files_are_short, "energy/planted.py", "x = 1\n" * (MAX_LINES + 1)),
    (nothing_is_pickled, "training/planted.py", "import pickle"),
    (nothing_is_pickled, "training/planted.py", "from pickle import loads"),
    (nothing_is_pickled, "training/planted.py", "import torch\ntorch.load('x')"),
    (nothing_is_pickled, "training/planted.py", "from torch import load"),
    (nothing_is_pickled, "data/planted.py", "import numpy\nnumpy.load('x', allow_pickle=True)"),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_follows(rule: Rule) -> None:
    assert list(rule(PACKAGE)) == []


@pytest.mark.parametrize(("rule", "file", "code"), PLANTED)
def test_a_planted_violation_is_caught(rule: Rule, file: str, code: str, tmp_path: Path) -> None:
    package = tmp_path / "boltzkit"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    planted = package / file
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(code)
    assert set(rule(package)) > set(rule(PACKAGE))


def test_imports_to_the_left_are_allowed(tmp_path: Path) -> None:
    room = tmp_path / "boltzkit" / "training"
    room.mkdir(parents=True)
    allowed = (
        "import torch",
        "from boltzkit.errors import UserError",
        "from boltzkit import config",
        "from boltzkit.flow.flow import Flow",
        "from . import loop",
    )
    (room / "step.py").write_text("\n".join(allowed))
    assert list(imports_point_left(tmp_path / "boltzkit")) == []


def test_the_picture_of_the_design_page_shows_this_line():
    picture = (PACKAGE.parents[1] / "docs" / "data-flow.svg").read_text()
    assert tuple(re.findall(r'font-weight="600"[^>]*>(\w+)<', picture)) == ROOMS
