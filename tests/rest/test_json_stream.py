"""Objects are cut apart wherever the pieces are cut."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.rest.json_stream import ObjectSplitter, StreamError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(st.text(), values, max_size=4)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(objects, max_size=3), st.sampled_from(["", " ", "\r\n"]), st.booleans(), st.integers(1, 20))
def test_every_cut_gives_the_same(given_objects, between, ascii_only, size):
    text = between.join(json.dumps(each, ensure_ascii=ascii_only) for each in given_objects)
    stream = text.encode("utf-8", "surrogatepass")
    splitter, found = ObjectSplitter(1 << 20), []
    for position in range(0, len(stream), size):
        found += splitter.feed(stream[position : position + size])
    splitter.finish()
    assert [json.loads(each.decode("utf-8", "surrogatepass")) for each in found] == given_objects


@pytest.mark.parametrize("stream", [b"[]", b"1", b'"a"', b"null", b"x", b",{}", b"}"])
def test_what_is_no_object(stream):
    with pytest.raises(StreamError, match="JSON object"):
        list(ObjectSplitter(100).feed(stream))


def test_an_object_that_does_not_end():
    splitter = ObjectSplitter(100)
    assert list(splitter.feed(b'{"a":1} {"b":"}')) == [b'{"a":1}']
    with pytest.raises(StreamError, match="in the middle"):
        splitter.finish()


@pytest.mark.parametrize("pieces", [[b'{"a":"' + b"x" * 200 + b'"}'], [b'{"a":"'] + [b"x"] * 200])
def test_an_object_has_its_limit(pieces):
    splitter = ObjectSplitter(100)
    with pytest.raises(StreamError, match="larger than 100"):
        [list(splitter.feed(piece)) for piece in pieces]


@pytest.mark.slow
def test_single_bytes_take_linear_time():
    """Many bytes, one after the other, of an object that never ends: each is looked at once."""
    splitter = ObjectSplitter(1 << 30)
    for _ in range(100_000):
        assert list(splitter.feed(b"{")) == []
