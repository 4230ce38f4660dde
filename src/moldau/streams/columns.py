"""Column expressions: what can be said of a record without a Python function.

``col("price") * 2 > 10`` is such an expression: the field of a value that is a dict. ``VALUE`` and ``KEY``
are the whole value and key. An expression fits wherever a function of key and value does; the engine writes
it into its own loop, so that no call is needed for a record.

Invariant: an expression means what its Python source means; a missing field and a value of None are None.
"""

from collections.abc import Callable
from typing import Any


class Column:
    """An expression over ``key`` and ``value``; call it with both, or let the engine compile it."""

    __slots__ = ("_function", "constants", "source")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, source: str, constants: tuple[Any, ...] = ()) -> None:
        #: Python source with ``<key>``, ``<value>``, and ``<0>``, ``<1>`` … for the constants.
        self.source = source
        self.constants = constants
        self._function: Callable[[Any, Any], Any] | None = None

    def __call__(self, key: Any, value: Any) -> Any:
        if self._function is None:
            names = {f"constant_{number}": each for number, each in enumerate(self.constants)}
            text = self.inlined(
                "key", "value", [f"constant_{number}" for number in range(len(self.constants))]
            )
            self._function = eval(f"lambda key, value: {text}", names)
        return self._function(key, value)

    def inlined(self, key: str, value: str, constants: list[str]) -> str:
        """The source with other names for key, value and constants."""
        text = self.source.replace("<key>", key).replace("<value>", value)
        for number, name in reversed(list(enumerate(constants))):
            text = text.replace(f"<{number}>", name)
        return f"({text})"

    def _with(self, operator: str, other: Any, *, is_reversed: bool = False) -> "Column":
        if isinstance(other, Column):
            shifted = other.source
            for number in reversed(range(len(other.constants))):
                shifted = shifted.replace(f"<{number}>", f"<{number + len(self.constants)}>")
            right, constants = f"({shifted})", (*self.constants, *other.constants)
        else:
            right, constants = f"<{len(self.constants)}>", (*self.constants, other)
        left = f"({self.source})"
        parts = (right, left) if is_reversed else (left, right)
        return Column(f"{parts[0]} {operator} {parts[1]}", constants)

    def __eq__(self, other: object) -> "Column":  # type: ignore[override]
        return self._with("==", other)

    def __ne__(self, other: object) -> "Column":  # type: ignore[override]
        return self._with("!=", other)

    def __lt__(self, other: Any) -> "Column":
        return self._with("<", other)

    def __le__(self, other: Any) -> "Column":
        return self._with("<=", other)

    def __gt__(self, other: Any) -> "Column":
        return self._with(">", other)

    def __ge__(self, other: Any) -> "Column":
        return self._with(">=", other)

    def __add__(self, other: Any) -> "Column":
        return self._with("+", other)

    def __radd__(self, other: Any) -> "Column":
        return self._with("+", other, is_reversed=True)

    def __sub__(self, other: Any) -> "Column":
        return self._with("-", other)

    def __rsub__(self, other: Any) -> "Column":
        return self._with("-", other, is_reversed=True)

    def __mul__(self, other: Any) -> "Column":
        return self._with("*", other)

    def __rmul__(self, other: Any) -> "Column":
        return self._with("*", other, is_reversed=True)

    def __truediv__(self, other: Any) -> "Column":
        return self._with("/", other)

    def __and__(self, other: Any) -> "Column":
        return self._with("and", other)

    def __or__(self, other: Any) -> "Column":
        return self._with("or", other)

    def __invert__(self) -> "Column":
        return Column(f"not ({self.source})", self.constants)

    def is_null(self) -> "Column":
        return Column(f"({self.source}) is None", self.constants)

    def is_not_null(self) -> "Column":
        return Column(f"({self.source}) is not None", self.constants)

    def is_in(self, *values: Any) -> "Column":
        kept = frozenset(values)
        return Column(f"({self.source}) in <{len(self.constants)}>", (*self.constants, kept))


KEY = Column("<key>")
VALUE = Column("<value>")


def col(name: str) -> Column:
    """A field of a value that is a dict; None where it is missing."""
    return Column("(<value>.get(<0>) if <value> is not None else None)", (name,))
