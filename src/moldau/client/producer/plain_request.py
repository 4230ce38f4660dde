"""A Produce request with one batch, which is what small programs and many at once send: as bytes, at once.

Its fields are written and those of its answer read with one ``struct`` each, and none of the messages of
``produce_requests`` is made.

Pure. Invariant: the bytes are those of the general codec. An answer that says anything but that the batch is
written is left to it: what is read of it here is None.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

from moldau.base.names import Uuid
from moldau.protocol.primitives import write_unsigned_varint

#: The only version that is written here: the one with ids of topics.
VERSION = 13

# No transactional id, acks, timeout, one topic, its id, one partition, its number.
_pack_request = struct.Struct(">BhiB16sBi").pack
#: No tagged fields of the partition, the topic and the request.
_REQUEST_END = b"\x00\x00\x00"
# Correlation id, no tagged fields, one topic, its id, one partition, its number, no error, base offset, time
# of the append, log start offset, no errors of records, no message, no tagged fields of the partition and of
# the topic; the throttle time; no tagged fields.
_ANSWER = struct.Struct(">iBB16sBihqqqBBBBiB")
#: The number of elements of an array plus one.
_ONE = 2


def encoded(topic_id: Uuid, partition: int, records: Any, *, acks: int, timeout_ms: int) -> Sequence[Any]:
    """The body of the request, in parts."""
    start = bytearray(_pack_request(0, acks, timeout_ms, _ONE, topic_id, _ONE, partition))
    write_unsigned_varint(len(records) + 1, start)
    return start, records, _REQUEST_END


def answer_reader(
    topic_id: Uuid, partition: int, general: Callable[[memoryview], Any]
) -> Callable[[memoryview], Any]:
    """Reads the answer to such a request: base offset and time of the append, or the general message."""
    expected = (0, _ONE, topic_id, _ONE, partition, 0)

    def read(frame: memoryview) -> Any:
        if len(frame) == _ANSWER.size:
            found = _ANSWER.unpack(frame)
            if found[1:7] == expected and found[10:14] == (1, 0, 0, 0) and not found[15]:
                return found[7:9]
        return general(frame)

    return read
