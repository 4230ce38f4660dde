"""The language of filters over records: small, and unable to do anything but compare.

    value.price > 100 and key startswith "cz" and not (headers.trace exists)
    value.customer.town in ("Praha", "Brno")
    value.items[0].name contains "tea" or offset == 42

Names: ``key``, ``value``, ``headers``, ``partition``, ``offset``, ``timestamp``, each with ``.field`` and
``[n]`` behind it. Comparisons: ``== != < <= > >=``, ``contains``, ``startswith``, ``endswith``, ``in (…)``,
``exists``, ``matches "a*b?"`` (shell patterns, no regular expressions: those can take for ever). Words: ``and
or not``, ``true false null``. What is not there compares false; a number in a text compares with a number.

Invariant: a program of this language ends: there are no loops, calls or definitions. Its length and depth are
bounded, and so are the steps of one evaluation. Pure: nothing is looked up outside of the given record.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from moldau.base.wildcards import compile_wildcards

MAX_LENGTH = 2_000
MAX_DEPTH = 50
MAX_TOKENS = 500

#: From a record as a mapping to whether it is wanted.
Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]
_Value: TypeAlias = Callable[[Mapping[str, Any]], Any]

NAMES = ("key", "value", "headers", "partition", "offset", "timestamp")
_WORDS = frozenset({"and", "or", "not", "in", "contains", "startswith", "endswith", "exists", "matches"})
_LITERALS = {"true": True, "false": False, "null": None}
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<name>[^\W\d][\w-]*)
    | (?P<sign>==|!=|<=|>=|<|>|\(|\)|\[|\]|\.|,)
    )""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")
_MISSING = object()


class InvalidExpression(ValueError):
    """What is wrong with an expression, and where."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int


def compile_expression(source: str) -> Predicate:
    """A filter; an empty one wants everything. ``InvalidExpression`` says what is wrong and where."""
    if not source.strip():
        return lambda record: True
    if len(source) > MAX_LENGTH:
        raise InvalidExpression(f"an expression has at most {MAX_LENGTH} characters")
    parser = _Parser(_tokens(source), source)
    found = parser.either(0)
    parser.expect_end()
    return lambda record: bool(found(record))


def _tokens(source: str) -> list[_Token]:
    found: list[_Token] = []
    place, end = 0, len(source.rstrip())
    while place < end:
        match = _TOKEN.match(source, place)
        if match is None or match.lastgroup is None:
            rest = source[place:].lstrip()
            raise InvalidExpression(
                f"{rest[:10]!r} at character {end - len(rest) + 1} is no part of a filter"
            )
        found.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        if len(found) > MAX_TOKENS:
            raise InvalidExpression(f"an expression has at most {MAX_TOKENS} words")
        place = match.end()
    return found


class _Parser:
    """Recursive descent, one method for each level of the grammar."""

    def __init__(self, tokens: list[_Token], source: str) -> None:
        self._tokens = tokens
        self._source = source
        self._next = 0

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self, *texts: str) -> bool:
        token = self._peek()
        if token is None or token.kind not in ("sign", "name") or token.text not in texts:
            return False
        self._next += 1
        return True

    def _wrong(self, wanted: str) -> InvalidExpression:
        token = self._peek()
        if token is None:
            return InvalidExpression(f"the expression ends where {wanted} is expected")
        return InvalidExpression(
            f"{wanted} is expected at character {token.place + 1}, where {token.text[:20]!r} stands"
        )

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._wrong(repr(text))

    def expect_end(self) -> None:
        if self._peek() is not None:
            raise self._wrong("'and', 'or' or the end")

    def either(self, depth: int) -> _Value:
        found = [self._both(depth)]
        while self._take("or"):
            found.append(self._both(depth))
        return found[0] if len(found) == 1 else lambda record: any(each(record) for each in found)

    def _both(self, depth: int) -> _Value:
        found = [self._negated(depth)]
        while self._take("and"):
            found.append(self._negated(depth))
        return found[0] if len(found) == 1 else lambda record: all(each(record) for each in found)

    def _negated(self, depth: int) -> _Value:
        if depth > MAX_DEPTH:
            raise InvalidExpression(f"an expression is nested at most {MAX_DEPTH} deep")
        if self._take("not"):
            inner = self._negated(depth + 1)
            return lambda record: not inner(record)
        if self._take("("):
            inner = self.either(depth + 1)
            self._expect(")")
            return inner
        return self._comparison()

    def _comparison(self) -> _Value:
        left = self._operand()
        token = self._peek()
        if self._take("exists"):
            return lambda record: left(record) is not _MISSING
        if self._take("in"):
            return self._in(left)
        if self._take("matches"):
            return self._matches(left)
        if token is not None and token.text in _COMPARISONS and self._take(token.text):
            compare, right = _COMPARISONS[token.text], self._operand()
            return lambda record: compare(left(record), right(record))
        return lambda record: (found := left(record)) is not _MISSING and bool(found)

    def _in(self, left: _Value) -> _Value:
        self._expect("(")
        choices = [self._operand()]
        while self._take(","):
            choices.append(self._operand())
        self._expect(")")
        return lambda record: any(_equal(left(record), each(record)) for each in choices)

    def _matches(self, left: _Value) -> _Value:
        token = self._peek()
        if token is None or token.kind != "text":
            raise self._wrong("a pattern in quotes")
        self._next += 1
        pattern = _ESCAPED.sub(r"\1", token.text[1:-1])
        fits = compile_wildcards(pattern, "*", "?").fullmatch
        return lambda record: isinstance(text := left(record), str) and fits(text) is not None

    def _operand(self) -> _Value:
        token = self._peek()
        if token is None or token.kind == "sign" or token.text in _WORDS:
            raise self._wrong("a name, a number or a text in quotes")
        self._next += 1
        if token.kind == "number":
            number: int | float = _number(token.text)
            return lambda record: number
        if token.kind == "text":
            content = _ESCAPED.sub(r"\1", token.text[1:-1])
            return lambda record: content
        if token.text in _LITERALS:
            literal = _LITERALS[token.text]
            return lambda record: literal
        if token.text not in NAMES:
            raise InvalidExpression(
                f"{token.text!r} at character {token.place + 1} is no name of a filter; "
                f"they are {', '.join(NAMES)}, and a text stands in quotes"
            )
        return self._path(token.text)

    def _path(self, name: str) -> _Value:
        steps: list[str | int] = []
        while True:
            if self._take("."):
                token = self._peek()
                if token is None or token.kind not in ("name", "text"):
                    raise self._wrong("the name of a field")
                self._next += 1
                steps.append(token.text if token.kind == "name" else _ESCAPED.sub(r"\1", token.text[1:-1]))
            elif self._take("["):
                token = self._peek()
                if token is None or token.kind not in ("number", "text"):
                    raise self._wrong("the place of an item, or a name in quotes")
                self._next += 1
                is_place = token.kind == "number" and token.text.lstrip("-").isdecimal()
                steps.append(int(token.text) if is_place else _ESCAPED.sub(r"\1", token.text[1:-1]))
                self._expect("]")
            else:
                return lambda record: _found(record.get(name, _MISSING), steps)


def _number(text: str) -> int | float:
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError as error:  # more digits than Python converts
        raise InvalidExpression(str(error)) from None


def _found(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step, _MISSING)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return _MISSING
    return value


def _as_number(value: Any) -> int | float | None:
    """A number, or a text that is one, as keys often are."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and len(value) <= 40:
        try:
            return float(value) if "." in value or "e" in value.lower() else int(value)
        except ValueError:
            return None
    return None


def _equal(left: Any, right: Any) -> bool:
    if left is _MISSING or right is _MISSING:
        return False
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, int | float) != isinstance(right, int | float):
        first, second = _as_number(left), _as_number(right)
        return first is not None and first == second
    return bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return compare(left, right)
        first, second = _as_number(left), _as_number(right)
        return first is not None and second is not None and compare(first, second)

    return ordered


def _contains(left: Any, right: Any) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    if isinstance(left, Mapping):
        return isinstance(right, str) and right in left
    return isinstance(left, list) and any(_equal(each, right) for each in left)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: left is not _MISSING and right is not _MISSING and not _equal(left, right),
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
    "contains": _contains,
    "startswith": lambda left, right: (
        isinstance(left, str) and isinstance(right, str) and left.startswith(right)
    ),
    "endswith": lambda left, right: isinstance(left, str) and isinstance(right, str) and left.endswith(right),
}
