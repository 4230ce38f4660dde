"""WriteTxnMarkers: ends transactions in partition logs.

Sent from broker to broker by the transaction coordinator; true stands for commit. Version 2 names the
transaction protocol of the producer.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int8, Int16, Int32, Int64, String, field, request, response, struct


@struct
class WritableTxnMarkerTopic:
    name: String = field()
    partition_indexes: list[Int32] = field()


@struct
class WritableTxnMarker:
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    transaction_result: Bool = field()
    topics: list[WritableTxnMarkerTopic] = field()
    coordinator_epoch: Int32 = field()
    transaction_version: Int8 = field("2+")


@request(ApiKey.WRITE_TXN_MARKERS)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = field()


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: Int32 = field()
    error_code: Int16 = field()


@struct
class WritableTxnMarkerTopicResult:
    name: String = field()
    partitions: list[WritableTxnMarkerPartitionResult] = field()


@struct
class WritableTxnMarkerResult:
    producer_id: Int64 = field()
    topics: list[WritableTxnMarkerTopicResult] = field()


@response(ApiKey.WRITE_TXN_MARKERS)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = field()
