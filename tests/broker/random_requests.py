"""Requests that nobody would send, made from the declarations: well formed, and full of odd values.

Invariant: the same seed makes the same requests. Values are those at the edge of what a handler expects,
among them the names of things that exist, so that a request gets further than to the first check.
"""

import random
from typing import Any

from moldau.broker.apis import TABLE
from moldau.protocol import messages
from moldau.protocol.schema import Field, declaration
from tests.contract.batches import batch

_EDGES = {
    "int8": (-128, -1, 0, 1, 2, 4, 127),
    "int16": (-32768, -1, 0, 1, 2, 32767),
    "uint16": (0, 1, 65535),
    "int32": (-(2**31), -2, -1, 0, 0, 0, 1, 2, 100, 2**31 - 1),
    "uint32": (0, 1, 2**32 - 1),
    "float64": (-1.0, 0.0, 0.5, 1.0, 1e30, float("inf"), float("nan")),
    "int64": (-(2**63), -7, -3, -2, -1, 0, 0, 1, 5, 10**12, 2**63 - 1),
}
_TEXTS = (
    "known",
    "known",
    "known",
    "missing",
    "",
    "1",
    "a b",
    "../..",
    "\x00",
    "žluťoučký kůň",
    "x" * 250,
    "__consumer_offsets",
    "retention.ms",
    "cleanup.policy",
    "compact",
)
#: Ten thousand partitions are a legal wish, and a slow one to grant again and again.
_COUNTS = {"num_partitions", "count"}
#: Every API in every version that the broker answers.
ROUTES = [(key, version) for key, api in TABLE.items() for version in range(api.minimum, api.maximum + 1)]


class RandomRequests:
    def __init__(self, seed: int, topic_id: bytes) -> None:
        self.random = random.Random(seed)
        self.topic_id = topic_id

    def request(self, api_key: Any, version: int) -> Any:
        return self._structure(messages.load(api_key)[0], version)

    def _structure(self, cls: type, version: int) -> Any:
        fields = (field for field in declaration(cls).fields if version in field.present)
        return cls(**{field.name: self._field(field, version) for field in fields})

    def _field(self, field: Field, version: int) -> Any:
        if version in field.nullable and self.random.random() < 0.15:
            return None
        if field.is_array:
            return [self._value(field, version) for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
        return self._value(field, version)

    def _value(self, field: Field, version: int) -> Any:
        kind, choose = field.kind, self.random.choice
        if not isinstance(kind, str):
            return self._structure(kind, version)
        if field.name in _COUNTS:
            return choose((-2, -1, 0, 1, 2, 20_001, 2**31 - 1))
        if kind in _EDGES:
            return choose(_EDGES[kind])
        if kind == "bool":
            return choose((False, True))
        if kind == "string":
            return choose(_TEXTS)
        if kind == "uuid":
            return choose((bytes(16), self.topic_id, self.random.randbytes(16)))
        return self._records() if kind == "records" else self.random.randbytes(choose((0, 1, 40)))

    def _records(self) -> bytes:
        producer_id = self.random.choice((-1, 5))
        fine = batch(
            b"v" * self.random.choice((1, 100)),
            timestamp=self.random.choice((-1, 0, 10**12)),
            producer_id=producer_id,
            producer_epoch=producer_id,
            base_sequence=self.random.choice((-1, 0, 1)),
        )
        return self.random.choice((fine, fine, self.damaged(fine), b"", fine + fine))

    def damaged(self, data: bytes) -> bytes:
        """Some bytes replaced, cut out, doubled or appended."""
        changed = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 5))):
            at = self.random.randrange(len(changed)) if changed else 0
            match self.random.randrange(5):
                case 0:
                    changed[at : at + 1] = self.random.randbytes(1)
                case 1:
                    changed[at : at + 1] = self.random.choice((b"\xff", b"\x80", b"\x7f", b"\x00"))
                case 2:
                    del changed[at : at + self.random.choice((1, 4, 30))]
                case 3:
                    changed[at:at] = changed[at : at + 20]
                case _:
                    changed[at : at + 4] = self.random.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"))
        return bytes(changed)
