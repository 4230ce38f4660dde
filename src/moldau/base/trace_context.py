"""W3C trace context: the ``traceparent`` header that carries a trace from one program to the next.

    context = TraceContext.parse(header) or TraceContext.new(os.urandom)
    child = context.child(os.urandom)          # the next span of the same trace
    headers = [("traceparent", child.header())]

Invariant: pure; a header that is not as the standard says is None, never an error.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

TRACEPARENT = "traceparent"
_HEADER = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 0x01

#: Random bytes, as ``os.urandom`` gives them.
Random = Callable[[int], bytes]


class TraceContext(NamedTuple):
    trace_id: str
    span_id: str
    sampled: bool = True

    @classmethod
    def new(cls, random: Random) -> "TraceContext":
        """The first span of a new trace."""
        return cls(_not_zero(random, 16), _not_zero(random, 8))

    @classmethod
    def parse(cls, header: bytes | None) -> "TraceContext | None":
        match = None if header is None else _HEADER.fullmatch(header)
        if match is None or match[1] == b"ff" or (match[1] == b"00" and match[5] is not None):
            return None
        trace_id, span_id = match[2].decode(), match[3].decode()
        if not int(trace_id, 16) or not int(span_id, 16):
            return None
        return cls(trace_id, span_id, bool(int(match[4], 16) & _SAMPLED))

    @classmethod
    def of(cls, headers: Iterable[tuple[str, bytes | None]]) -> "TraceContext | None":
        """That of a record, by its headers; the last one counts where there are several."""
        found = None
        for name, value in headers:
            if name.lower() == TRACEPARENT:
                found = cls.parse(value) or found
        return found

    def child(self, random: Random) -> "TraceContext":
        return self._replace(span_id=_not_zero(random, 8))

    def header(self) -> bytes:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}".encode()


def _not_zero(random: Random, size: int) -> str:
    while True:
        value = random(size)
        if any(value):
            return value.hex()
