"""What is counted of topics where something went wrong; names that nobody has are not kept."""

from moldau.broker.monitoring.topic_failures import FAILED_FETCH, FAILED_PRODUCE, REJECTED, TopicFailures
from moldau.cluster.image import EMPTY_IMAGE, TopicImage
from moldau.protocol.errors import ErrorCode

ID = bytes(15) + b"\x07"
TOPIC = TopicImage(ID, "orders", ())
IMAGE = EMPTY_IMAGE._replace(topics_by_name={"orders": TOPIC}, topics_by_id={ID: TOPIC})


def test_by_name_by_id_and_by_neither() -> None:
    failures = TopicFailures()
    failures.produce(IMAGE, "orders", bytes(16), ErrorCode.MESSAGE_TOO_LARGE, b"12345")
    failures.fetch(IMAGE, "", ID)
    failures.fetch(IMAGE, "made up", bytes(16))
    assert failures.by_topic == {
        (FAILED_PRODUCE, "orders"): 1,
        (REJECTED, "orders"): 5,
        (FAILED_FETCH, "orders"): 1,
    }
    assert failures.all[FAILED_FETCH] == 2
    failures.produce(IMAGE, "orders", ID, ErrorCode.CORRUPT_MESSAGE, None)
    assert failures.all["InvalidMessageCrcRecordsPerSec"] == 1
    failures.forget({"orders"})
    assert not failures.by_topic
