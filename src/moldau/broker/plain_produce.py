"""A Produce request of one topic, one partition and one batch, which is what producers send nearly always.

Its few fields are read and its answer is written with one ``struct`` each, and none of the objects of the
general path (``apis/produce.py``) is made: about half of the time of a request with one record.

Invariant: an answer and what it leaves in the log are byte for byte those of the general path. Whatever is
not plain (another number of topics or partitions, a transaction, tagged fields, ``acks=0``, an
acknowledgement that waits for a disk or for followers, schemas to be looked at, earlier requests that wait)
is left to that path before anything has been changed: the answer is None. An append is tried once.
"""

import struct
from typing import TYPE_CHECKING

from moldau.base.names import INTERNAL_TOPICS
from moldau.broker.apis.produce import refuse
from moldau.broker.context import RequestContext, Services
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import reader, writer
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.produce import ProduceRequest, ProduceResponse
from moldau.protocol.records import ATTRIBUTES_AT, HEADER_SIZE, TRANSACTIONAL_MASK
from moldau.replication.heavy_batches import HeavyBatch
from moldau.replication.partition import Partition
from moldau.replication.replicas import TopicReplicas
from moldau.storage.log.config import MAX_LONG

if TYPE_CHECKING:
    from moldau.broker.connection import Connection

#: From this version on topics go by id. The versions with a plain path are the flexible ones, from 9 on.
_BY_ID_FROM = 13

# No transactional id, acks, timeout, and the number of topics plus one.
_unpack_start = struct.Struct(">BhiB").unpack_from
_START_SIZE = 8
# The number of partitions plus one and the partition.
_unpack_place = struct.Struct(">Bi").unpack_from
_PLACE_SIZE = 5
#: The lower byte of a batch's attributes.
_FLAGS_AT = ATTRIBUTES_AT + 1
# Size and correlation id.
_pack_prefix = struct.Struct(">ii").pack_into
# Size, correlation id, no tagged fields, one topic, whose name or id follows.
_pack_answer_start = struct.Struct(">iiBB").pack
# One partition: its number, no error, base offset, time of the append, log start offset, no errors of
# records, no message, no tagged fields of the partition and of the topic; not throttled; no tagged fields.
_ANSWER_END = struct.Struct(">BihqqqBBBBiB")
_pack_answer_end = _ANSWER_END.pack
#: The size of an answer without its first field and the topic.
_ANSWER_SIZE = 6 + _ANSWER_END.size
#: The number of elements of an array plus one.
_ONE = 2


class PlainProduce:
    """The plain path of one version."""

    __slots__ = ("_by_id", "_find_topic", "_now_ms", "_replicas", "_services", "_version")

    def __init__(self, services: Services, version: int) -> None:
        self._services = services
        self._version = version
        self._by_id = version >= _BY_ID_FROM
        self._replicas = services.replicas
        self._now_ms = services.clock.now_ms
        self._find_topic = self._replicas.by_id.get if self._by_id else self._find_by_name

    def _find_by_name(self, name: bytes) -> TopicReplicas | None:
        """By the name with its length in front; None where that is longer than a byte."""
        if len(name) < _ONE or name[0] > 127:
            return None
        try:
            return self._replicas.by_name.get(name[1:].decode())
        except UnicodeDecodeError:
            return None

    def answer(
        self,
        frame: memoryview,
        position: int,
        correlation_id: int,
        client_id: str | None,
        connection: "Connection",
    ) -> bytearray | None:
        """The answer to the request whose body begins at ``position``; None for the general path."""
        try:
            transactional_id, acks, _, topics = _unpack_start(frame, position)
            topic_at = position + _START_SIZE
            topic_end = topic_at + (16 if self._by_id else frame[topic_at])
            partitions, index = _unpack_place(frame, topic_end)
            start = topic_end + _PLACE_SIZE
            size = frame[start]
            if size > 127:
                size, start = _length(frame, start)
        except (struct.error, IndexError):
            return None
        start += 1
        end = start + size - 1
        if (
            transactional_id  # of any length: null is 0
            or (acks != 1 and acks != -1)
            or topics != _ONE
            or partitions != _ONE
            or index < 0
            or size <= HEADER_SIZE
            or len(frame) != end + 3
            or frame[end]  # tagged fields of the partition, of the topic and of the request
            or frame[end + 1]
            or frame[end + 2]
            or frame[start + _FLAGS_AT] & TRANSACTIONAL_MASK
            or connection.produce_turn is not None
        ):
            return None
        topic = bytes(frame[topic_at:topic_end])
        partition = self._partition(topic, index, acks)
        if partition is None:
            return None
        try:
            appended = partition.append(frame[start:end], acks, self._now_ms(), self._version)
        except HeavyBatch:
            return None
        except KafkaError as error:
            return self._refused(frame, position, correlation_id, client_id, connection, error)
        base_offset, _, append_time_ms, log_start_offset, _, flush_due = appended
        if flush_due:
            self._replicas.flush(partition)
        out = bytearray(_pack_answer_start(_ANSWER_SIZE + len(topic), correlation_id, 0, _ONE))
        out += topic
        out += _pack_answer_end(
            _ONE, index, 0, base_offset, append_time_ms, log_start_offset, 1, 0, 0, 0, 0, 0
        )
        return out

    def _partition(self, topic: bytes, index: int, acks: int) -> Partition | None:
        """The partition, if an append to it can be answered at once."""
        known = self._find_topic(topic)
        if known is None or index >= len(known.partitions) or self._replicas.validating:
            return None
        partition = known.partitions[index]
        if (
            partition is None
            or partition.log is None
            or partition.log.config.flush_messages != MAX_LONG
            or (acks < 0 and len(partition.replicas) > 1)
            or known.name in INTERNAL_TOPICS
        ):
            return None
        return partition

    def _refused(
        self,
        frame: memoryview,
        position: int,
        correlation_id: int,
        client_id: str | None,
        connection: "Connection",
        error: KafkaError,
    ) -> bytearray:
        """The answer of the general path to an append that was tried in vain."""
        version = self._version
        request, _ = reader(ProduceRequest, version)(frame, position)
        context = RequestContext(
            self._services, connection, ApiKey.PRODUCE, version, correlation_id, client_id
        )
        out = bytearray(9)
        writer(ProduceResponse, version)(refuse(request, context, error), out, [])
        _pack_prefix(out, 0, len(out) - 4, correlation_id)
        return out


def _length(frame: memoryview, at: int) -> tuple[int, int]:
    """A number of two to four bytes and the position of its last byte; IndexError for a longer one."""
    value = frame[at] & 127
    for shift in (7, 14, 21):
        at += 1
        byte = frame[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise IndexError
