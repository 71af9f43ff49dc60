"""One sentence for each way to mistype a command line."""

from itertools import chain

from cyclopts import CycloptsError, MissingArgumentError, UnknownCommandError, UnknownOptionError
from cyclopts.exceptions import UnusedCliTokensError

from boltzkit.errors import did_you_mean

__all__ = ["sentence"]


def sentence(error: CycloptsError) -> str:
    """Return what is wrong and what was probably meant."""
    verb = " ".join(error.command_chain or ("boltzkit",))
    if isinstance(error, UnknownCommandError) and error.unused_tokens and error.app is not None:
        word = error.unused_tokens[0]
        kind = "option" if word.startswith("-") else "command"
        known = [name for name in error.app if name.startswith("-") == (kind == "option")]
        return f"There is no {kind} '{word}'.{did_you_mean(word, known)}"
    if isinstance(error, UnknownOptionError):
        word = error.token.keyword or error.token.value
        known = [*chain.from_iterable(argument.names for argument in error.argument_collection), "--help"]
        options = [name for name in known if name.startswith("--")]
        return f"{verb} has no option '{word}'.{did_you_mean(word, options)}"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        word = error.unused_tokens[0]
        hint = ": write --set before each setting" if "=" in word else ""
        return f"{verb} has no use for '{word}'{hint}."
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return f"{verb} needs a value for {error.argument.name}: see boltzkit {verb} --help."
    return str(error)
