"""Which ids are missing: pure."""

import pytest

from moldau.cli.monitoring.reconciliation import Reconciliation, Seen, TooManyIds, id_of


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("key", "k"),
        ("header:event-id", "e-1"),
        ("header:other", None),
        ("value:order.id", "o-1"),
        ("value:count", "3"),
        ("value:none", None),
        ("value:order.id.deeper", None),
    ],
)
def test_where_an_id_is(where: str, expected: str | None) -> None:
    value = b'{"order": {"id": "o-1"}, "count": 3}'
    assert id_of(where, b"k", value, (("event-id", b"e-1"), ("null", None))) == expected


def test_records_without_an_id_have_none() -> None:
    assert id_of("key", None, b"v", ()) is None
    assert id_of("value:a", b"k", b"no json", ()) is None
    assert id_of("value:a", b"k", None, ()) is None


def test_a_dropped_id_is_found() -> None:
    audit = Reconciliation(100)
    audit.add_processed(["a\n", "b\n", "", '{"id": "c", "at": 1}', "{broken", "b\n", "elsewhere\n"])
    for offset, identifier in enumerate(["a", "b", "c", "d", "a", None]):
        audit.add_record(identifier, 0, offset)
    assert audit.missing == {"d": Seen(0, 3)}
    assert audit.unknown == ["elsewhere"]
    assert audit.processed_twice == ["b"]
    assert (audit.records, audit.repeated, audit.without_id) == (6, 1, 1)


def test_memory_is_bounded() -> None:
    audit = Reconciliation(2)
    with pytest.raises(TooManyIds):
        audit.add_processed("abc")
    other = Reconciliation(2)
    for identifier in "aabb":
        other.add_record(identifier, 0, 0)
    with pytest.raises(TooManyIds):
        other.add_record("c", 0, 0)
