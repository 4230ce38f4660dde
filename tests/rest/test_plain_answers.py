"""The quick way to show records: to the letter what the general way shows, up to what that has to say."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.consumer.fetched import FetchedBatch
from moldau.protocol.records import Record, encode_batch, read_header
from moldau.rest import formats
from moldau.rest.consumers.reader import Ready
from moldau.rest.formats import Format
from moldau.rest.plain_answers import plain_texts

json_data = (
    st.none()
    | st.integers().map(lambda n: str(n).encode())
    | st.text().map(
        lambda text: json.dumps({"a": [text, 1.5]}, ensure_ascii=False).encode("utf-8", "replace")
    )
)
data = {Format.JSON: json_data | st.binary(max_size=6), Format.BINARY: st.none() | st.binary(max_size=30)}


def ready(pairs, begin=0):
    records = [Record(100 + place, 0, key, value) for place, (key, value) in enumerate(pairs)]
    batch = encode_batch(records, base_offset=100)
    fetched = FetchedBatch('a"b', 3, read_header(batch), memoryview(batch), 0, 100)
    return Ready(fetched, fetched.records(), begin)


def general(form, at_hand, max_bytes):
    """One record after another, as long as they fit and can be read."""
    texts, size = [], 0
    for record in at_hand.records[at_hand.begin :]:
        more = len(record.key or b"") + len(record.value or b"")
        try:
            key, value = (formats.json_text(form, each) for each in (record.key, record.value))
        except ValueError:
            break
        if size + more > max_bytes:
            break
        size += more
        texts.append(
            f'{{"topic":{json.dumps("a" + chr(34) + "b")},"key":{key},"value":{value},'
            f'"partition":3,"offset":{record.offset}}}'
        )
    return texts, size


@pytest.mark.parametrize("form", [Format.JSON, Format.BINARY])
@settings(max_examples=150, deadline=None)
@given(drawn=st.data())
def test_records_are_shown_as_the_general_way_shows_them(form, drawn):
    pairs = drawn.draw(st.lists(st.tuples(data[form], data[form]), min_size=1, max_size=6))
    at_hand = ready(pairs, drawn.draw(st.integers(0, len(pairs) - 1)))
    max_bytes = drawn.draw(st.integers(0, 200))
    texts, size = plain_texts(form, at_hand, max_bytes)
    expected, expected_size = general(form, at_hand, max_bytes)
    assert texts == expected[: len(texts)]
    if len(texts) == len(expected):
        assert size == expected_size
    for text in texts:
        assert json.loads(text)["partition"] == 3


def test_what_cannot_be_read_ends_the_quick_way():
    at_hand = ready([(None, b"1"), (None, b"{"), (None, b"2")])
    texts, size = plain_texts(Format.JSON, at_hand, 1000)
    assert (len(texts), size) == (1, 1)


def test_one_call_shows_no_more_than_a_turn():
    assert len(plain_texts(Format.BINARY, ready([(None, b"x")] * 500), 10_000)[0]) == 200
