"""The base of every config: frozen, typed, documented; unknown keys are refused with a suggestion."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from boltzkit.errors import UserError, did_you_mean

__all__ = ["Config"]


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

    def with_overrides(self, assignments: Iterable[str]) -> Self:
        """Return a copy with ``a.b=value`` assignments applied; values are JSON or plain text."""
        content = self.model_dump(mode="json")
        for assignment in assignments:
            key, separator, text = assignment.partition("=")
            if not separator or not key:
                raise UserError(f"--set takes key=value, for example seed=1, not '{assignment}'.")
            _assign(content, key.strip().split("."), _value(text.strip()), key.strip())
        return type(self).parse(content, source="--set")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None if text == "None" else text


def _assign(content: Any, path: list[str], value: Any, key: str) -> None:
    *parents, last = path
    for name in parents:
        if not isinstance(content, dict) or name not in content:
            raise UserError(f"--set {key}: there is no group '{name}'." + _suggest(name, content))
        content = content[name]
    if not isinstance(content, dict):
        raise UserError(f"--set {key}: '{parents[-1]}' is not a group of settings.")
    if last not in content:
        raise UserError(f"--set {key}: there is no setting '{last}'." + _suggest(last, content))
    content[last] = value


def _suggest(name: str, content: Any) -> str:
    return did_you_mean(name, content) if isinstance(content, dict) else ""


def _sentence(cls: type[BaseModel], error: ValidationError, source: str) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        group = _model_at(cls, first["loc"][:-1])
        name = str(first["loc"][-1])
        return f"{source}: there is no setting '{where}'." + did_you_mean(name, group.model_fields)
    return f"{source}: {where} = {first['input']!r} is not valid: {first['msg']}."


def _model_at(cls: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """Follow a validation location down to the model that refused a key."""
    for part in loc:
        field = cls.model_fields.get(str(part))
        candidates = [field.annotation, *get_args(field.annotation)] if field else []
        models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        cls = models[0] if models else cls
    return cls
