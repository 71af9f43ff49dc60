"""All settings of a configuration with their values and their documentation."""

import json
import textwrap
from collections.abc import Iterator

from boltzkit.config import Config

__all__ = ["explain"]

_INDENT = "    "


def explain(config: Config, width: int = 100) -> Iterator[str]:
    """Yield ``group.name=value`` as --set takes it, with the documentation below.

    >>> from boltzkit.config import Config
    >>> class Example(Config):
    ...     steps: int = 5
    >>> list(explain(Example()))
    ['steps=5']
    """
    for key, value, description in _fields(config, ()):
        yield f"{key}={value}"
        yield from textwrap.wrap(
            " ".join(description.split()), width, initial_indent=_INDENT, subsequent_indent=_INDENT
        )


def _fields(config: Config, parents: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    content = config.model_dump(mode="json")
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, Config):
            yield from _fields(value, (*parents, name))
        else:
            plain = content[name]
            # Text needs no quotes after --set, and a list must hold no space to be one word of a shell.
            shown = plain if isinstance(plain, str) else json.dumps(plain, separators=(",", ":"))
            yield ".".join((*parents, name)), shown, field.description or ""
