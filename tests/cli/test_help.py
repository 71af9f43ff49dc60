"""Every verb explains itself, quickly."""

import os
import subprocess
import sys
from itertools import pairwise

import pytest

from boltzkit.cli.app import VERBS as ALL

VERBS = tuple(verb.__name__ for verb in ALL)


def test_the_command_names_its_verbs(command):
    ending = command("--help")
    assert (ending.code, ending.err) == (0, "")
    assert all(f" {verb} " in ending.out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_teaches(cli, verb):
    ending = cli(verb, "--help")
    assert (ending.code, ending.err) == (0, "")
    assert "Examples" in ending.out
    assert f"boltzkit {verb}" in ending.out.split("Examples")[1]
    assert "iles" in ending.out  # what comes out, or that nothing does


def test_the_examples_of_each_verb_are_commands():
    from boltzkit.cli.app import VERBS, app

    for verb in VERBS:
        block = (verb.__doc__ or "").split("```")[1]
        for line in block.split("\n"):
            words = line.split()
            if words:
                assert words[0] == "boltzkit"
                assert app.parse_args(words[1:], print_error=False, exit_on_error=False)[0] is verb


def test_nothing_typed_shows_the_help(cli):
    ending = cli()
    assert ending.code == 0
    assert "Usage: boltzkit" in ending.out


def test_version(cli):
    from importlib import metadata

    assert cli("--version").out.strip() == f"boltzkit {metadata.version('boltzkit')}"


def test_help_does_not_wait_for_torch():
    script = (
        "import sys; from boltzkit.cli import main; main(['train', '--help']); print('torch' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.endswith("False\n")


def test_recipes_are_listed(cli):
    from boltzkit.method import RECIPES

    ending = cli("train", "--list")
    assert ending.code == 0
    for name, recipe in RECIPES.items():
        assert any(line.startswith(name) and line.endswith(recipe.__doc__) for line in ending.out.split("\n"))


def test_every_setting_is_shown_as_set_takes_it_and_explained(cli):
    from boltzkit.method import find_recipe

    ending = cli("train", "gmm", "--show", "--set", "flow.hidden=[8,8]", "--seed", "3")
    assert ending.code == 0
    lines = ending.out.rstrip("\n").split("\n")
    settings = [line for line in lines if not line.startswith(" ")]
    assert {"flow.hidden=[8,8]", "seed=3"} <= set(settings)
    config = find_recipe("gmm").with_overrides(settings)
    assert config == find_recipe("gmm").with_overrides(["flow.hidden=[8,8]", "seed=3"])
    explained = [a for a, b in pairwise(lines) if not a.startswith(" ") and b.startswith(" ")]
    assert explained == settings


@pytest.mark.parametrize("verb", ["--help", "--list"])
def test_a_closed_pipe_is_no_error(begin, verb):
    process = begin("train", verb)
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()
    assert process.wait() != 0
    assert complaint == ""


@pytest.mark.skipif(os.name != "posix", reason="encodings of pipes are set differently elsewhere")
def test_a_terminal_without_symbols_gets_question_marks():
    words = [sys.executable, "-m", "boltzkit", "tune", "--help"]
    answer = subprocess.run(
        words, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("recipe", "more", "expected"),
    [
        ("cmt", (), "annealing.effective=400"),
        ("cmt", ("--set", "annealing.effective=77"), "annealing.effective=77"),
        ("ta-bg", (), "annealing.effective=null"),
        ("fab", (), "fab.evaluations=100000"),
        ("cmt", ("--set", "annealing=null", "--set", "fab.annealed=512"), "fab.evaluations=100000"),
        ("gmm", ("--set", "annealing.stages=24"), "annealing.evaluations=100000"),
    ],
)
def test_a_budget_brings_what_follows_from_it(cli, recipe, more, expected):
    """What was set by hand stays."""
    ending = cli("train", recipe, "--evaluations", "1e5", *more, "--show")
    assert expected in ending.out.splitlines()
