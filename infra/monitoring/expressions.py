"""Expressions: the small part of CloudWatch's metric math that the panels use, evaluated here.

CloudWatch evaluates it on AWS; LocalStack knows none, and the command line has the metrics at hand anyway. Numbers,
names of metrics, `+ - * /`, `PERIOD(m)`, and `FILL(m, 0)`. A value that is missing makes what is computed from it
missing, and so does a division by zero. Rules: CloudWatch User Guide, "Using math expressions with CloudWatch metrics".
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence

# One value for each period of a window; None where nothing was reported.
type Values = Sequence[float | None]

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate(expression: str, metrics: Mapping[str, Values], period_s: int) -> list[float | None]:
    """The expression's value in each period.

    Raises `ValueError` where the expression is none of these, and `KeyError` for a metric that is not there.
    """
    length = max((len(values) for values in metrics.values()), default=0)
    return _value(ast.parse(expression, mode="eval").body, metrics, period_s, length)


def names(expression: str, *, values: bool = False) -> set[str]:
    """The metrics that the expression uses; with `values`, without those of which it needs the period only."""
    nodes = list(ast.walk(ast.parse(expression, mode="eval")))
    found = [node.id for node in nodes if isinstance(node, ast.Name)]
    for node in nodes if values else ():
        match node:
            case ast.Call(func=ast.Name(id="PERIOD"), args=[ast.Name(id=name)]):
                found.remove(name)
    return set(found) - {"FILL", "PERIOD"}


def _value(node: ast.expr, metrics: Mapping[str, Values], period_s: int, length: int) -> list[float | None]:
    match node:
        case ast.Constant(value=int() | float() as number):
            return [float(number)] * length
        case ast.Name(id=name):
            return list(metrics[name])
        case ast.Call(func=ast.Name(id="PERIOD")):
            return [float(period_s)] * length
        case ast.Call(func=ast.Name(id="FILL"), args=[filled, ast.Constant(value=int() | float() as number)]):
            values = _value(filled, metrics, period_s, length)
            return [float(number) if value is None else value for value in values]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            operate = _OPERATIONS[type(op)]
            pairs = zip(_value(left, metrics, period_s, length), _value(right, metrics, period_s, length), strict=True)
            return [_operated(operate, a, b) for a, b in pairs]
        case _:
            raise ValueError(f"not a metric math expression that is known here: {ast.unparse(node)}")


def _operated(operate: Callable[[float, float], float], a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return None
    try:
        return operate(a, b)
    except ZeroDivisionError:
        return None
