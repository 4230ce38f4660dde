"""The quick looks at records, compared with decoding them."""

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.protocol.errors import KafkaError
from moldau.protocol.records import Record, encode_batch, payload_of, read_header
from moldau.storage.compaction.record_keys import keys_of, records_at, retained_records

pytestmark = pytest.mark.slow

NOW = 1_700_000_000_000
BASE = 5000
contents = st.binary(max_size=12) | st.sampled_from([b"k" * 63, b"k" * 64, b"k" * 200, b"k" * 20_000])
records = st.lists(
    st.builds(
        Record,
        offset=st.integers(1, 20_000),  # the distance to the record before
        timestamp=st.integers(0, 1 << 40),
        key=contents | st.none(),
        value=contents | st.none(),
        headers=st.sampled_from([(), (("h", b"x"),), (("h", None), ("i", b""))]),
    ),
    min_size=1,
    max_size=80,
)


def payload(made: list[Record]) -> bytes:
    batch = encode_batch(made, base_offset=BASE, base_timestamp=NOW)
    return bytes(payload_of(batch, 0, read_header(batch), 1 << 30))


def spaced(made: list[Record], *, evenly: bool) -> list[Record]:
    """The records with ascending offsets: one after the other, or with gaps as compaction leaves them."""
    offset = BASE - 1
    placed = []
    for record in made:
        offset += 1 if evenly else record.offset
        placed.append(record._replace(offset=offset, timestamp=NOW + record.timestamp - (1 << 39)))
    return placed


#: Records that look alike, with here and there one that does not.
alike = st.builds(
    lambda shape, odd, count: [odd.get(number, shape) for number in range(count)],
    st.builds(
        Record,
        offset=st.just(1),
        timestamp=st.integers(1 << 39, (1 << 39) + 300),
        key=st.sampled_from([b"", b"key", b"k" * 80]),
        value=st.sampled_from([b"", b"v" * 9, b"v" * 90, b"v" * 9000]),
        headers=st.sampled_from([(), (("h", b"x"),)]),
    ),
    st.dictionaries(
        st.integers(0, 150),
        st.builds(
            Record,
            offset=st.integers(1, 3),
            timestamp=st.integers(1 << 39, (1 << 39) + 20_000),
            key=st.sampled_from([b"key", b"yek", b"", None]),
            value=st.sampled_from([b"v" * 9, b"w" * 9, b"v" * 8, None]),
        ),
        max_size=3,
    ),
    st.integers(1, 180),
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(alike, st.booleans())
def test_keys_of_records_that_look_alike(made: list[Record], evenly: bool) -> None:
    test_keys.hypothesis.inner_test(made, evenly)  # type: ignore[attr-defined]


@given(records, st.booleans())
def test_keys(made: list[Record], evenly: bool) -> None:
    made = spaced(made, evenly=evenly)
    found = keys_of(payload(made), len(made))
    keyed = [record for record in made if record.key is not None]
    assert found.keys == [record.key for record in keyed]
    assert found.offset_deltas == [record.offset - BASE for record in keyed]
    assert found.tombstones == [record.offset - BASE for record in keyed if record.value is None]
    assert found.without_key == len(made) - len(keyed)


@given(records, st.booleans(), st.booleans(), st.data())
def test_survivors(made: list[Record], evenly: bool, keep_tombstones: bool, data: st.DataObject) -> None:
    made = spaced(made, evenly=evenly)
    latest = data.draw(st.integers(BASE - 1, made[-1].offset))
    last: dict[Any, int] = {record.key: record.offset for record in made if record.offset <= latest}
    packed = payload(made)
    found = retained_records(packed, len(made), BASE, latest, last.get, keep_tombstones)
    expected = [
        record
        for record in made
        if record.offset > latest
        or (
            record.key is not None
            and last[record.key] == record.offset
            and (record.value is not None or keep_tombstones)
        )
    ]
    assert [BASE + delta for _, _, delta, _, _ in found] == [record.offset for record in expected]
    assert [NOW + time for *_, time, _ in found] == [record.timestamp for record in expected]
    assert [null for *_, null in found] == [
        record.value is None and record.offset <= latest for record in expected
    ]
    # The bytes of what stays are those of a batch that never had anything else.
    if expected:
        assert b"".join(packed[start:end] for start, end, *_ in found) == payload(expected)


@given(records, st.booleans(), st.data())
def test_records_by_number(made: list[Record], evenly: bool, data: st.DataObject) -> None:
    made = spaced(made, evenly=evenly)
    packed = payload(made)
    wanted = sorted(data.draw(st.sets(st.integers(0, len(made) - 1))))
    found = records_at(packed, len(made), wanted)
    if evenly:
        assert found is not None
        assert [(delta, NOW + time) for _, _, delta, time, _ in found] == [
            (number, made[number].timestamp) for number in wanted
        ]
        if wanted:
            expected = payload([made[number] for number in wanted])
            assert b"".join(packed[start:end] for start, end, *_ in found) == expected
    elif found is not None:
        assert [made[number].offset - BASE for number in wanted] == wanted


@given(records | alike, st.data())
def test_what_makes_no_sense_is_one_kind_of_error(made: list[Record], data: st.DataObject) -> None:
    packed = bytearray(payload(spaced(made, evenly=True)))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    broken = bytes(packed[: data.draw(st.integers(0, len(packed)))])
    for look in (
        lambda: keys_of(broken, len(made)),
        lambda: retained_records(broken, len(made), BASE, 1 << 40, {}.get, True),
        lambda: records_at(broken, len(made), range(len(made))),
    ):
        # Another kind of exception would go through.
        with contextlib.suppress(KafkaError):
            look()


def test_a_count_that_is_wrong() -> None:
    packed = payload(spaced([Record(1, 0, b"k", b"v")] * 3, evenly=True))
    for count in (2, 4):
        with pytest.raises(KafkaError):
            keys_of(packed, count)
        with pytest.raises(KafkaError):
            retained_records(packed, count, BASE, 1 << 40, {}.get, True)
