"""Tables, columns and rows for records."""

import pytest

from moldau.connect.connectors.cassandra.mapping import Row, Target, Targets, parse_mapping, row_of
from moldau.connect.connectors.cassandra.sink import CassandraSink
from moldau.connect.data.schema import Schema, Struct, struct
from moldau.connect.data.types import Type
from moldau.connect.errors import ConfigException, DataException
from moldau.connect.records import Header, SinkRecord

TEXT = Schema(Type.STRING)
ORDER = struct({"id": TEXT, "total": Schema(Type.INT32, optional=True)})


def record(key: object, value: object, **more: object) -> SinkRecord:
    return SinkRecord(topic="t", partition=0, offset=0, key=key, value=value, **more)  # type: ignore[arg-type]


def targets(**given: str) -> Targets:
    settings = {"contactPoints": "h", **given}
    return Targets.of(settings, CassandraSink.config.parse(settings))


def plain(row: Row) -> dict[str, object]:
    return {name: value for name, (_, value) in row.columns.items()}


def test_a_mapping() -> None:
    assert parse_mapping('Id=key, "Name"=value.who.name,trace = header.trace.id') == {
        "id": ("key",),
        "Name": ("value", "who", "name"),
        "trace": ("header", "trace", "id"),
    }
    for bad in ("", "id", "id=", "id=now()", "id=key,id=value.x", "a=header", "a=key; drop"):
        with pytest.raises(ConfigException):
            parse_mapping(bad)


def test_tables_of_a_topic() -> None:
    found = targets(
        **{
            "topic.my.orders.shop.by_id.mapping": "id=key",
            "topic.my.orders.shop.by_id.ttl": "60",
            'topic.my.orders.shop."ByName".mapping': "name=value.name",
            'topic.my.orders.shop."ByName".deletesEnabled': "false",
        },
        keyspace="other",
    )
    by_id, by_name = found.for_topic("my.orders")
    assert (by_id.keyspace, by_id.table, by_id.ttl_seconds, by_id.deletes) == ("shop", "by_id", 60, True)
    assert (by_name.table, by_name.ttl_seconds, by_name.deletes) == ("ByName", -1, False)
    (other,) = found.for_topic("log-2.x")
    assert (other.keyspace, other.table, other.columns) == ("other", "log_2_x", None)


def test_settings_that_are_refused() -> None:
    assert "keyspace" in CassandraSink.check({"contactPoints": "h"})
    assert "keyspace" in CassandraSink.check({"contactPoints": "h", "topic.t.k.t.ttl": "1"})
    assert "keyspace" in CassandraSink.check({"contactPoints": "h", "topic.t.k.t.mapping": "x"})
    assert not CassandraSink.check({"contactPoints": "h", "keyspace": "k"})
    with pytest.raises(DataException, match="no mapping"):
        targets(**{"topic.t.k.t.mapping": "id=key"}).for_topic("u")


def test_rows_by_name() -> None:
    target = Target("k", "t", key_fields=("id",))
    value = Struct(ORDER, {"id": "ignored: the key says it", "total": 3})
    row = row_of(record("a", value, key_schema=TEXT, value_schema=ORDER), target)
    assert plain(row) == {"id": "a", "total": 3}
    assert row.keys == ("id",)
    assert plain(row_of(record({"id": 1, "x": 2}, {"y": None}), target)) == {"id": 1, "y": None}
    assert plain(row_of(record({"id": 1, "x": 2}, {"y": 0}), Target("k", "t"))) == {"id": 1, "x": 2, "y": 0}
    gone = row_of(record("a", None), target)
    assert (plain(gone), gone.deleted) == ({"id": "a"}, True)


def test_rows_by_mapping() -> None:
    target = Target("k", "t", parse_mapping("id=key.id, total=value.inner.total, trace=header.trace"))
    headers = (Header("trace", TEXT, "old"), Header("trace", TEXT, "new"))
    row = row_of(record({"id": 1}, {"inner": {"total": 2}}, headers=headers), target)
    assert plain(row) == {"id": 1, "total": 2, "trace": "new"}
    assert plain(row_of(record({"id": 1}, {}), target)) == {"id": 1, "total": None, "trace": None}
    assert plain(row_of(record({"id": 1}, None), target)) == {"id": 1, "trace": None}


@pytest.mark.parametrize(
    ("key", "value", "target"),
    [
        (None, {"x": 1}, Target("k", "t", key_fields=("id",))),
        ("a", {"x": 1}, Target("k", "t")),
        ({"x": 1}, {"x": 1}, Target("k", "t", key_fields=("id",))),
        ("a", "text", Target("k", "t", key_fields=("id",))),
        ("a", None, Target("k", "t", key_fields=("id",), deletes=False)),
        ("a", {"x": 1}, Target("k", "t", parse_mapping("id=key.id"))),
        ("a", Struct(ORDER, {"id": "a"}), Target("k", "t", parse_mapping("id=value.other"))),
    ],
)
def test_what_is_no_row(key: object, value: object, target: Target) -> None:
    with pytest.raises(DataException):
        row_of(record(key, value), target)
