"""CutMirror: mirrors lose what is behind an offset, and their open transactions end.

Ours, not Kafka's. Where the source has lost or rewritten records (``finish`` false, while the topic is a
mirror), or as a step of a promotion (``finish`` true, while ``moldau.mirror.state`` is stopped).
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Bool,
    Int16,
    Int32,
    Int64,
    String,
    field,
    request,
    response,
    struct,
)


@struct
class CutPartition:
    index: Int32 = field()
    #: The first offset to go, with all of its batch; -1 keeps all.
    offset: Int64 = field(default=-1)


@struct
class CutTopic:
    name: String = field()
    partitions: list[CutPartition] = field()


@request(ApiKey.CUT_MIRROR)
class CutMirrorRequest:
    finish: Bool = field()
    timeout_ms: Int32 = field(default=30000)
    topics: list[CutTopic] = field()


@struct
class CutPartitionResult:
    index: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    log_end_offset: Int64 = field(default=-1)


@struct
class CutTopicResult:
    name: String = field()
    partitions: list[CutPartitionResult] = field()


@response(ApiKey.CUT_MIRROR)
class CutMirrorResponse:
    throttle_time_ms: Int32 = field()
    topics: list[CutTopicResult] = field()
