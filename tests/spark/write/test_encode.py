"""Rows to record batches: what a consumer reads is what was in the rows, by kernels and without them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.producer.partitioner import partition_of
from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import crc_matches, decode_records, read_header
from moldau.spark.options import OptionError
from moldau.spark.read.columns import HEADERS_TYPE
from moldau.spark.record_columns import check_columns
from moldau.spark.write import encode
from moldau.spark.write.rows import rows_of

NOW = 1_700_000_000_000


def arrow(rows: list[dict[str, Any]], **types: pa.DataType) -> pa.RecordBatch:
    kinds = {
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": HEADERS_TYPE,
        "partition": pa.int32(),
        **types,
    }
    names = list(rows[0]) if rows else ["value"]
    return pa.RecordBatch.from_arrays(
        [pa.array([row[name] for row in rows], kinds[name]) for name in names], names=names
    )


def written(
    batch: pa.RecordBatch, *, size: int = 1 << 20, codec: Compression = Compression.NONE
) -> dict[int, list[Any]]:
    """The records by partition, of three, as a consumer would decode them."""
    rows = rows_of(batch, NOW)
    found: dict[int, list[Any]] = {}
    for payload in encode.encoded_batches(
        rows, encode.choose_partitions(rows, 3, 1), 3, size, 1 << 20, codec
    ):
        made = payload.stamped(7, 1, 0, transactional=False)
        assert crc_matches(made, 0, len(made))
        header = read_header(made)
        assert header.max_timestamp == payload.max_timestamp
        found.setdefault(payload.partition, []).extend(
            (r.key, r.value, r.headers, r.timestamp)
            for r in decode_records(memoryview(made), 0, header, limit=1 << 30)
        )
    return found


@pytest.fixture(params=["kernels", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(encode, "HAS_KERNELS", False)
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("codec", list(Compression))
def test_records_arrive_as_they_were(codec: Compression) -> None:
    rows = [
        {"key": b"a", "value": b"1", "headers": [{"key": "h", "value": b"x"}, {"key": "n", "value": None}]},
        {"key": None, "value": None, "headers": None},
        {"key": b"", "value": b"", "headers": []},
    ]
    found = written(arrow(rows), codec=codec)
    assert found[partition_of(b"a", 3)][0] == (b"a", b"1", (("h", b"x"), ("n", None)), NOW)
    assert (None, None, (), NOW) in found[1], "a row without a key goes to the sticky partition"
    assert (b"", b"", (), NOW) in found[partition_of(b"", 3)]


@pytest.mark.usefixtures("way")
def test_text_slices_and_large_offsets() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["x", "größe", None, "z"]), pa.array(["a", "b", "c", "d"], pa.large_string())],
        names=["key", "value"],
    ).slice(1)
    found = [record for records in written(batch).values() for record in records]
    assert sorted((key or b"", value) for key, value, _, _ in found) == [
        (b"", b"c"),
        ("größe".encode(), b"b"),
        (b"z", b"d"),
    ]


@pytest.mark.usefixtures("way")
def test_the_column_partition_wins() -> None:
    rows = [{"key": b"a", "value": b"1", "partition": 2}, {"key": b"a", "value": b"2", "partition": None}]
    found = written(arrow(rows))
    assert found[2][0][1] == b"1"
    assert any(record[1] == b"2" for record in found[partition_of(b"a", 3)])
    with pytest.raises(KafkaError, match="has partitions 0 to 2"):
        written(arrow([{"value": b"1", "partition": 3}]))


@pytest.mark.usefixtures("way")
def test_timestamps_of_a_column() -> None:
    times = pa.array([1_000_001, None], pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_arrays([pa.array([b"1", b"2"]), times], names=["value", "timestamp"])
    assert [record[3] for record in written(batch)[1]] == [1000, NOW]


@pytest.mark.usefixtures("way")
def test_a_batch_has_its_bound_and_one_large_record_still_goes() -> None:
    batch = arrow([{"value": bytes(size)} for size in (100, 100, 5000, 100)])
    rows = rows_of(batch, NOW)
    sizes = [
        p.count
        for p in encode.encoded_batches(
            rows, encode.choose_partitions(rows, 1, 0), 1, 300, 1 << 20, Compression.NONE
        )
    ]
    assert sizes == [2, 1, 1]


def test_a_record_that_no_request_holds() -> None:
    rows = rows_of(arrow([{"value": bytes(2000)}]), NOW)
    with pytest.raises(KafkaError, match=r"kafka\.max\.request\.size") as refused:
        list(encode.encoded_batches(rows, np.zeros(1, np.int64), 1, 300, 1000, Compression.NONE))
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_columns_that_cannot_be_written() -> None:
    check_columns(["key", "value"], topic_given=True)
    with pytest.raises(OptionError, match="no column value"):
        check_columns(["key"], topic_given=True)
    with pytest.raises(OptionError, match="no topic to write to"):
        check_columns(["value"], topic_given=False)
    with pytest.raises(OptionError, match="'amount' has no place in a record"):
        check_columns(["value", "amount"], topic_given=True)
    with pytest.raises(OptionError, match="cast it to STRING or BINARY"):
        rows_of(pa.RecordBatch.from_arrays([pa.array([1])], names=["value"]), NOW)


row = st.fixed_dictionaries(
    {
        "key": st.none() | st.binary(max_size=40),
        "value": st.none() | st.binary(max_size=400),
        "headers": st.none()
        | st.lists(
            st.fixed_dictionaries({"key": st.text(max_size=4), "value": st.none() | st.binary(max_size=4)}),
            max_size=3,
        ),
    }
)


@settings(max_examples=100, deadline=None)
@given(st.lists(row, min_size=1, max_size=80), st.sampled_from(list(Compression)), st.integers(100, 3000))
def test_every_row_arrives_once_and_in_order(
    rows: list[dict[str, Any]], codec: Compression, size: int
) -> None:
    found = written(arrow(rows), size=size, codec=codec)
    wanted: dict[int, list[Any]] = {}
    for each in rows:
        partition = 1 if each["key"] is None else partition_of(each["key"], 3)
        headers = tuple((pair["key"], pair["value"]) for pair in each["headers"] or ())
        wanted.setdefault(partition, []).append((each["key"], each["value"], headers, NOW))
    assert found == wanted


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=20), min_size=1), st.integers(1, 50))
def test_keys_go_where_kafkas_producers_send_them(keys: list[bytes | None], count: int) -> None:
    rows = rows_of(arrow([{"key": key, "value": b""} for key in keys]), NOW)
    chosen = encode.choose_partitions(rows, count, 0).tolist()
    assert chosen == [0 if key is None else partition_of(key, count) for key in keys]
