"""The base of every config: frozen, typed, documented; unknown keys are refused with a suggestion."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, Tag, ValidationError

from boltzkit.errors import UserError, did_you_mean

__all__ = ["Config"]

_LONGEST = 200
"""Characters of a value or a name that a message quotes."""


class Config(BaseModel):
    """A frozen, validated group of settings. Subclasses document each field with a docstring below it."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )

    @classmethod
    def parse(cls, content: Mapping[str, Any], source: str = "the configuration") -> Self:
        """Validate a nested mapping, with one sentence when something is wrong."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise UserError(_sentence(cls, error, source)) from error

    def is_stored_as(self, content: Any) -> bool:
        """Tell whether stored settings are these; one that an older version did not know has its default."""
        try:
            return type(self).model_validate(content) == self
        except ValidationError:  # written by a version with other settings
            return False

    def with_overrides(self, assignments: Iterable[str]) -> Self:
        """Return a copy with ``a.b=value`` assignments applied; values are JSON or plain text.

        A group that is not there yet is made by the first assignment into it, and a group of another kind
        (``flow.kind=tarflow``) begins with that kind's defaults.
        """
        content = self.model_dump(mode="json")
        fresh: list[dict[str, Any]] = []
        for assignment in assignments:
            key, separator, text = assignment.partition("=")
            if not separator or not key:
                raise UserError(f"--set takes key=value, for example seed=1, not {_shown(assignment)}.")
            _assign(content, key.strip().split("."), _value(text.strip()), key.strip(), fresh)
        return type(self).parse(content, source="--set")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (
        ValueError,
        RecursionError,
    ):  # what is no JSON, has too many digits or too many brackets, is plain text
        return None if text == "None" else text


def _assign(content: Any, path: list[str], value: Any, key: str, fresh: list[dict[str, Any]]) -> None:
    """Put a value in its place; groups that are fresh are incomplete, and checked when all of it is parsed."""
    *parents, last = path
    for name in parents:
        if not isinstance(content, dict) or name not in content:
            raise UserError(
                f"--set {_named(key)}: there is no group '{_named(name)}'." + _suggest(name, content)
            )
        if content[name] is None:
            content[name] = {}
            fresh.append(content[name])
        content = content[name]
    if not isinstance(content, dict):
        raise UserError(f"--set {_named(key)}: '{_named(parents[-1])}' is not a group of settings.")
    is_fresh = any(content is group for group in fresh)
    if last not in content and not is_fresh:
        raise UserError(
            f"--set {_named(key)}: there is no setting '{_named(last)}'." + _suggest(last, content)
        )
    if last == "kind" and content.get(last) != value:
        content.clear()
        fresh.append(content)
    content[last] = value


def _suggest(name: str, content: Any) -> str:
    return did_you_mean(name, content) if isinstance(content, dict) else ""


def _sentence(cls: type[BaseModel], error: ValidationError, source: str) -> str:
    first = error.errors()[0]
    group, path = _follow(cls, first["loc"])
    where = _named(".".join(path))
    if first["type"] == "extra_forbidden":
        return f"{source}: there is no setting '{where}'." + did_you_mean(path[-1], group.model_fields)
    if first["type"] == "missing":
        return f"{source}: {where} is missing."
    reason = _named(first["msg"].removeprefix("Value error, "))
    if not where:  # what is wrong concerns all of it
        return f"{source} is not valid: {reason}."
    return f"{source}: {where} = {_shown(first['input'])} is not valid: {reason}."


def _shown(value: Any) -> str:
    """Return a value as messages quote it: the beginning of what is long says enough."""
    return _named(repr(value))


def _named(text: str) -> str:
    """Return a text in a form that any terminal shows and people still read."""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return short.encode(errors="backslashreplace").decode()


def _follow(cls: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[type[BaseModel], list[str]]:
    """Follow a validation location down; return the model that refused, and the settings on the way.

    Where a group is one of several kinds, the location also names the kind, which no person typed.
    """
    path: list[str] = []
    kinds: dict[str, type[BaseModel]] = {}
    for part in map(str, loc):
        if part in kinds:
            cls, kinds = kinds[part], {}
            continue
        path.append(part)
        field = cls.model_fields.get(part)
        models = list(_models(field.annotation)) if field else []
        if len(models) == 1:
            cls = models[0][1]
        kinds = dict(models) if len(models) > 1 else {}
    return cls, path


def _models(annotation: Any, tag: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the groups of settings that an annotation allows, each with the name of its kind."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        kind = annotation.model_fields.get("kind")
        yield tag or str(kind.default if kind else ""), annotation
        return
    arguments = get_args(annotation)
    named = next((argument.tag for argument in arguments if isinstance(argument, Tag)), "")
    for argument in arguments:
        yield from _models(argument, named)
