"""Rows in HBase: every test runs against a small gateway of our own, and in ``make test-connect`` against a
real HBase too."""

import base64
import http.client
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from moldau.connect.connector import SinkTaskContext
from moldau.connect.connectors.hbase.sink import HBaseSink, HBaseSinkTask
from moldau.connect.errors import (
    ConfigException,
    ConnectException,
    DataException,
    JavaError,
    RetriableException,
)
from moldau.connect.records import SinkRecord
from moldau.testing import Broker
from moldau.testing.connect import write
from tests.connect.conftest import JSON, running
from tests.connect.connectors.hbase.fake_gateway import FakeGateway
from tests.connect.java_servers import hbase
from tests.shared.waiting import wait_until

NOW_MS = 1_700_000_000_000
Rows = dict[str, dict[str, tuple[int, str]]]


class AGateway(Protocol):
    port: int

    def start(self) -> None: ...

    def stop(self) -> None: ...


@pytest.fixture(
    scope="module",
    params=[
        "ours",
        pytest.param(
            "real",
            marks=[
                pytest.mark.slow,
                pytest.mark.timeout(600),
                pytest.mark.skipif(
                    not os.environ.get("MOLDAU_TEST_CONNECT"), reason="part of make test-connect"
                ),
            ],
        ),
    ],
)
def gateway(request: pytest.FixtureRequest) -> Iterator[AGateway]:
    if request.param == "real":
        with hbase() as server:
            yield server
    else:
        fake = FakeGateway()
        fake.start()
        yield fake
        fake.stop()


@pytest.fixture
def fake() -> Iterator[FakeGateway]:
    found = FakeGateway()
    found.start()
    yield found
    found.stop()


@pytest.fixture
def table() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


def call(gateway: AGateway, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    assert answer.status < 300, (path, answer.status, found[:500])
    return json.loads(found) if found else None


def make(gateway: AGateway, table: str, *families: str, **more: str) -> None:
    schema = [{"name": name, **more} for name in families]
    call(gateway, "POST", f"/{table}/schema", {"name": table, "ColumnSchema": schema})


def rows(gateway: AGateway, table: str) -> Rows:
    """Columns with version and value, by row."""

    def text(data: str) -> str:
        return base64.b64decode(data).decode("utf-8", "backslashreplace")

    return {
        text(row["key"]): {text(cell["column"]): (cell["timestamp"], text(cell["$"])) for cell in row["Cell"]}
        for row in call(gateway, "GET", f"/{table}/*")["Row"]
    }


def values(gateway: AGateway, table: str) -> dict[str, dict[str, str]]:
    return {
        key: {column: value for column, (_, value) in cells.items()}
        for key, cells in rows(gateway, table).items()
    }


def settings(gateway: AGateway, **more: str) -> dict[str, str]:
    given = {"connection.url": f"http://127.0.0.1:{gateway.port}", "column.family": "cf"}
    return {**given, **{name.replace("_", "."): value for name, value in more.items()}}


def record(table: str, offset: int, key: object, value: object, **more: Any) -> SinkRecord:
    return SinkRecord(topic=table, partition=0, offset=offset, key=key, value=value, **more)


def batch(table: str, *pairs: tuple[object, object], start: int = 0) -> list[SinkRecord]:
    return [record(table, offset, key, value) for offset, (key, value) in enumerate(pairs, start)]


def tolerated(given: dict[str, str], records: Sequence[SinkRecord]) -> list[tuple[int, str]]:
    """Writes a batch; the offsets of dead letters with their reasons."""
    found: list[tuple[int, str]] = []

    def report(record: SinkRecord, error: JavaError) -> None:
        found.append((record.offset, error.message))

    task = HBaseSinkTask()
    try:
        task.start({**given, "topics": "t"}, SinkTaskContext("test", 0, report=report))
        task.put(records)
    finally:
        task.stop()
    return sorted(found)


def test_the_last_record_of_a_key_counts_however_often_it_comes(gateway: AGateway, table: str) -> None:
    make(gateway, table, "cf", "other")
    everything = batch(
        table,
        ("a", {"n": 1, "note": "x"}),
        ("b", {"n": 2}),
        ("a", {"n": 3}),
        ("b", None),
        ("c", {"n": 5, "other": {"x": 1}}),
        ("c", None),
        ("c", {"n": 7}),
    )
    wanted = {"a": {"cf:n": (3, "3"), "cf:note": (1, "x")}, "c": {"cf:n": (7, "7")}}
    for _ in range(2):  # it comes again, as after a crash
        write(HBaseSink, settings(gateway), everything)
        assert rows(gateway, table) == wanted
    for late in everything[:-1]:  # or one of it comes alone, from a task that should be dead
        write(HBaseSink, settings(gateway), [late])
        assert rows(gateway, table) == wanted


def test_deletes_before_what_they_delete(gateway: AGateway, table: str) -> None:
    make(gateway, table, "cf")
    write(HBaseSink, settings(gateway), [record(table, 9, "k", None)])
    write(HBaseSink, settings(gateway), [record(table, 3, "k", {"n": 3})])
    assert rows(gateway, table) == {}
    write(HBaseSink, settings(gateway), [record(table, 10, "k", {"n": 10})])
    assert values(gateway, table) == {"k": {"cf:n": "10"}}


def test_versions_by_timestamp(gateway: AGateway, table: str) -> None:
    make(gateway, table, "cf")
    given = settings(gateway, write_time="timestamp")
    made = [
        record(table, 0, "k", {"n": "new"}, timestamp=NOW_MS + 5),
        record(table, 1, "k", {"n": "old"}, timestamp=NOW_MS),
        record(table, 2, "tie", {"n": 1}, timestamp=NOW_MS),
        record(table, 3, "tie", {"n": 2}, timestamp=NOW_MS),
    ]
    for _ in range(2):
        write(HBaseSink, given, made)
        assert rows(gateway, table) == {
            "k": {"cf:n": (NOW_MS + 5, "new")},
            "tie": {"cf:n": (NOW_MS, "2")},
        }
    write(HBaseSink, given, [record(table, 4, "k", None, timestamp=NOW_MS + 9)])
    assert set(rows(gateway, table)) == {"tie"}


def test_a_family_with_a_ttl_takes_no_offsets(gateway: AGateway, table: str) -> None:
    make(gateway, table, "cf", TTL="86400")
    with pytest.raises(ConnectException, match=r"has a TTL.*Next: write.time=timestamp"):
        write(HBaseSink, settings(gateway), batch(table, ("k", {"n": 1})))
    now = SinkTaskContext("test", 0).now_ms()
    given = settings(gateway, write_time="timestamp")
    write(HBaseSink, given, [record(table, 0, "k", {"n": 1}, timestamp=now)])
    assert values(gateway, table) == {"k": {"cf:n": "1"}}


def test_tables_and_families_that_the_sink_makes(gateway: AGateway, table: str) -> None:
    one = batch(table, ("k", {"n": 1, "address": {"city": "Prague"}}))
    with pytest.raises(ConnectException, match=r"table .* is missing. Next: .*auto.create.tables"):
        write(HBaseSink, settings(gateway), one)
    given = settings(gateway, auto_create_tables="true")
    write(HBaseSink, given, one)
    more = batch(table, ("k", {"more": {"x": 1}}), ("j", {"n": 2}), start=1)
    assert tolerated(given, more) == [
        (
            1,
            f"The table {table} has no column family more. Next: add it, or set "
            "auto.create.column.families=true",
        )
    ]
    write(HBaseSink, {**given, "auto.create.column.families": "true"}, more)
    assert values(gateway, table) == {
        "j": {"cf:n": "2"},
        "k": {"address:city": "Prague", "cf:n": "1", "more:x": "1"},
    }
    # The tombstone takes families too that the task has not seen yet.
    write(HBaseSink, given, [record(table, 5, "k", None)])
    assert set(rows(gateway, table)) == {"j"}


def test_a_family_that_somebody_else_adds_is_deleted_too(gateway: AGateway, table: str) -> None:
    make(gateway, table, "cf")
    task = HBaseSinkTask()
    task.start({**settings(gateway), "topics": table}, SinkTaskContext("test", 0))
    task.put(batch(table, ("k", {"n": 1})))
    make(gateway, table, "late")
    task.put(batch(table, ("k", {"late": {"n": 1}}), start=1))
    assert values(gateway, table) == {"k": {"cf:n": "1", "late:n": "1"}}
    make(gateway, table, "latest")
    write(HBaseSink, settings(gateway), batch(table, ("k", {"latest": {"n": 1}}), start=2))
    task.put([record(table, 3, "k", None)])
    task.stop()
    assert rows(gateway, table) == {}


def test_nulls(gateway: AGateway, table: str) -> None:
    make(gateway, table, "cf")
    first = batch(table, ("k", {"a": 1, "b, c/d": 2, "c": 3}))
    write(HBaseSink, settings(gateway), first)
    ignored = settings(gateway, behavior_on_null_fields="ignore")
    write(HBaseSink, ignored, batch(table, ("k", {"a": None, "c": 4}), start=1))
    assert values(gateway, table) == {"k": {"cf:a": "1", "cf:b, c/d": "2", "cf:c": "4"}}
    write(HBaseSink, settings(gateway), batch(table, ("k", {"a": None, "b, c/d": None}), start=2))
    write(HBaseSink, settings(gateway), first)
    assert values(gateway, table) == {"k": {"cf:c": "4"}}


#: What means something else in a path, or no text at all.
ODD_KEYS = [b"\x00\xff\xfe", b"all*", b"*", b"..", b".", b"schema", b"exists", b"a\n\x00"]
KEYS = ["a/b, c%2F+ü".encode(), b"a" * 2000, b"k?e=b64", b"k;v=1", b"//", b"\\", b" a ", b"~#|"]


@pytest.mark.parametrize("is_old", [False, True])
def test_keys_of_every_kind_come_and_go(
    gateway: AGateway, table: str, is_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(gateway, table, "cf")
    keys = KEYS if is_old else KEYS + ODD_KEYS
    if is_old:
        monkeypatch.setattr("moldau.connect.connectors.hbase.gateway.takes_base64", lambda version: False)
    neighbours: list[tuple[object, object]] = [("all", {"n": 1}), ("a", {"n": 1})]
    write(HBaseSink, settings(gateway), batch(table, *neighbours, *((key, {"n": 1}) for key in keys)))
    assert len(rows(gateway, table)) == len(keys) + 2
    write(HBaseSink, settings(gateway), batch(table, *((key, None) for key in keys), start=50))
    assert set(rows(gateway, table)) == {"a", "all"}


def test_dead_letters_leave_the_good_rows(gateway: AGateway, table: str) -> None:
    make(gateway, table, "cf")
    everything = batch(
        table,
        ("a", {"n": 1}),
        ("b", {"n": "s" * 11_000_000}),  # only the server knows that it is too large
        (None, {"n": 1}),
        ("c", {"nowhere": {"secret": 1}}),
        ("d", {}),
        ("e", {"n": 2}),
        ("f", {"n": "half \ud800"}),
        ("g", None),
        ("h", {"n": 3}),
    )
    letters = tolerated(settings(gateway), everything)
    assert [offset for offset, _ in letters] == [1, 2, 3, 4, 6]
    assert "KeyValue size too large" in letters[0][1]
    assert "secret" not in str(letters)
    wanted = {"a": {"cf:n": "1"}, "e": {"cf:n": "2"}, "h": {"cf:n": "3"}}
    assert values(gateway, table) == wanted
    with pytest.raises(DataException):
        write(HBaseSink, settings(gateway), [*everything, record(table, 20, "z", {"n": 9})])
    assert values(gateway, table) == {**wanted, "z": {"cf:n": "9"}}


def test_a_server_that_is_away_and_back(gateway: AGateway, table: str) -> None:
    make(gateway, table, "cf")
    task = HBaseSinkTask()
    task.start({**settings(gateway), "topics": table}, SinkTaskContext("test", 0))
    everything = batch(table, *((f"k{n % 10}", {"n": n} if n % 7 else None) for n in range(60)))
    try:
        task.put(everything[:10])
        gateway.stop()
        with pytest.raises(RetriableException, match="cannot be reached"):
            task.put(everything)
        gateway.start()
        task.put(everything)
    finally:
        task.stop()
    wanted = {f"k{n % 10}": {"cf:n": str(n)} for n in range(50, 60) if n % 7}
    assert values(gateway, table) == wanted


def test_a_table_that_goes_away(gateway: AGateway, table: str) -> None:
    make(gateway, table, "cf")
    task = HBaseSinkTask()
    task.start({**settings(gateway), "topics": table}, SinkTaskContext("test", 0))
    task.put(batch(table, ("k", {"n": 1})))
    if isinstance(gateway, FakeGateway):
        del gateway.tables[table]
    else:
        call(gateway, "DELETE", f"/{table}/schema")
    with pytest.raises(RetriableException):  # begun again, the task says what to do
        task.put(batch(table, ("k", {"n": 2}), start=1))
    task.stop()
    with pytest.raises(ConnectException, match="is missing"):
        write(HBaseSink, settings(gateway), batch(table, ("k", {"n": 2}), start=1))


def test_requests_have_a_bound(fake: FakeGateway, table: str) -> None:
    make(fake, table, "cf")
    fake.asked.clear()
    given = settings(fake, max_batch_size="4")
    write(HBaseSink, given, batch(table, *((f"k{n}", {"n": n}) for n in range(10))))
    assert [method for method, _ in fake.asked] == ["GET", "PUT", "PUT", "PUT"]
    large = batch(table, *((f"k{n}", {"n": "x" * 1_500_000}) for n in range(5)))
    fake.asked.clear()
    write(HBaseSink, settings(fake), large)
    assert [method for method, _ in fake.asked] == ["GET", "PUT", "PUT", "PUT"]


def test_deletes_go_several_at_a_time_and_all_end_before_an_error(fake: FakeGateway, table: str) -> None:
    make(fake, table, "cf")
    task = HBaseSinkTask()
    given = settings(fake, max_concurrent_requests="3")
    task.start({**given, "topics": table}, SinkTaskContext("test", 0))
    keys = [f"k{n}" for n in range(20)]
    task.put(batch(table, *((key, {"n": 1}) for key in keys)))
    fake.canned["DELETE"] = (503, b"Unavailable")
    gone = batch(table, *((key, None) for key in keys), start=20)
    with pytest.raises(RetriableException, match="answers 503"):
        task.put(gone)
    assert len([method for method, _ in fake.asked if method == "DELETE"]) == 3
    del fake.canned["DELETE"]
    task.put(gone)
    task.stop()
    assert rows(fake, table) == {}


def test_logins(fake: FakeGateway, table: str) -> None:
    make(fake, table, "cf")
    given = settings(fake, connection_username="ann", connection_password="pw")
    write(HBaseSink, given, batch(table, ("k", {"n": 1})))
    assert fake.headers["Authorization"] == "Basic YW5uOnB3"
    fake.canned["GET"] = (401, b"")
    with pytest.raises(ConnectException, match="answers 401") as caught:
        write(HBaseSink, given, batch(table, ("k", {"n": 1})))
    assert not isinstance(caught.value, RetriableException)


@pytest.mark.parametrize(
    "bad",
    [
        {"connection.url": "ftp://h"},
        {"connection.url": "http://u:p@h"},
        {"column.family": "a:b"},
        {"insert.mode": "INSERT"},
        {"write.time": "now"},
        {"cell.encoding": "xml"},
    ],
)
def test_settings_that_are_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ConfigException):
        write(HBaseSink, {"connection.url": "http://127.0.0.1:1", **bad}, [])


def test_the_worker_says_which_hosts_may_be_reached(broker: Broker, tmp_path: Path) -> None:
    config = {
        "connector.class": HBaseSink.class_name,
        "topics": "t",
        "connection.url": "http://10.1.2.3:8080",
    }
    with running(broker, tmp_path, connectors_allowed_hosts="127.0.0.1") as worker:
        answer = worker.http.post("/connectors", json={"name": "h", "config": config})
        assert answer.status_code == 400
        assert "10.1.2.3 is not permitted" in answer.text


@pytest.mark.slow
def test_a_worker_with_dead_letters_while_the_server_goes_and_comes(
    fake: FakeGateway, broker: Broker, tmp_path: Path, table: str
) -> None:
    broker.create_topic(table)
    config = {
        "connector.class": "HBaseSink",
        "topics": table,
        **settings(fake, auto_create_tables="true"),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{table}-letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }

    def send(key: str, value: bytes | None) -> None:
        broker.produce(table, value, key=key.encode(), partition=0)

    send("a", b'{"n":1}')
    send("b", b'{"nowhere":{"n":1}}')
    send("c", b'{"n":3}')
    with running(broker, tmp_path) as worker:
        worker.call("POST", "/connectors", {"name": "h", "config": config})
        there = {"a": {"cf:n": "1"}, "c": {"cf:n": "3"}}
        wait_until(lambda: table in fake.tables and values(fake, table) == there)
        (letter,) = broker.wait_for_records(f"{table}-letters", 1, timeout_seconds=60)
        assert bytes(letter.key or b"") == b"b"
        fake.stop()
        send("a", None)
        send("c", b'{"n":5}')
        wait_until(lambda: worker.task("h")["state"] == "RESTARTING", lambda: worker.task("h"))
        fake.start()
        wait_until(lambda: values(fake, table) == {"c": {"cf:n": "5"}}, lambda: worker.task("h"))
