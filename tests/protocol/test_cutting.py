from hypothesis import given
from hypothesis import strategies as st

from moldau.protocol.compression import Compression
from moldau.protocol.cutting import cut_batch
from moldau.protocol.records import (
    Record,
    TimestampType,
    crc_matches,
    decode_records,
    encode_batch,
    read_header,
)

LIMIT = 1 << 20


@given(
    count=st.integers(1, 8),
    base=st.integers(0, 100),
    end=st.integers(0, 120),
    codec=st.sampled_from(Compression),
    kind=st.sampled_from(TimestampType),
    step=st.integers(1, 3),
)
def test_what_is_left_is_as_it_was(
    count: int, base: int, end: int, codec: Compression, kind: TimestampType, step: int
) -> None:
    records = [Record(base + i * step, 1000 - i, b"%d" % i, b"v", (("h", b"1"),)) for i in range(count)]
    batch = encode_batch(
        records,
        compression=codec,
        base_offset=base,
        leader_epoch=7,
        timestamp_type=kind,
        max_timestamp=5000,
        producer_id=3,
        producer_epoch=2,
        base_sequence=9,
        transactional=True,
    )
    header = read_header(batch)
    before = decode_records(batch, 0, header, limit=LIMIT)
    cut = cut_batch(batch, 0, header, end, limit=LIMIT)
    kept = [record for record in before if record.offset < end]
    if not kept:
        assert cut is None
        return
    assert cut is not None
    after = read_header(cut)
    assert crc_matches(cut, 0, len(cut))
    assert decode_records(cut, 0, after, limit=LIMIT) == kept
    assert after.last_offset == min(header.last_offset, end - 1)
    same = ("base_offset", "partition_leader_epoch", "attributes", "base_timestamp", "producer_id")
    for name in (*same, "producer_epoch", "base_sequence"):
        assert getattr(after, name) == getattr(header, name), name
    largest = 5000 if kind is TimestampType.LOG_APPEND_TIME else max(r.timestamp for r in kept)
    assert after.max_timestamp == largest
