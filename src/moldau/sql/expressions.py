"""Expressions of SQL as Python functions of a row, with the type of what they give.

Invariant: NULL is None; whatever is computed from NULL is NULL, and AND and OR know three values. Nothing of
a statement is ever evaluated as Python.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, cast

from sqlglot import exp

from moldau.base.re2.regular_expressions import BadExpression, Reader
from moldau.base.wildcards import compile_wildcards
from moldau.sql.dialect import name_of
from moldau.sql.errors import SqlError
from moldau.sql.functions import FUNCTIONS, PATTERN_ARGUMENT
from moldau.sql.lambdas import LAMBDA_FUNCTIONS, compile_call
from moldau.sql.types import (
    BIGINT,
    BOOLEAN,
    DECIMALS,
    DOUBLE,
    INTEGER,
    NULL,
    STRING,
    SqlType,
    array_of,
    bounded,
    caster,
    decimal,
    type_of,
    wider,
)

Row = Mapping[str, Any]
Evaluate = Callable[[Row], Any]


class Compiled(NamedTuple):
    evaluate: Evaluate
    type: SqlType


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that an expression may name: with their source's alias or without."""

    #: By alias and name; the place in a row and the type.
    columns: Mapping[tuple[str, str], tuple[str, SqlType]]

    def find(self, alias: str | None, name: str) -> tuple[str, SqlType]:
        found = [
            (key, place) for key, place in self.columns.items() if key[1] == name and alias in (None, key[0])
        ]
        if not found:
            shown = f"{alias}.{name}" if alias else name
            known = ", ".join(sorted({key[1] for key in self.columns}))
            raise SqlError(f"There is no column {shown}; there are {known}.")
        if len(found) > 1:
            owners = " and ".join(f"{key[0]}.{name}" for key, _ in found)
            raise SqlError(f"Column {name} is ambiguous: say {owners}.")
        return found[0][1]

    def all(self, alias: str | None = None) -> list[tuple[str, str, str, SqlType]]:
        """Alias, name, place and type of every column, in order."""
        found = [(*key, *place) for key, place in self.columns.items() if alias in (None, key[0])]
        if alias is not None and not found:
            raise SqlError(f"There is no source {alias} here.")
        return found


def compile_expression(expression: exp.Expression, scope: Scope) -> Compiled:
    compiler = _COMPILERS.get(type(expression))
    if compiler is None:
        raise SqlError(f"{expression.sql()} cannot be used here.")
    return compiler(expression, scope)


def compile_condition(expression: exp.Expression, scope: Scope) -> Evaluate:
    """A condition of WHERE or HAVING: true where it holds, false where it does not or is NULL."""
    evaluate, kind = compile_expression(expression, scope)
    if kind not in (BOOLEAN, NULL):
        raise SqlError(f"A condition is true or false, but {expression.sql()} is {kind}.")
    return lambda row: evaluate(row) is True


# --- values and columns ---------------------------------------------------------------------------


def _literal(expression: exp.Literal, scope: Scope) -> Compiled:
    if expression.is_string:
        text = str(expression.this)
        return Compiled(lambda row: text, STRING)
    written = str(expression.this)
    if written.isdecimal():
        # One more than the largest BIGINT, so that the smallest can be written.
        if len(written) > 19 or (number := int(written)) > 1 << 63:
            raise SqlError(f"{written[:40]} does not fit a BIGINT; write {written[:10]}….0 for a DECIMAL.")
        return Compiled(lambda row: number, INTEGER if number < 1 << 31 else BIGINT)
    if "e" in written.lower():
        value = float(written)
        if math.isinf(value):
            raise SqlError(f"{written[:40]} does not fit a DOUBLE.")
        return Compiled(lambda row: value, DOUBLE)
    exact = Decimal(written)
    digits = exact.as_tuple()
    scale = -int(digits.exponent)
    return Compiled(lambda row: exact, decimal(max(len(digits.digits), scale), scale))


def _boolean(expression: exp.Boolean, scope: Scope) -> Compiled:
    value = bool(expression.this)
    return Compiled(lambda row: value, BOOLEAN)


def _null(expression: exp.Null, scope: Scope) -> Compiled:
    return Compiled(lambda row: None, NULL)


def _column(expression: exp.Column, scope: Scope) -> Compiled:
    table = expression.args.get("table")
    place, kind = scope.find(name_of(table) if table is not None else None, name_of(expression.this))
    return Compiled(lambda row: row.get(place), kind)


def _paren(expression: exp.Paren, scope: Scope) -> Compiled:
    return compile_expression(expression.this, scope)


# --- arithmetic and comparison ----------------------------------------------------------------------


def _divide(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        quotient = abs(one) // abs(other)
        return quotient if (one < 0) == (other < 0) else -quotient
    return one / other


def _remainder(one: Any, other: Any) -> Any:
    """With the sign of the first, as in Java."""
    if isinstance(one, float) or isinstance(other, float):
        return float(one) - float(other) * int(float(one) / float(other))
    return one - other * _divide(one, other)


_ARITHMETIC: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: _divide,
    exp.Mod: _remainder,
}
_EXACTLY: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.Add: DECIMALS.add,
    exp.Sub: DECIMALS.subtract,
    exp.Mul: DECIMALS.multiply,
    exp.Div: DECIMALS.divide,
    exp.Mod: DECIMALS.remainder,
}
#: Precision and scale of whole numbers beside a DECIMAL.
_DIGITS = {"INTEGER": (10, 0), "BIGINT": (19, 0), "NULL": (1, 0)}


def _arithmetic(expression: exp.Expression, scope: Scope) -> Compiled:
    left, right = (compile_expression(each, scope) for each in (expression.this, expression.expression))
    if type(expression) is exp.Add and STRING in (left.type, right.type):
        return _call("CONCAT", [left, right])
    for each in (left, right):
        if not each.type.is_number and each.type != NULL:
            raise SqlError(f"{expression.sql()} needs numbers, not {each.type}.")
    operation = type(expression)
    kind, work = wider(left.type, right.type), _ARITHMETIC[operation]
    if kind.name == "DECIMAL":
        kind, work = _decimal_result(operation, left.type, right.type), _EXACTLY[operation]
    one, other, fitting = _as_number(left, kind), _as_number(right, kind), bounded(kind)

    def evaluate(row: Row) -> Any:
        a, b = one(row), other(row)
        if a is None or b is None:
            return None
        try:
            return fitting(work(a, b))
        except ArithmeticError:
            return None

    return Compiled(evaluate, kind)


def _decimal_result(operation: type[exp.Expression], one: SqlType, other: SqlType) -> SqlType:
    """Precision and scale as ksqlDB has them, so that an ordinary result loses nothing."""
    (p, s), (q, t) = (_DIGITS.get(each.name, (each.precision, each.scale)) for each in (one, other))
    scale = max(s, t)
    if operation is exp.Mul:
        return decimal(p + q + 1, s + t)
    if operation is exp.Div:
        scale = max(6, s + q + 1)
        return decimal(p - s + t + scale, scale)
    if operation is exp.Mod:
        return decimal(min(p - s, q - t) + scale, scale)
    return decimal(max(p - s, q - t) + scale + 1, scale)


def _as_number(compiled: Compiled, kind: SqlType) -> Evaluate:
    """Its values as the wider of two types wants them: decimals and floats do not mix in Python."""
    evaluate = compiled.evaluate
    if kind.name == "DOUBLE" and compiled.type.name == "DECIMAL":
        return lambda row: None if (value := evaluate(row)) is None else float(value)
    return evaluate


def _negative(expression: exp.Neg, scope: Scope) -> Compiled:
    inner = compile_expression(expression.this, scope)
    evaluate = inner.evaluate
    return Compiled(lambda row: None if (value := evaluate(row)) is None else -value, inner.type)


_COMPARISONS: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_MOMENTS = ("TIMESTAMP", "DATE", "TIME")


def _comparison(expression: exp.Expression, scope: Scope) -> Compiled:
    left, right = (compile_expression(each, scope) for each in (expression.this, expression.expression))
    one, other = _alike(left, right, expression)
    work = _COMPARISONS[type(expression)]

    def evaluate(row: Row) -> Any:
        a, b = one(row), other(row)
        return None if a is None or b is None else work(a, b)

    return Compiled(evaluate, BOOLEAN)


def _alike(left: Compiled, right: Compiled, expression: exp.Expression) -> tuple[Evaluate, Evaluate]:
    """Both sides in a form that can be compared; a text is read as a moment beside a moment."""
    sides: list[Evaluate] = []
    for one, other in ((left, right), (right, left)):
        evaluate = one.evaluate
        if one.type == STRING and other.type.name in _MOMENTS:
            convert = caster(other.type)
            sides.append(_converted(evaluate, convert))
        elif one.type.name == "DECIMAL" and other.type.name == "DOUBLE":
            sides.append(_as_number(one, DOUBLE))
        else:
            sides.append(evaluate)
    if left.type.name not in _MOMENTS and right.type.name not in _MOMENTS:
        try:
            wider(left.type, right.type)
        except SqlError:
            raise SqlError(f"{expression.sql()} compares {left.type} with {right.type}.") from None
    return sides[0], sides[1]


def _converted(evaluate: Evaluate, convert: Callable[[Any], Any]) -> Evaluate:
    return lambda row: convert(evaluate(row))


def _and(expression: exp.And, scope: Scope) -> Compiled:
    return _chain(expression, scope, decides=False)


def _or(expression: exp.Or, scope: Scope) -> Compiled:
    return _chain(expression, scope, decides=True)


def _chain(expression: exp.Connector, scope: Scope, *, decides: bool) -> Compiled:
    """However many conditions there are; one that is ``decides`` decides, else one that is NULL does."""
    conditions = cast(Iterator[exp.Expression], expression.flatten(unnest=False))
    parts = [compile_expression(each, scope).evaluate for each in conditions]

    def evaluate(row: Row) -> Any:
        result: bool | None = not decides
        for part in parts:
            value = part(row)
            if value is decides:
                return decides
            if value is None:
                result = None
        return result

    return Compiled(evaluate, BOOLEAN)


def _not(expression: exp.Not, scope: Scope) -> Compiled:
    evaluate = compile_expression(expression.this, scope).evaluate
    return Compiled(lambda row: None if (value := evaluate(row)) is None else not value, BOOLEAN)


def _is(expression: exp.Is, scope: Scope) -> Compiled:
    evaluate = compile_expression(expression.this, scope).evaluate
    if isinstance(expression.expression, exp.Null):
        return Compiled(lambda row: evaluate(row) is None, BOOLEAN)
    if isinstance(expression.expression, exp.Boolean):
        wanted = bool(expression.expression.this)
        return Compiled(lambda row: evaluate(row) is wanted, BOOLEAN)
    raise SqlError(f"{expression.sql()}: IS is followed by NULL, NOT NULL, TRUE or FALSE.")


def _in(expression: exp.In, scope: Scope) -> Compiled:
    value = compile_expression(expression.this, scope)
    if not expression.expressions:
        raise SqlError("IN is followed by a list of values.")
    items = [compile_expression(each, scope) for each in expression.expressions]
    sides = [_alike(value, item, expression) for item in items]

    def evaluate(row: Row) -> Any:
        if value.evaluate(row) is None:
            return None
        unknown = False
        for one, other in sides:
            candidate = other(row)
            if candidate is None:
                unknown = True
            elif one(row) == candidate:
                return True
        return None if unknown else False

    return Compiled(evaluate, BOOLEAN)


def _between(expression: exp.Between, scope: Scope) -> Compiled:
    low = exp.GTE(this=expression.this, expression=expression.args["low"])
    high = exp.LTE(this=expression.this.copy(), expression=expression.args["high"])
    return _and(exp.And(this=low, expression=high), scope)


def _like(expression: exp.Like, scope: Scope) -> Compiled:
    evaluate = compile_expression(expression.this, scope).evaluate
    if not isinstance(expression.expression, exp.Literal) or not expression.expression.is_string:
        raise SqlError("LIKE is followed by a text in quotes.")
    matches = compile_wildcards(str(expression.expression.this), "%", "_").fullmatch
    return Compiled(
        lambda row: None if (value := evaluate(row)) is None else matches(str(value)) is not None, BOOLEAN
    )


# --- CASE, CAST, functions, parts of values ---------------------------------------------------------


def _case(expression: exp.Case, scope: Scope) -> Compiled:
    subject = expression.args.get("this")
    branches, kind = [], NULL
    for each in expression.args["ifs"]:
        condition = each.this if subject is None else exp.EQ(this=subject.copy(), expression=each.this)
        then = compile_expression(each.args["true"], scope)
        kind = wider(kind, then.type)
        branches.append((compile_condition(condition, scope), then.evaluate))
    default = expression.args.get("default")
    otherwise = (
        compile_expression(default, scope) if default is not None else Compiled(lambda row: None, NULL)
    )

    def evaluate(row: Row) -> Any:
        for condition, then in branches:
            if condition(row):
                return then(row)
        return otherwise.evaluate(row)

    return Compiled(evaluate, wider(kind, otherwise.type))


def _cast(expression: exp.Cast, scope: Scope) -> Compiled:
    evaluate, kind = compile_expression(expression.this, scope).evaluate, type_of(expression.args["to"])
    convert = caster(kind)

    def cast(row: Row) -> Any:
        try:
            return convert(evaluate(row))
        except (ValueError, ArithmeticError):
            return None

    return Compiled(cast, kind)


def _call(name: str, arguments: list[Compiled]) -> Compiled:
    function = FUNCTIONS.get(name)
    if function is None:
        raise SqlError(f"There is no function {name}; SHOW FUNCTIONS lists them.")
    if not function.fewest <= len(arguments) <= function.most:
        raise SqlError(f"{name} takes {function.fewest} to {function.most} arguments, not {len(arguments)}.")
    call, evaluates = function.call, [each.evaluate for each in arguments]
    kind = function.gives([each.type for each in arguments])

    def evaluate(row: Row) -> Any:
        values = [each(row) for each in evaluates]
        if not function.takes_null and None in values:
            return None
        try:
            return call(*values)
        except Exception:  # also what a record is not worth ending a query for, such as JSON without end
            return None

    return Compiled(evaluate, kind)


def _function(expression: exp.Anonymous, scope: Scope) -> Compiled:
    name = str(expression.this).upper()
    if name == "STRUCT":
        return _struct(expression, scope)
    if name in LAMBDA_FUNCTIONS:

        def compile_with(inner: exp.Expression, variables: Mapping[str, SqlType]) -> Compiled:
            known = {("", place): (place, kind) for place, kind in variables.items()}
            return compile_expression(inner, Scope({**scope.columns, **known}))

        return Compiled(*compile_call(name, expression.expressions, compile_with))
    _check_pattern(name, expression.expressions)
    return _call(name, [compile_expression(each, scope) for each in expression.expressions])


def _check_pattern(name: str, arguments: list[exp.Expression]) -> None:
    """A regular expression in quotes is read now, so that what is wrong with it is said and not NULL."""
    at = PATTERN_ARGUMENT.get(name, len(arguments))
    if at < len(arguments) and isinstance(pattern := arguments[at], exp.Literal) and pattern.is_string:
        try:
            Reader(str(pattern.this)).read()
        except BadExpression as error:
            raise SqlError(f"{pattern.sql()} is no regular expression of RE2: {error}.") from None


def _struct(expression: exp.Anonymous, scope: Scope) -> Compiled:
    fields: list[tuple[str, Compiled]] = []
    for each in expression.expressions:
        if not isinstance(each, exp.PropertyEQ):
            raise SqlError("A struct is written STRUCT(name := value, …).")
        fields.append((name_of(each.this), compile_expression(each.expression, scope)))
    kind = SqlType("STRUCT", tuple(each.type for _, each in fields), tuple(name for name, _ in fields))
    return Compiled(lambda row: {name: each.evaluate(row) for name, each in fields}, kind)


def _array(expression: exp.Array, scope: Scope) -> Compiled:
    items = [compile_expression(each, scope) for each in expression.expressions]
    kind = NULL
    for each in items:
        kind = wider(kind, each.type)
    return Compiled(lambda row: [each.evaluate(row) for each in items], array_of(kind))


def _field(expression: exp.JSONExtract, scope: Scope) -> Compiled:
    whole = compile_expression(expression.this, scope)
    name = name_of(expression.expression)
    kind = whole.type.field(name) if whole.type.name == "STRUCT" else None
    if kind is None:
        raise SqlError(f"{expression.this.sql()} is {whole.type}, which has no field {name}.")
    evaluate = whole.evaluate
    return Compiled(lambda row: None if (value := evaluate(row)) is None else value.get(name), kind)


def _bracket(expression: exp.Bracket, scope: Scope) -> Compiled:
    whole = compile_expression(expression.this, scope)
    place = compile_expression(expression.expressions[0], scope)
    if whole.type.name == "MAP":
        return Compiled(
            lambda row: None if (value := whole.evaluate(row)) is None else value.get(place.evaluate(row)),
            whole.type.parts[1],
        )
    if whole.type.name != "ARRAY":
        raise SqlError(f"{expression.this.sql()} is {whole.type}; only arrays and maps have [ ].")

    def evaluate(row: Row) -> Any:
        items, at = whole.evaluate(row), place.evaluate(row)
        if items is None or at is None or at == 0 or abs(at) > len(items):
            return None
        return items[at - 1 if at > 0 else at]

    return Compiled(evaluate, whole.type.parts[0])


def _concatenation(expression: exp.DPipe, scope: Scope) -> Compiled:
    sides = [compile_expression(each, scope) for each in (expression.this, expression.expression)]
    return _call("CONCAT", sides)


_COMPILERS: dict[type[exp.Expression], Callable[[Any, Scope], Compiled]] = {
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Column: _column,
    exp.Paren: _paren,
    exp.Neg: _negative,
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Anonymous: _function,
    exp.Array: _array,
    exp.JSONExtract: _field,
    exp.Bracket: _bracket,
    exp.DPipe: _concatenation,
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_COMPARISONS, _comparison),
}
