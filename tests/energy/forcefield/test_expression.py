"""Expressions mean what OpenMM's Reference platform says they mean, and their gradients are safe."""

import random
from collections.abc import Callable
from typing import Any

import openmm
import pytest
import torch
from openmm.app.internal import customgbforces
from torch import Tensor
from torch.overrides import TorchFunctionMode

from boltzkit.energy.forcefield.expression import Expression
from boltzkit.energy.forcefield.operations import ARITY, Operand
from boltzkit.energy.forcefield.tabulated import from_openmm
from boltzkit.errors import UserError

POINTS = torch.rand(8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 1.8 - 0.9


def openmm_values(text: str, points: Tensor = POINTS) -> tuple[Tensor, Tensor]:
    """Return OpenMM's value and gradient of an expression of x, y and z at each point."""
    system = openmm.System()
    system.addParticle(1.0)
    force = openmm.CustomExternalForce(text)
    force.addParticle(0, [])
    system.addForce(force)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    values, gradients = [], []
    for point in points.tolist():
        context.setPositions([point])
        state = context.getState(energy=True, forces=True)
        values.append(state.getPotentialEnergy()._value)
        gradients.append([-component for component in state.getForces()[0]._value])
    return torch.tensor(values, dtype=torch.float64), torch.tensor(gradients, dtype=torch.float64)


def our_values(text: str, points: Tensor = POINTS) -> tuple[Tensor, Tensor]:
    points = points.clone().requires_grad_()
    value = Expression.parse(text)(dict(zip("xyz", points.unbind(-1), strict=True))).expand(len(points))
    if not value.requires_grad:
        return value, torch.zeros_like(points)
    (gradient,) = torch.autograd.grad(value.sum(), points)
    return value.detach(), gradient


def agrees(text: str, theirs: str | None = None) -> bool:
    """Return whether we and OpenMM find the same values and gradients, for finite ones."""
    value, gradient = our_values(text)
    expected, slope = openmm_values(theirs or text)
    finite = expected.isfinite() & slope.isfinite().all(-1)
    same_value = torch.allclose(value, expected, rtol=1e-10, atol=1e-10, equal_nan=True)
    return same_value and torch.allclose(gradient[finite], slope[finite], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", sorted(ARITY))
def test_every_function_is_openmms(name: str) -> None:
    inner = {"sqrt": "x+1", "log": "x+1"}.get(name, "3*x" if name in {"floor", "ceil"} else "x")
    arguments = ", ".join([inner, "y", "z*z"][: ARITY[name]])
    assert agrees(f"{name}({arguments})")
    assert agrees(f"y*{name}({arguments})^2 - x")


@pytest.mark.parametrize(
    "text",
    [
        "-x^2",
        "2^-x^2",
        "2^x^y",
        "2^-3*x",
        "x-y-z",
        "x/y/z",
        "x/y*z",
        "x*-y+z",
        "--x",
        "x--y",
        "-x*y^-2",
        "x^0 + x^1 + x^2 + x^3 + x^7 + x^12",
        "x^-1 + x^-3 + x^-6",
        "(x*x)^0.5 + (x*x)^-0.5 + (x*x)^1.5",
        "(x*x)^y",
        "x^40 + x^65 + x^100",
        "select(0, x, y) + select(-0.0, x, y) + select(x, y, z)",
        "step(-0.0) + step(x-x) + delta(-0.0) + delta(x) + delta(x-x)",
        "min(x, 0.1) + min(0.2, y) + max(z, 0.1) + max(0.2, x*y) + atan2(x, 0.3) + atan2(0.2, y)",
        ".5 + 1.e3 + 1E+2*x + 2.5e-1 + 7",
        " ( x ) \n+\ty ",
        "1/3",
    ],
)
def test_grammar_is_openmms(text: str) -> None:
    assert agrees(text)


@pytest.mark.parametrize(
    "text",
    [
        "a + 1; a = b*2; b = x",
        "a*a + b; a = exp(b); b = c - y; c = x*x",
        "x; x = x + 1",  # the x on the right is the variable
        "x; x = x + 1; x = 5 + y",
        "b; x = 7; b = x*2",  # b is read before x is defined, so its x is the variable
        "a; a = x; a = y",
        "x;",
        "x;;",
        "x; unused = nothing + 1",
    ],
)
def test_definitions_are_scoped_as_in_openmm(text: str) -> None:
    assert agrees(text)


@pytest.mark.parametrize(("text", "wrong"), [("-x^2", "(-x)^2"), ("2^x^y", "(2^x)^y"), ("x-y-z", "x-(y-z)")])
def test_a_wrong_reading_would_be_noticed(text: str, wrong: str) -> None:
    assert not agrees(text, wrong)


class Writer:
    """Writes random expressions as text, so that precedence is tested and not only functions.

    Every part of one has a variable in it: OpenMM never returns from reading a constant part that is NaN.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def expression(self, depth: int, names: str) -> str:
        text = self.value(depth, names)
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            number = self.random.random() < 0.25
            text += self.random.choice((" + ", "-", "*", " * ", "/"))
            text += self.random.choice(("2", "0.7", "1.5e0", "-.3")) if number else self.value(depth, names)
        return text

    def value(self, depth: int, names: str) -> str:
        kind = self.random.random()
        sign = "-" if self.random.random() < 0.2 else ""
        if depth == 0 or kind < 0.25:
            return sign + self.random.choice(names)
        if kind < 0.45:
            return f"{sign}({self.expression(depth - 1, names)})"
        if kind < 0.65:
            powers = ("2", "3", "-3", "-2", "0.5", "x", "-y", "2^y", "-2^2", "y^2", "1.5")
            return f"{sign}{self.value(depth - 1, names)}^{self.random.choice(powers)}"
        name = self.random.choice(sorted(ARITY))
        arguments = [self.expression(depth - 1, names) for _ in range(ARITY[name])]
        return f"{sign}{name}({', '.join(arguments)})"

    def formula(self) -> str:
        parts = self.expression(3, "xyzab"), self.expression(2, "xyzb"), self.expression(1, "xyz")
        return "{}; a = {}; b = {}".format(*parts)


class Watch(TorchFunctionMode):
    """Sees at which points every result on the way is a number of moderate size."""

    def __init__(self) -> None:
        super().__init__()
        self.moderate = torch.ones(len(POINTS), dtype=torch.bool)

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.is_floating_point():
            self.moderate &= result.detach().abs() < 1e6
        return result


def test_random_expressions_agree_with_openmm() -> None:
    compared, lost = 0, 0
    for seed in range(150):
        text = Writer(seed).formula()
        with Watch() as watch:
            Expression.parse(text)(dict(zip("xyz", POINTS.unbind(-1), strict=True)))
        points = POINTS[watch.moderate]
        if not len(points):
            continue
        value, gradient = our_values(text, points)
        expected, slope = openmm_values(text, points)
        torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-10, msg=text)
        # OpenMM simplifies z-z and loses more slopes at 0^y than we do; elsewhere both must have them.
        finite = gradient.isfinite() & slope.isfinite()
        torch.testing.assert_close(gradient[finite], slope[finite], rtol=1e-8, atol=1e-8, msg=text)
        compared += len(points)
        lost += int((slope.isfinite() & ~gradient.isfinite()).any(-1).sum())
    assert compared > 400
    assert lost < 5


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "a value is missing at character 1"),
        ("; a = 3", "a value is missing at character 1"),
        ("x + ", "a value is missing at character 5"),
        ("x + * y", r"unexpected '\*' at character 5"),
        ("+x", r"unexpected '\+' at character 1"),
        ("2 x", "unexpected 'x' at character 3"),
        ("1e", "unexpected 'e' at character 2"),
        ("1.5.2", r"unexpected '\.2' at character 4"),
        (".", r"unexpected '\.' at character 1"),
        ("(x + 1", "a bracket that is never closed at character 1"),
        ("sqrt(x", "a bracket that is never closed at character 5"),
        ("x)", r"unexpected '\)' at character 2"),
        ("x, y", "unexpected ',' at character 2"),
        ("x < 2", "unexpected '<' at character 3"),
        ("x = 2", "unexpected '=' at character 3"),
        ("sqrt()", r"unexpected '\)' at character 6"),
        ("sqrt(x, y)", r"sqrt takes 1 argument\(s\), not 2, at character 1"),
        ("1 + sqr(x)", "unknown function 'sqr' at character 5. Did you mean 'sqrt'"),
        ("negate(x)", "unknown function 'negate'"),
        ("a; 3 = a", "a definition must have the form 'name = value' at character 4"),
        ("a; b c = 3", "a definition must have the form"),
        ("a; b", "a definition must have the form"),
        ("a; b = (", "a value is missing at character 9"),
        ("1e999", "the number 1e999 is too large at character 1"),
        ("__import__('os')", r"unexpected '''|unexpected ''"),
        ("(" * 1000 + "x" + ")" * 1000, "nested more than 100 deep"),
        ("-" * 1000 + "x", "nested more than 100 deep"),
        ("x" + "^2" * 1000, "nested more than 100 deep"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Expression.parse(text)


def test_only_a_window_of_a_long_expression_is_quoted() -> None:
    with pytest.raises(UserError, match=r"'…(\+x){15}\$(\+x)+\+…' .* at character 2000\.$") as error:
        Expression.parse("x" + "+x" * 999 + "$" + "+x" * 999)
    assert len(str(error.value)) < 150


def test_long_sums_are_no_deep_nesting() -> None:
    assert Expression.parse("x" + "+x" * 5000)({"x": 1.0}) == 5001


def test_missing_values_and_functions_are_named() -> None:
    expression = Expression.parse("table(x) + k1*k2; k2 = 3", functions={"table"})
    assert expression.variables == {"x", "k1"}
    assert expression.functions == {"table"}
    with pytest.raises(UserError, match="needs a value for k1"):
        expression({"x": 1.0}, {"table": torch.sin})
    with pytest.raises(UserError, match="needs the function table"):
        expression({"x": 1.0, "k1": 1.0})


def test_a_tabulated_function_comes_before_a_built_in_one() -> None:
    x = torch.tensor(0.3)
    assert Expression.parse("exp(x)", functions={"exp"})({"x": x}, {"exp": torch.sin}) == x.sin()


def test_what_occurs_twice_is_computed_once() -> None:
    calls = []

    def table(x: Tensor) -> Tensor:
        calls.append(x)
        return x + 1

    expression = Expression.parse("a + table(x)^2 + a*b; b = a; a = table(x)", {"table"})
    assert expression({"x": torch.tensor(1.0)}, {"table": table}) == 2 + 4 + 4
    assert len(calls) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (4,)])
@pytest.mark.parametrize(
    "text",
    [
        "2*x + k/3",
        "select(x, 1, 2)",
        "select(x, 1, y)",
        "min(x, 0.5) + max(0.1, k)",
        "step(x) + delta(k)",
        "k",
        "1.5",
    ],
)
def test_numbers_take_the_dtype_of_the_tensors(text: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.ones(shape, dtype=dtype)
    expression = Expression.parse(f"{text}; y = x + 0*n")
    values: dict[str, Operand] = {"x": x, "k": 2.0, "n": torch.ones(3, 1, dtype=torch.long)}
    if expression.variables & {"x", "n"}:
        assert expression(values).dtype == dtype
    else:
        assert expression(values).dtype == torch.float64


def test_tensors_broadcast_and_numbers_alone_are_double() -> None:
    expression = Expression.parse("x*y + 1")
    assert expression({"x": torch.ones(3, 1), "y": torch.ones(4)}).shape == (3, 4)
    assert expression({"x": 0.1, "y": 0.2}).dtype == torch.float64
    assert expression({"x": torch.arange(3), "y": 0.5}).tolist() == [1.0, 1.5, 2.0]


def test_bound_variables_are_folded() -> None:
    expression = Expression.parse("select(flag, x^n, sqrt(c)*x); c = d*2")
    bound = expression.bind({"flag": 1.0, "n": 2.0})
    assert bound.variables == {"x"}
    x = torch.zeros(1, requires_grad=True)
    bound({"x": x}).sum().backward()
    assert x.grad is not None
    assert x.grad.item() == 0
    assert expression.bind({"flag": 0.0, "d": 8.0})({"x": 3.0}) == 12
    assert expression({"flag": 1.0, "n": 2.0, "d": 1.0, "x": 3.0}) == 9


@pytest.mark.parametrize(
    "text",
    [
        "x^2 + x^3 + square(x) + cube(x)",
        "select(x, sqrt(x), 0)",
        "select(x, log(x), 0)",
        "select(x, 1/x + x^-6 + recip(x), 0)",
        "select(delta(x), 0, x^0.3 + x^y)",
        "select(x, csc(x) + cot(x), 0)",
        "select(x, asin(1-x) + acos(1-x), 0)",
        "select(delta(x), 0, exp(1e4*(1-x)))",
        "select(x, a, 0)*y; a = sqrt(b); b = x*y",
        "select(x, select(y-2, a, b), c); a = log(x); b = 1/x; c = 3*y",
        "select(step(y), select(x, a/x, y), a); a = y^2",
        "select(x, a, 0) + select(x, 2*a, y); a = 1/x",
        "select(x, 1/x, select(y, 2/y, log(x)))",
        "atan2(x, x) + abs(x)",
    ],
)
def test_a_branch_not_taken_leaves_the_gradient_alone(text: str) -> None:
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    y = torch.ones(1, dtype=torch.float64, requires_grad=True)
    value = Expression.parse(text)({"x": x, "y": y})
    gradients = torch.autograd.grad(value.sum(), (x, y), materialize_grads=True)
    assert value.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_without_a_guard_the_gradient_would_be_lost() -> None:
    x = torch.zeros(1, requires_grad=True)
    torch.where(x != 0, x.sqrt(), 0).sum().backward()
    assert x.grad is not None
    assert x.grad.isnan().all()


def test_a_value_that_is_missing_in_the_branch_taken_stays_missing() -> None:
    x = torch.tensor([-1.0, 4.0], dtype=torch.float64)
    values = Expression.parse("select(step(y), sqrt(x), 0) + min(0, sqrt(x)*0)")({"x": x, "y": 1.0})
    assert values.isnan().tolist() == [True, False]
    values = Expression.parse("select(step(x), sqrt(x), 0) + sqrt(x)*0")({"x": x})
    assert values.isnan().tolist() == [True, False]


def test_it_can_be_traced_whole() -> None:
    expression = Expression.parse("select(step(x-k), a + b^6, a*log(x)); a = exp(-x); b = min(k/x, y)")

    def function(x: Tensor) -> Tensor:
        return expression({"x": x, "y": x.detach() + 1, "k": 0.5})

    x = torch.linspace(0.1, 1.0, 10, dtype=torch.float64)
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), function(x))
    assert torch.equal(torch.func.vmap(function)(x), function(x))


def gb_energy(force: openmm.CustomGBForce, positions: Tensor) -> Tensor:
    """Evaluate a CustomGBForce by its expressions, in the plainest way."""
    tables = {
        force.getTabulatedFunctionName(i): from_openmm(force.getTabulatedFunction(i))
        for i in range(force.getNumTabulatedFunctions())
    }
    particles = [force.getParticleParameters(i) for i in range(force.getNumParticles())]
    columns = torch.tensor(particles, dtype=torch.float64).unbind(-1)
    single = {force.getPerParticleParameterName(i): column for i, column in enumerate(columns)}
    fixed = {
        force.getGlobalParameterName(i): force.getGlobalParameterDefaultValue(i)
        for i in range(force.getNumGlobalParameters())
    }
    apart = 1.0 - torch.eye(len(positions), dtype=torch.float64)
    distance = (positions[:, None] - positions[None]).square().sum(-1) + 1 - apart

    def term(text: str, kind: int) -> Tensor:
        expression = Expression.parse(text, tables).bind(fixed)
        if kind == openmm.CustomGBForce.SingleParticle:
            return expression(single, tables)
        first = {f"{name}1": value[:, None] for name, value in single.items()}
        second = {f"{name}2": value[None] for name, value in single.items()}
        return (expression({"r": distance.sqrt(), **first, **second}, tables) * apart).sum(1)

    for i in range(force.getNumComputedValues()):
        name, text, kind = force.getComputedValueParameters(i)
        single[name] = term(text, kind)
    energy = torch.zeros((), dtype=torch.float64)
    for i in range(force.getNumEnergyTerms()):
        text, kind = force.getEnergyTermParameters(i)
        energy = energy + term(text, kind).sum() * (1 if kind == openmm.CustomGBForce.SingleParticle else 0.5)
    return energy


@pytest.mark.parametrize("kind", ["HCT", "OBC1", "OBC2", "GBn", "GBn2"])
def test_implicit_solvents_of_openmm_are_reproduced(kind: str) -> None:
    system = openmm.System()
    force = getattr(customgbforces, f"GBSA{kind}Force")(SA="ACE")
    for charge, radius in [(0.3, 0.12), (-0.5, 0.15), (0.4, 0.13), (-0.2, 0.17), (0.1, 0.155)]:
        system.addParticle(1.0)
        force.addParticle([charge, radius, 0.8, *[1.09, 1.9, 2.5] * (kind == "GBn2")])
    force.finalize()
    positions = torch.rand(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 0.4
    positions.requires_grad_()
    energy = gb_energy(force, positions)
    (gradient,) = torch.autograd.grad(energy, positions)
    system.addForce(force)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions(positions.tolist())
    state = context.getState(energy=True, forces=True)
    assert energy.item() == pytest.approx(state.getPotentialEnergy()._value, rel=1e-10)
    slope = -torch.tensor(state.getForces(asNumpy=True)._value)
    torch.testing.assert_close(gradient, slope, rtol=1e-8, atol=1e-8)
