"""What the records of a batch say of their schemas, and the refusal that follows."""

from uuid import UUID

import pytest

from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, encode_batch
from moldau.replication.schema_validation import SchemaValidation, claims_of, schema_validation
from moldau.storage.log.validation import AT_ONCE, NAMED_RECORDS, BatchLimits, HeavyBatch

VALUES = SchemaValidation(None, "orders-value")
BOTH = SchemaValidation("orders-key", "orders-value")
LIMIT = BatchLimits(10_000, 10_000, 1 << 20)
GUID = UUID("89791762-2336-4186-9674-299b90a802e2")


def batch(*records, codec=Compression.NONE):
    made = [Record(index, 1, key, value, headers) for index, (key, value, headers) in enumerate(records)]
    return memoryview(encode_batch(made, compression=codec))


def framed(schema_id, rest=b"x"):
    return b"\0" + schema_id.to_bytes(4, "big") + rest


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, None),
        ({"confluent.value.schema.validation": False}, None),
        ({"confluent.value.schema.validation": True}, VALUES),
        ({"confluent.value.schema.validation": True, "confluent.key.schema.validation": True}, BOTH),
        ({"confluent.key.schema.validation": True}, SchemaValidation("orders-key", None)),
    ],
)
def test_what_a_topic_asks_for(configs, expected):
    assert schema_validation("orders", configs) == expected


@pytest.mark.parametrize("codec", list(Compression))
def test_schemas_by_subject_with_the_records_that_name_them(codec):
    records = [
        (framed(7), framed(1), ()),
        (None, framed(2), ()),
        (framed(7), framed(1), ()),
        (None, None, ()),
    ]
    found = claims_of(batch(*records, codec=codec), BOTH, LIMIT)
    assert found is not None
    assert found.errors.total == 0
    assert {claim: records.first for claim, records in found.wanted.items()} == {
        ("orders-key", 7): [(0, "key"), (2, "key")],
        ("orders-value", 1): [(0, "value"), (2, "value")],
        ("orders-value", 2): [(1, "value")],
    }
    assert found.refusal(dict.fromkeys(found.wanted, True)) is None


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0\0\1", b"\1\0\0\0\1x", b'{"id": 1}'])
def test_a_value_without_an_id(value):
    found = claims_of(batch((b"k", framed(1), ()), (b"k", value, ())), VALUES, LIMIT)
    assert found is not None
    refusal = found.refusal({("orders-value", 1): True})
    assert refusal is not None
    assert refusal.code == ErrorCode.INVALID_RECORD
    ((index, message),) = refusal.record_errors
    assert index == 1
    assert "orders-value" in message


def test_an_id_that_the_subject_does_not_have():
    found = claims_of(batch((None, framed(1), ()), (None, framed(9), ()), (None, b"", ())), VALUES, LIMIT)
    assert found is not None
    refusal = found.refusal({("orders-value", 1): True, ("orders-value", 9): False})
    assert [index for index, _ in refusal.record_errors] == [1, 2]
    assert "schema id 9, which subject orders-value does not have" in refusal.message
    assert refusal.message_for_client


def test_a_guid_in_a_header():
    header = (("__value_schema_id", b"\1" + GUID.bytes),)
    found = claims_of(batch((None, b"payload", header)), VALUES, LIMIT)
    assert list(found.wanted) == [("orders-value", str(GUID))]
    header = (("__value_schema_id", framed(3, b"")),)
    assert list(claims_of(batch((None, b"payload", header)), VALUES, LIMIT).wanted) == [("orders-value", 3)]


def test_what_the_log_refuses_makes_no_claims():
    good = batch((None, b"bad", ()))
    wrong_checksum = memoryview(bytearray(good))
    wrong_checksum[-1] ^= 1
    assert claims_of(wrong_checksum, VALUES, LIMIT) is None
    assert claims_of(good[:-1], VALUES, LIMIT) is None
    assert claims_of(good[:20], VALUES, LIMIT) is None
    packed = batch((None, bytes(1000), ()), codec=Compression.GZIP)
    assert claims_of(packed, VALUES, BatchLimits(10, 10, 100)) is None
    assert claims_of(batch(*[(None, framed(1), ())] * 11), VALUES, BatchLimits(10, 10, 100)) is None


def test_a_heavy_batch_is_not_looked_at_on_the_loop():
    with pytest.raises(HeavyBatch):
        claims_of(batch((None, bytes(5 << 20), ()), codec=Compression.GZIP), VALUES, AT_ONCE)


def test_a_few_records_are_named_and_the_others_counted():
    found = claims_of(batch(*[(None, b"nothing", ()), (None, framed(9), ())] * 50), VALUES, LIMIT)
    refusal = found.refusal({("orders-value", 9): False})
    assert len(refusal.record_errors) == NAMED_RECORDS
    assert "due to 100 record errors in total" in refusal.message
    assert found.joined(found).errors.total == 100
    assert len(found.joined(found).errors.first) == NAMED_RECORDS


def test_schemas_that_are_not_real_ones():
    with pytest.raises(KafkaError, match="more than 1000 schemas"):
        claims_of(batch(*[(None, framed(number), ()) for number in range(1001)]), VALUES, LIMIT)


def test_a_record_whose_inside_makes_no_sense_is_left_to_the_log():
    from moldau.protocol.records import update_crc

    broken = bytearray(batch((None, framed(1), ())))
    # The length of the value, behind attributes, two deltas and the null key.
    broken[61 + 5] = 120
    update_crc(broken, 0)
    assert claims_of(memoryview(broken), VALUES, LIMIT) is None
