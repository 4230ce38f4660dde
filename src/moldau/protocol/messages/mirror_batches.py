"""MirrorBatches: batches of topics that are mirrors of another cluster's.

Ours, not Kafka's. Whole batches with the offsets, leader epochs and producers that they have at the source.
``log_end_offset`` says where the sender believes the mirror to end: another end is answered with
OFFSET_OUT_OF_RANGE, so that two senders cannot leave a gap or a duplicate. Without records it only asks where
the mirror is.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, Int64, Records, String, field, request, response, struct


@struct
class MirrorPartition:
    index: Int32 = field()
    #: Where the source begins; -1 leaves the mirror's own beginning.
    log_start_offset: Int64 = field(default=-1)
    log_end_offset: Int64 = field(default=-1)
    records: Records | None = field(default=None)


@struct
class MirrorTopic:
    name: String = field()
    partitions: list[MirrorPartition] = field()


@request(ApiKey.MIRROR_BATCHES)
class MirrorBatchesRequest:
    timeout_ms: Int32 = field(default=30000)
    topics: list[MirrorTopic] = field()


@struct
class MirroredPartition:
    index: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    log_start_offset: Int64 = field(default=-1)
    log_end_offset: Int64 = field(default=-1)
    #: The leader epoch of the partition in this cluster, which batches must not have passed.
    leader_epoch: Int32 = field(default=-1)
    #: The leader epoch of the last batch, as the source gave it; -1 without one.
    last_epoch: Int32 = field(default=-1)


@struct
class MirroredTopic:
    name: String = field()
    partitions: list[MirroredPartition] = field()


@response(ApiKey.MIRROR_BATCHES)
class MirrorBatchesResponse:
    throttle_time_ms: Int32 = field()
    topics: list[MirroredTopic] = field()
