"""The command itself: its verbs, and how each way to end becomes an exit code."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from io import TextIOWrapper

from cyclopts import App, CycloptsError

from boltzkit.cli.analyze import analyze
from boltzkit.cli.benchmark import benchmark
from boltzkit.cli.doctor import doctor
from boltzkit.cli.evaluate import evaluate
from boltzkit.cli.label import label
from boltzkit.cli.mistakes import sentence
from boltzkit.cli.prepare import prepare
from boltzkit.cli.refine import refine
from boltzkit.cli.report import report
from boltzkit.cli.reproduce import reproduce
from boltzkit.cli.results import results
from boltzkit.cli.run import run
from boltzkit.cli.sample import sample
from boltzkit.cli.simulate import simulate
from boltzkit.cli.train import train
from boltzkit.cli.tune import tune
from boltzkit.errors import Interrupted, UserError
from boltzkit.interrupt import sigterm_as_ctrl_c

__all__ = ["app", "main"]

OK, USER_ERROR, STOPPED, CLOSED_PIPE = 0, 2, 130, 141
"""A closed pipe (``boltzkit train --list | head -1``) ends as it does for other tools: 128 + SIGPIPE."""

app = App(
    name="boltzkit",
    help="""Boltzmann generators with log-dispersion regularization: equilibrium ensembles with error bars.

From a molecule to free energies and a report in one go, or step by step:

```
boltzkit run alanine-dipeptide --quick

boltzkit train gmm --out runs/a --set objective.dispersion=l1
boltzkit evaluate runs/a
boltzkit sample runs/a --effective 10000 --out ensemble
```

Each verb explains itself: `boltzkit train --help`. Ctrl-C and SIGTERM save and stop; the same command again
goes on where it stopped. Exit codes: 0 all is well, 2 something to mend (a sentence says what), 3 not to be
trusted (with --strict), 130 stopped.
""",
    version=lambda: f"boltzkit {metadata.version('boltzkit')}",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
VERBS: tuple[Callable[..., int | None], ...] = (
    run,
    train,
    evaluate,
    sample,
    refine,
    analyze,
    report,
    tune,
    prepare,
    simulate,
    label,
    reproduce,
    results,
    benchmark,
    doctor,
)
for place, verb in enumerate(VERBS):
    app.command(verb, sort_key=place)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; a bug keeps its traceback."""
    _replace_symbols_the_terminal_lacks()
    try:
        with sigterm_as_ctrl_c():
            code = app(sys.argv[1:] if argv is None else argv, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has left. Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except CycloptsError as error:
        return _say(sentence(error), USER_ERROR)
    except UserError as error:
        return _say(str(error), USER_ERROR)
    except Interrupted as error:
        return _say(str(error), STOPPED)
    except KeyboardInterrupt:
        return _say("Stopped.", STOPPED)
    except OSError as error:
        if error.filename is None:
            raise
        return _say(f"{error.strerror}: {error.filename}.", USER_ERROR)
    return OK if code is None else int(code)


def _say(text: str, code: int) -> int:
    print(f"boltzkit: {' '.join(text.splitlines())}", file=sys.stderr)
    return code


def _replace_symbols_the_terminal_lacks() -> None:
    """Let ± and ✓ become question marks where the encoding has none, instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
