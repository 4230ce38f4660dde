"""Operators on streams that remember nothing: filter, map, flat_map, branch, peek and their like.

Invariant: results keep the timestamp and the headers of the record that they come from.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from moldau.streams.engine.nodes import Node
from moldau.streams.engine.records import Headers

KeyValueFunction = Callable[[Any, Any], Any]


class _WithFunction(Node):
    __slots__ = ("function",)

    def __init__(self, function: KeyValueFunction) -> None:
        super().__init__()
        self.function = function


class Filter(Node):
    __slots__ = ("keep", "predicate")

    def __init__(self, predicate: KeyValueFunction, *, keep: bool = True) -> None:
        super().__init__()
        self.predicate = predicate
        self.keep = keep

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if bool(self.predicate(key, value)) is self.keep:
            self.forward(key, value, timestamp, headers)


class Map(_WithFunction):
    """``function`` gives a new key and a new value."""

    __slots__ = ()

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        new_key, new_value = self.function(key, value)
        self.forward(new_key, new_value, timestamp, headers)


class MapValues(_WithFunction):
    __slots__ = ()

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.forward(key, self.function(key, value), timestamp, headers)


class SelectKey(_WithFunction):
    __slots__ = ()

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.forward(self.function(key, value), value, timestamp, headers)


class FlatMap(_WithFunction):
    """``function`` gives pairs of key and value."""

    __slots__ = ()
    function: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for new_key, new_value in self.function(key, value):
            self.forward(new_key, new_value, timestamp, headers)


class FlatMapValues(_WithFunction):
    __slots__ = ()
    function: Callable[[Any, Any], Iterable[Any]]

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for new_value in self.function(key, value):
            self.forward(key, new_value, timestamp, headers)


class Peek(_WithFunction):
    """Shows each record to a function and hands it on."""

    __slots__ = ()

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.function(key, value)
        self.forward(key, value, timestamp, headers)


class ForEach(_WithFunction):
    __slots__ = ()

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.function(key, value)


class Branch(Node):
    """Sends a record to the first child whose predicate holds, or to the default child, or nowhere."""

    __slots__ = ("child_names", "default_child", "predicates")

    def __init__(
        self,
        predicates: Sequence[KeyValueFunction],
        child_names: Sequence[str],
        default_child: str | None,
    ) -> None:
        super().__init__()
        self.predicates = predicates
        self.child_names = child_names
        self.default_child = default_child

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for predicate, name in zip(self.predicates, self.child_names, strict=True):
            if predicate(key, value):
                self._send(name, key, value, timestamp, headers)
                return
        if self.default_child is not None:
            self._send(self.default_child, key, value, timestamp, headers)

    def _send(self, name: str, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for child in self.children:
            if child.name == name:
                child.process(key, value, timestamp, headers)


class ToStream(Node):
    """A table's changes as records of a stream."""

    __slots__ = ()

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.forward(key, value.new, timestamp, headers)
