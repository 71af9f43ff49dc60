"""An OpenMM expression with its constants: what every custom force evaluates."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor, nn

from boltzkit.energy.forcefield.expression import Expression
from boltzkit.energy.forcefield.tabulated import from_openmm
from boltzkit.errors import UserError

__all__ = ["Formula", "global_parameters", "tabulated_functions"]


class Formula(nn.Module):
    """An expression whose global parameters are fixed and whose tabulated functions are at hand.

    Args:
        text: the expression.
        constants: values of global parameters.
        functions: tabulated functions by name.
        known: the variables that the caller will give; any other is an error, said at once.
    """

    def __init__(
        self,
        text: str,
        constants: Mapping[str, float],
        functions: Mapping[str, nn.Module],
        known: Collection[str],
    ) -> None:
        super().__init__()
        self.expression = Expression.parse(text, functions=functions).bind(constants)
        self.tables = nn.ModuleDict({name: functions[name] for name in self.expression.functions})
        if unknown := self.expression.variables - set(known):
            raise UserError(
                f"The expression '{text}' uses {', '.join(sorted(unknown))}, which nothing defines."
            )

    def forward(self, values: Mapping[str, Tensor]) -> Tensor:
        """Evaluate over broadcasting tensors."""
        needed = {name: values[name] for name in self.expression.variables}
        return self.expression(needed, dict(self.tables.items()))


def global_parameters(force: Any) -> dict[str, float]:
    """Return a custom force's global parameters at their defaults."""
    return {
        force.getGlobalParameterName(i): force.getGlobalParameterDefaultValue(i)
        for i in range(force.getNumGlobalParameters())
    }


def tabulated_functions(force: Any) -> dict[str, nn.Module]:
    """Return a custom force's tabulated functions."""
    return {
        force.getTabulatedFunctionName(i): from_openmm(force.getTabulatedFunction(i))
        for i in range(force.getNumTabulatedFunctions())
    }
