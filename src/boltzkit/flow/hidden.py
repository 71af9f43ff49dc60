"""The matrices inside of networks, which an optimiser may move as matrices."""

from typing import Protocol, runtime_checkable

from torch import nn

__all__ = ["hidden_weights"]


@runtime_checkable
class _Layered(Protocol):
    """A network that names its hidden matrices: all but those that end it."""

    def hidden_weights(self) -> list[nn.Parameter]: ...


def hidden_weights(module: nn.Module) -> list[nn.Parameter]:
    """Return the hidden matrices ``(out, in)`` of all networks below, none where there are no plain ones."""
    return [
        weight for part in module.modules() if isinstance(part, _Layered) for weight in part.hidden_weights()
    ]
