"""What is counted of topics where something went wrong: refused produce and fetch requests, bad records.

Invariant: a topic that does not exist is counted in the sum alone, so that a client cannot make names up.
"""

from collections import Counter
from typing import Any

from moldau.base.names import Uuid
from moldau.cluster.image import ClusterImage
from moldau.protocol.errors import ErrorCode

#: Which counter an error belongs to beside that of failed requests.
_OF_RECORDS = {
    ErrorCode.CORRUPT_MESSAGE: "InvalidMessageCrcRecordsPerSec",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "InvalidOffsetOrSequenceRecordsPerSec",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "InvalidOffsetOrSequenceRecordsPerSec",
}
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
FAILED_PRODUCE, FAILED_FETCH = "FailedProduceRequestsPerSec", "FailedFetchRequestsPerSec"
REJECTED = "BytesRejectedPerSec"
#: Names of meters that are counted here.
METERS = (FAILED_PRODUCE, FAILED_FETCH, REJECTED, *dict.fromkeys(_OF_RECORDS.values()))


class TopicFailures:
    def __init__(self) -> None:
        #: By the name of the meter, for all topics.
        self.all: Counter[str] = Counter(dict.fromkeys(METERS, 0))
        #: By the name of the meter and the topic.
        self.by_topic: Counter[tuple[str, str]] = Counter()

    def produce(self, image: ClusterImage, name: str, topic_id: Uuid, code: ErrorCode, records: Any) -> None:
        self._count(image, name, topic_id, FAILED_PRODUCE, 1)
        if code in _OF_RECORDS:
            self._count(image, name, topic_id, _OF_RECORDS[code], 1)
        elif code in _TOO_LARGE:
            self._count(image, name, topic_id, REJECTED, len(records or b""))

    def fetch(self, image: ClusterImage, name: str, topic_id: Uuid) -> None:
        self._count(image, name, topic_id, FAILED_FETCH, 1)

    def _count(self, image: ClusterImage, name: str, topic_id: Uuid, meter: str, times: int) -> None:
        self.all[meter] += times
        topic = image.topics_by_name.get(name) if name else image.topics_by_id.get(topic_id)
        if topic is not None:
            self.by_topic[meter, topic.name] += times

    def forget(self, topics: set[str]) -> None:
        """Topics that are gone have no counters of their own."""
        for key in [key for key in self.by_topic if key[1] in topics]:
            del self.by_topic[key]
