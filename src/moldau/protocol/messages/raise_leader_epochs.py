"""RaiseLeaderEpochs: partitions get a leader epoch that is not below that of the records they mirror.

Ours, not Kafka's; for the controller. Clients take metadata with a lower epoch than that of a record they
have read for an old answer, and would never believe it.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, field, request, response, struct


@struct
class RaisePartition:
    index: Int32 = field()
    leader_epoch: Int32 = field()


@struct
class RaiseTopic:
    name: String = field()
    partitions: list[RaisePartition] = field()


@request(ApiKey.RAISE_LEADER_EPOCHS)
class RaiseLeaderEpochsRequest:
    topics: list[RaiseTopic] = field()


@response(ApiKey.RAISE_LEADER_EPOCHS)
class RaiseLeaderEpochsResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
