"""Python source that is put together and compiled: lines, names for values, functions.

Invariant: what comes from a schema reaches the source as a constant's name or as a ``repr``, never as it
is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """One module of generated functions. ``lines`` of functions that are begun inside others come first."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = dict(names)
        self._constants: dict[int, str] = {}
        self._keep: list[Any] = []
        self._finished: list[str] = []
        self._lines: list[str] = []
        self._depth = 1
        self._variables = 0
        self._functions = 0

    def add(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def variable(self) -> str:
        self._variables += 1
        return f"v{self._variables}"

    def constant(self, value: Any) -> str:
        """A name for a value; the same object has one name."""
        name = self._constants.get(id(value))
        if name is None:
            name = self._constants[id(value)] = f"c{len(self._constants)}"
            self._keep.append(value)  # an id means one object as long as that one lives
            self._names[name] = value
        return name

    def function_name(self) -> str:
        self._functions += 1
        return f"f{self._functions}"

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.add(head)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.add("pass")
        self._depth -= 1

    @contextmanager
    def function(self, name: str, parameters: str) -> Iterator[None]:
        outer, depth = self._lines, self._depth
        self._lines, self._depth = [f"def {name}({parameters}):"], 1
        yield
        self._finished += self._lines
        self._lines, self._depth = outer, depth

    def text(self) -> str:
        return "\n".join(self._finished)

    def compiled(self, name: str, about: str) -> Callable[..., Any]:
        names = dict(self._names)
        exec(compile(self.text(), f"<{about}>", "exec"), names)
        found: Callable[..., Any] = names[name]
        return found
