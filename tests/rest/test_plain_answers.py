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
    return Ready(fetched, begin)


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
    text, count, size = plain_texts(form, at_hand, max_bytes)
    expected, expected_size = general(form, at_hand, max_bytes)
    assert text == ",".join(expected[:count])
    if count == len(expected):
        assert size == expected_size
    assert [each["partition"] for each in json.loads(f"[{text}]")] == [3] * count


@pytest.mark.parametrize("form", [Format.JSON, Format.BINARY])
@settings(max_examples=150, deadline=None)
@given(drawn=st.data())
def test_values_without_keys_are_shown_like_others(form, drawn):
    values = drawn.draw(st.lists(data[form].filter(lambda each: each is not None), min_size=1, max_size=6))
    at_hand = ready([(None, value) for value in values], drawn.draw(st.integers(0, len(values) - 1)))
    assert at_hand.values == values
    max_bytes = drawn.draw(st.integers(0, 200))
    text, count, size = plain_texts(form, at_hand, max_bytes)
    expected, expected_size = general(form, at_hand, max_bytes)
    assert text == ",".join(expected[:count])
    if count == len(expected):
        assert size == expected_size


def test_what_cannot_be_read_ends_the_quick_way():
    at_hand = ready([(None, b"1"), (None, b"{"), (None, b"2")])
    assert plain_texts(Format.JSON, at_hand, 1000)[1:] == (1, 1)


def test_one_that_needs_no_more_space_is_taken_too():
    at_hand = ready([(None, b"12"), (None, b"34"), (None, b"5")])
    assert [plain_texts(Format.JSON, at_hand, limit)[1:] for limit in (1, 2, 4, 5)] == [
        (0, 0),
        (1, 2),
        (2, 4),
        (3, 5),
    ]


def test_one_call_shows_no_more_than_a_turn():
    assert plain_texts(Format.BINARY, ready([(None, b"x")] * 500), 10_000).records == 200
    assert plain_texts(Format.BINARY, ready([(b"k", b"x")] * 500), 10_000).records == 200
