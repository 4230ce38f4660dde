"""Random messages from declarations, for the tests that compare and for those that damage them."""

import random
from typing import Any

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.schema import Field, declaration

_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_TEXTS = (
    "",
    "a",
    "topic-7",
    "Vltava",
    "žluťoučký kůň",
    "川の流れ",
    "𝄞 clef",
    "\x00",
    "x" * 126,
    "x" * 127,
    "ř" * 200,
)


class RandomMessages:
    """Makes messages of any declaration; the same seed makes the same messages.

    Two kinds of field are kept to values that the oracle of ``test_messages`` can hold as well: error codes
    that exist, and times in whole seconds.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def message(self, cls: type, version: int, depth: int = 0) -> Any:
        values = {}
        for f in declaration(cls).fields:
            if version in f.present:
                values[f.name] = self.field(f, version, depth)
        return cls(**values)

    def field(self, f: Field, version: int, depth: int) -> Any:
        draw = self.random.random()
        if draw < 0.25 and version in f.nullable:
            return None
        if f.is_array:
            return self.array(f, version, depth)
        if isinstance(f.kind, str):
            if draw > 0.8 and f.default is not None:
                return f.default
            return self.primitive(f.kind, f.name)
        return self.message(f.kind, version, depth + 1)

    def array(self, f: Field, version: int, depth: int) -> list[Any]:
        if not isinstance(f.kind, str):
            return [self.message(f.kind, version, depth + 1) for _ in range(self.random.choice((0, 1, 1, 2)))]
        size = self.random.choice((0, 1, 2, 3, 126, 127, 130) if depth < 2 else (0, 1, 2, 3))
        return [self.primitive(f.kind, f.name) for _ in range(size)]

    def primitive(self, kind: str, name: str) -> Any:
        choose = self.random
        if kind in _RANGES:
            if name.endswith("error_code"):
                return int(choose.choice(list(ErrorCode)))
            if kind == "int64" and name.endswith("_ms"):
                return choose.randrange(4_000_000_000) * 1000
            first, last = _RANGES[kind]
            return choose.choice((first, last, max(first, -1), 0, 1, choose.randint(first, last)))
        if kind == "bool":
            return choose.random() < 0.5
        if kind == "float64":
            return choose.choice((0.0, -1.5, 1e300, choose.random()))
        if kind == "string":
            return choose.choice(_TEXTS)
        if kind == "uuid":
            return choose.choice((bytes(16), choose.randbytes(16)))
        assert kind in ("bytes", "records"), kind
        return choose.randbytes(choose.choice((0, 1, 61, 126, 127, 128, 400)))


@pytest.fixture(scope="session")
def random_messages() -> type[RandomMessages]:
    return RandomMessages
