"""The quick way to read records: to the byte what the general way reads, or left to it."""

import base64
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moldau.rest import formats
from moldau.rest.formats import Format
from moldau.rest.plain_records import read_plain
from moldau.web.json_text import read_json

numbers = st.integers() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=8)
values = st.recursive(
    scalars, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=3), each, max_size=3)
)
#: Texts of JSON that Python's own writer would not write.
texts = st.builds(
    json.dumps,
    values,
    ensure_ascii=st.booleans(),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: ")]),
).filter(lambda text: text.isascii() or text.isprintable())
odd_numbers = ["1E5", "-0", "1.10", "1e-7", "12345678901234567890123", "NaN", "1e999", ""]
odd_texts = ['"\\/"', '"\\u0022"', '"\\ud83d\\ude00"', '"\\"', "[" * 62 + "]" * 62]
twice = ['{"a":1,"a":2}', '{"a":1,"\\u0061":2}', '{"a":"\\"","a":1}']
odd = st.sampled_from([*odd_numbers, *odd_texts, *twice])


def general(form: Format, body: bytes) -> list[tuple[bytes | None, bytes | None, object]]:
    """What the general way makes of a body; ValueError where it refuses it."""
    return [
        (
            formats.encode(form, each.get("key")),
            formats.encode(form, each.get("value")),
            each.get("partition"),
        )
        for each in read_json(body)["records"]
    ]


def quick(form: Format, body: bytes) -> list[tuple[bytes | None, bytes | None, object]] | None:
    found = read_plain(form, body)
    if found is None:
        return None
    count = len(found.values)
    keys, partitions = found.keys or [None] * count, found.partitions or [None] * count
    return list(zip(keys, found.values, partitions, strict=True))


@settings(max_examples=300, deadline=None)
@given(st.lists(texts | odd, min_size=1, max_size=4), texts | odd)
@example(["0.00001", "1e-5"], "1")
@example(['"a"', "1e22", "{}", "1.5e-9"], '"k"')
@example(["[" * 61 + "]" * 61] + ["{}"] * 3, "1")
@example(["[" * 300 + "]" * 300], "1")
@example(['[{"":1},{"":2}]', "null"], "null")
def test_json_is_read_as_the_general_way_reads_it(found, key):
    entries = [f'{{"value": {value}}}' for value in found] + [f'{{"key": {key}, "partition": 3}}']
    body = f'{{"records": [{", ".join(entries)}]}}'.encode()
    read = quick(Format.JSON, body)
    if read is not None:
        assert read == general(Format.JSON, body)


@settings(max_examples=300, deadline=None)
@given(st.lists(texts | odd, min_size=1, max_size=4), st.booleans())
@example(["0.00001"], True)
@example(["1e22", "1e16", "1.5e300"], True)
@example(["12345678901234567890123"], True)
@example(["[" * 62 + "]" * 62], True)
@example(["[" * 300 + "]" * 300], True)
@example(['[{"a":1},{"value":2}]', "1"], True)
@example(['{"a":1,"a":2}'], True)
@example(['"e"', '"1e5"', '"0.00001"', "null", '"null"'], True)
def test_values_alone_are_read_as_the_general_way_reads_them(found, compact):
    """A body without a space is compared with what was read; one with spaces is counted."""
    colon, comma = (":", ",") if compact else (": ", ", ")
    entries = [f'{{"value"{colon}{value}}}' for value in found]
    body = f'{{"records"{colon}[{comma.join(entries)}]}}'.encode()
    read = quick(Format.JSON, body)
    if read is not None:
        assert read == general(Format.JSON, body)


plain_keys = st.text(max_size=8).map(lambda text: json.dumps(text, ensure_ascii=False))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(plain_keys | texts | odd, texts | odd), min_size=1, max_size=4)
    | st.lists(st.tuples(plain_keys, texts), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
@example([('"a"', '{"key":1}'), ('"},{\'"', '"x"')], True, True)
@example([('"k"', '{"a":1,"a":2}')], True, False)
@example([('"null"', "null"), ('"1e5"', '"1e5"'), ('"0.00001"', "[{}]")], True, False)
@example([('""', "1"), ('"\x7f\u2028é"', "2")], False, True)
@example([('"k"', "1e22")], True, True)
@example([("1", "2"), ('"k"', "3")], True, True)
def test_keys_and_values_are_read_as_the_general_way_reads_them(found, compact, key_first):
    colon, comma = (":", ",") if compact else (": ", ", ")
    entries = []
    for key, value in found:
        fields = [f'"key"{colon}{key}', f'"value"{colon}{value}']
        entries.append(f"{{{comma.join(fields if key_first else reversed(fields))}}}")
    body = f'{{"records"{colon}[{comma.join(entries)}]}}'.encode()
    read = quick(Format.JSON, body)
    if read is not None:
        assert read == general(Format.JSON, body)


@pytest.mark.parametrize(
    "body",
    [
        '{"records": [{"key": "a", "value": 1, "key": "b"}]}',
        '{"records": [{"key": "a", "key": "b", "value": 1}]}',
        '{"records": [{"key": "a", "value": 1, "value": 1}, {"key": "a", "value": 1}]}',
    ],
)
def test_a_key_that_comes_twice_is_left_to_the_general_way(body):
    assert read_plain(Format.JSON, body.encode()) is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=5))
def test_binary_is_read_as_the_general_way_reads_it(found):
    shown = [None if each is None else base64.b64encode(each).decode() for each in found]
    body = json.dumps({"records": [{"key": each, "value": each} for each in shown]}).encode()
    assert quick(Format.BINARY, body) == general(Format.BINARY, body)


@pytest.mark.parametrize(
    "record",
    [
        '{"value": {"id": 123, "name": "Ünï \\n \\" \\\\", "at": "12:30", "more": [1, 2.5, null, true, {}]}}',
        '{"key": "k", "value": null}',
        '{"key": "Ünï, \'", "value": {"key": "},{", "more": [1, {"value": 2}]}}',
        '{"key": 7, "value": 1.5}',
        '{"value": {"id": "3e8-41e5", "price": 12.5, "of": 10000}}',
        '{"partition": 0, "value": "e5 1e"}',
        "{}",
    ],
)
@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
def test_usual_records_are_read_the_quick_way(record, separators):
    body = json.dumps({"records": [json.loads(record)] * 2}, separators=separators, ensure_ascii=False)
    assert quick(Format.JSON, body.encode()) == general(Format.JSON, body.encode())


@pytest.mark.parametrize(
    "body",
    [
        '{"records": []}',
        '{"records": [1]}',
        '{"records": {}}',
        "[]",
        '{"records": [{"value": 1}], "value_schema": "1"}',
        '{"records": [{"value": 1, "headers": []}]}',
        '{"records": [{"value": 1, "value": 2}]}',
        '{"records": [{"value": 1}], "records": [{"value": 2}]}',
        '{"records": [{"value": {"a": 1, "b": {"a": 1, "a": 2}}}]}',
        '{"records": [{"value": 1, "partition": true}]}',
        '{"records": [{"value": 1, "partition": -1}]}',
        '{"records": [{"value": 123456789012345678901}]}',
        '{"records": [{"value": 0.00001}]}',
        '{"records": [{"value": "\\ud800"}]}',
        '{"records": [{"value": 1}]',
    ],
)
def test_what_is_unusual_is_left_to_the_general_way(body):
    assert read_plain(Format.JSON, body.encode()) is None


@pytest.mark.parametrize("value", ["1", '"a"', '"?==="', "[]", '"YQ==\\n"', '"YQ\\u003d="'])
def test_what_is_no_base64_is_left_to_the_general_way(value):
    assert read_plain(Format.BINARY, f'{{"records": [{{"value": {value}}}]}}'.encode()) is None
