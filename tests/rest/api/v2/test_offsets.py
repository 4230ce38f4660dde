"""Places and errors of records that were produced: the text is the JSON of the values."""

import json

import pytest

from moldau.client.producer.accumulator import RecordMetadata
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.rest.api.v2.offsets import answer_text, offset, offset_text, offset_texts
from moldau.rest.producing import Written

REFUSED = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, 'not for "ünï"')


def in_values(written, count):
    found = [None] * count
    for places, partition, outcome in written:
        for index, place in enumerate(places):
            if isinstance(outcome, KafkaError):
                found[place] = offset(outcome)
            else:
                number = outcome + index if outcome >= 0 else -1
                found[place] = offset(RecordMetadata("orders", partition, number, 0))
    return found


@pytest.mark.parametrize(
    "outcome",
    [
        RecordMetadata("orders", 3, 1234567890123, 5),
        RecordMetadata("orders", 0, -1, 5),
        REFUSED,
        *(KafkaError(code) for code in ErrorCode if code != ErrorCode.NONE),
    ],
)
def test_the_text_of_one_record(outcome):
    assert offset_text(outcome) == json.dumps(offset(outcome), separators=(",", ":"))


@pytest.mark.parametrize(
    "written",
    [
        [Written(range(5), 2, 98)],
        [Written(range(5), 2, -1)],
        [Written(range(5), 2, REFUSED)],
        [Written([0, 3], 0, 10), Written([4], 1, REFUSED), Written([1, 2], 2, -1)],
        [Written(range(3), 0, 7), Written(range(3, 5), 0, 10)],
    ],
)
def test_the_text_of_many(written):
    text = answer_text(offset_texts(written, 5))
    values = {"offsets": in_values(written, 5), "key_schema_id": None, "value_schema_id": None}
    assert text == json.dumps(values, separators=(",", ":"))
