"""Statements on a real broker: what they make, show and refuse."""

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from moldau.client import Admin, Cluster, NewTopic, TopicPartition
from moldau.client.admin.descriptions import ConfigResource, ResourceType
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.sql.errors import SqlError
from moldau.sql.running import looking
from moldau.sql.running.session import Flow, Message, Session, Table
from moldau.sql.running.statement_log import StatementLog
from moldau.testing import Broker

CLICKS = (
    "CREATE STREAM clicks (user STRING KEY, page STRING, ms BIGINT)"
    " WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON', PARTITIONS=3);"
)
COUNTS = "CREATE TABLE counts AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page EMIT CHANGES;"


class Runner:
    """Notes what is to run; its programs are run by tests of Spark."""

    def __init__(self) -> None:
        self.running: dict[str, str] = {}
        self.forgotten: list[str] = []

    async def start(self, query_id: str, program: str) -> None:
        self.running[query_id] = program

    async def stop(self, query_id: str) -> None:
        self.running.pop(query_id, None)

    async def forget(self, query_id: str) -> None:
        self.forgotten.append(query_id)

    async def states(self) -> dict[str, str]:
        return dict.fromkeys(self.running, "running")


Work = Callable[[Session, Runner], Coroutine[Any, Any, None]]


@pytest.fixture
def broker() -> Any:
    with Broker() as started:
        yield started


def work_on(broker: Broker, *works: Work) -> None:
    """Each part of the work has a session of its own; all have one runner."""
    runner = Runner()

    async def run() -> None:
        for work in works:
            async with (
                await Cluster.open(broker.bootstrap_servers) as cluster,
                Session(cluster, runner=runner) as session,
            ):
                await work(session, runner)

    asyncio.run(run())


async def results(session: Session, text: str) -> list[Any]:
    return [each async for each in session.run(text)]


async def rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    (found,) = await results(session, text)
    if isinstance(found, Flow):
        return [each async for each in found.rows if each is not None]
    assert isinstance(found, Table)
    return list(found.rows)


def test_from_a_topic_to_rows(broker: Broker) -> None:
    async def write(session: Session, runner: Runner) -> None:
        made, inserted = await results(
            session,
            f"{CLICKS} INSERT INTO clicks (ROWTIME, user, page, ms)"
            " VALUES (1000, 'ann', '/a', 5), (2000, 'bob', '/b', 7)",
        )
        assert (made, inserted) == (Message("Stream CLICKS created"), Message("2 rows written to clicks"))

    async def read(session: Session, runner: Runner) -> None:
        """Another session knows the stream."""
        assert await rows(session, "SHOW STREAMS") == [("CLICKS", "clicks", "KAFKA", "JSON", False)]
        assert await rows(session, "SELECT * FROM clicks") == [("ann", "/a", 5), ("bob", "/b", 7)]
        assert await rows(session, "SELECT user FROM clicks AS OF 1500") == [("ann",)]
        assert await rows(session, "SELECT user FROM clicks LIMIT 1") == [("ann",)]
        grouped = "SELECT user, SUM(ms) AS total FROM clicks GROUP BY user"
        assert await rows(session, grouped) == [("ann", 5), ("bob", 7)]
        assert ("clicks", 3, 1) in await rows(session, "SHOW TOPICS")
        assert ("MS", "BIGINT") in await rows(session, "DESCRIBE clicks")
        assert len(await rows(session, "SHOW FUNCTIONS")) > 60

    async def follow(session: Session, runner: Runner) -> None:
        await results(session, "SET 'auto.offset.reset' = 'earliest'")
        found = await rows(session, "SELECT user, page FROM clicks EMIT CHANGES LIMIT 2")
        assert set(found) == {("ann", "/a"), ("bob", "/b")}
        raw = await rows(session, "PRINT 'clicks' FROM BEGINNING LIMIT 2")
        assert {each[2:] for each in raw} == {
            ("ann", '{"PAGE":"/a","MS":5}'),
            ("bob", '{"PAGE":"/b","MS":7}'),
        }

    work_on(broker, write, read, follow)


def test_rows_are_worked_out_beside_the_event_loop(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one statement makes of its records holds up nobody else's."""
    loop_thread, seen = threading.get_ident(), set()
    original = looking._outputs

    def noted(driver: Any, record: Any) -> Any:
        seen.add(threading.get_ident())
        return original(driver, record)

    monkeypatch.setattr(looking, "_outputs", noted)

    async def work(session: Session, runner: Runner) -> None:
        await results(session, f"{CLICKS} SET 'auto.offset.reset' = 'earliest'")
        await results(session, "INSERT INTO clicks VALUES ('ann', LPAD('!', 60, 'a'), 1)")
        for emit in ("", "EMIT CHANGES LIMIT 1"):
            found = await rows(session, f"SELECT REGEXP_EXTRACT('(a+)+$', page) AS x FROM clicks {emit}")
            assert found == [(None,)]

    work_on(broker, work)
    assert seen
    assert loop_thread not in seen


@pytest.mark.slow
def test_queries_that_are_kept(broker: Broker) -> None:
    async def start(session: Session, runner: Runner) -> None:
        await results(session, CLICKS)
        (made,) = await results(session, COUNTS)
        assert made == Message("Created query with ID CTAS_COUNTS_2")
        assert list(runner.running) == ["CTAS_COUNTS_2"]
        with pytest.raises(SqlError, match="already exists"):
            await results(session, COUNTS)
        await results(session, "CREATE STREAM more AS SELECT user, page FROM clicks; ")
        await results(session, "INSERT INTO more SELECT user, page FROM clicks")
        assert list(runner.running) == ["CTAS_COUNTS_2", "CSAS_MORE_3", "INSERTQUERY_MORE_4"]

    async def go_on(session: Session, runner: Runner) -> None:
        names: dict[str, Any] = {}
        exec(runner.running["CTAS_COUNTS_2"], names)
        assert "KSTREAM-AGGREGATE" in names["topology"].describe()
        listed = await rows(session, "SHOW QUERIES")
        assert [each[:3] for each in listed] == [
            ("CTAS_COUNTS_2", "RUNNING", "COUNTS"),
            ("CSAS_MORE_3", "RUNNING", "MORE"),
            ("INSERTQUERY_MORE_4", "RUNNING", "MORE"),
        ]
        with pytest.raises(SqlError, match="CTAS_COUNTS_2, CSAS_MORE_3, INSERTQUERY_MORE_4 reads it"):
            await results(session, "DROP STREAM clicks")
        (explained,) = await results(session, "EXPLAIN CTAS_COUNTS_2")
        assert "Sub-topology: 1" in explained.text
        assert "▶ CTAS_COUNTS" in explained.text or "▶ clicks" in explained.text
        extended = dict(await rows(session, "DESCRIBE counts EXTENDED"))
        assert (extended["— written by"], extended["PAGE"]) == (
            "CTAS_COUNTS_2",
            "VARCHAR(STRING) (primary key)",
        )
        extended = dict(await rows(session, "DESCRIBE more EXTENDED"))
        assert extended["— written by"] == "CSAS_MORE_3, INSERTQUERY_MORE_4"
        await results(session, "PAUSE CTAS_COUNTS_2")
        assert "CTAS_COUNTS_2" not in runner.running
        await results(session, "RESUME CTAS_COUNTS_2; TERMINATE INSERTQUERY_MORE_4; TERMINATE CSAS_MORE_3")
        assert list(runner.running) == ["CTAS_COUNTS_2"]

    async def end(session: Session, runner: Runner) -> None:
        assert [each[:2] for each in await rows(session, "SHOW QUERIES")] == [("CTAS_COUNTS_2", "RUNNING")]
        assert set(session.catalogue.sources) == {"CLICKS", "COUNTS", "MORE"}
        await results(session, "DROP TABLE counts DELETE TOPIC; DROP STREAM more; DROP STREAM clicks")
        assert runner.running == {}
        assert session.catalogue.sources == {}
        assert "COUNTS" not in [each[0] for each in await rows(session, "SHOW TOPICS")]

    work_on(broker, start, go_on, end)


def test_a_query_is_replaced_in_place(broker: Broker) -> None:
    """Its id stays, the old program ends, and who reads it still finds it after a restart."""

    async def replace(session: Session, runner: Runner) -> None:
        await results(session, CLICKS)
        await results(session, "CREATE STREAM slow AS SELECT user, page FROM clicks WHERE ms > 4")
        await results(session, "CREATE STREAM slower AS SELECT user, page FROM slow")
        changed = "CREATE OR REPLACE STREAM slow AS SELECT user, page, ms FROM clicks WHERE ms > 6"
        (made,) = await results(session, changed)
        assert made.text.splitlines()[:2] == ["Replaced query with ID CSAS_SLOW_2", "+ column MS BIGINT"]
        assert list(runner.running) == ["CSAS_SLOWER_3", "CSAS_SLOW_2"]
        assert (await results(session, changed))[0] == Message("SLOW is as it was")
        with pytest.raises(SqlError, match="cannot be replaced in place: column MS would be gone"):
            await results(session, "CREATE OR REPLACE STREAM slow AS SELECT user, page FROM clicks")
        with pytest.raises(SqlError, match="No query writes CLICKS"):
            await results(session, "CREATE OR REPLACE STREAM clicks AS SELECT user, page FROM slow")
        await results(session, CLICKS.replace("CREATE", "CREATE OR REPLACE"))

    async def later(session: Session, runner: Runner) -> None:
        assert [each.name for each in session.kept()] == ["CLICKS", "SLOW", "SLOWER"]
        assert ("MS", "BIGINT") in await rows(session, "DESCRIBE slow")

    work_on(broker, replace, later)


def test_a_query_that_ends_leaves_nothing_behind_but_its_results(broker: Broker) -> None:
    state = ["CTAS_COUNTS_2-tasks-0-changelog", "CTAS_COUNTS_2-counts-repartition"]

    async def work(session: Session, runner: Runner) -> None:
        await results(session, f"{CLICKS} {COUNTS}")
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            admin, groups = Admin(cluster), Groups(cluster)
            others = ["CTAS_COUNTS_21-tasks-0-changelog", "CTAS_COUNTS_2-mine"]
            await admin.create_topics([NewTopic(name, num_partitions=1) for name in [*state, *others]])
            for group in ("CTAS_COUNTS_2", "CTAS_COUNTS_21"):
                await groups.commit(group, {TopicPartition("clicks", 0): CommittedOffset(0)})
            await results(session, "PAUSE CTAS_COUNTS_2")
            assert set(state) <= set(await admin.list_topics())
            (said,) = await results(session, "TERMINATE CTAS_COUNTS_2")
            assert said.text == (
                "Query CTAS_COUNTS_2 terminated; deleted its state (topics CTAS_COUNTS_2-counts-repartition,"
                " CTAS_COUNTS_2-tasks-0-changelog), its group and its checkpoint"
            )
            there = set(await admin.list_topics())
            assert there >= {"COUNTS", "clicks", *others}
            assert not there & set(state)
            assert [each.group_id for each in await groups.list()] == ["CTAS_COUNTS_21"]
        assert runner.forgotten == ["CTAS_COUNTS_2"]
        (said,) = await results(session, "DROP TABLE counts")
        assert said == Message("Table COUNTS dropped")
        await results(session, COUNTS)
        (said,) = await results(session, "DROP TABLE counts")
        assert said.text.splitlines()[1] == "Table COUNTS dropped"
        assert len(runner.forgotten) == 2

    work_on(broker, work)


def test_an_id_that_somebody_wrote_into_the_log_deletes_nothing_of_others(broker: Broker) -> None:
    async def work(session: Session, runner: Runner) -> None:
        await results(session, f"{CLICKS} {COUNTS}")
        (query,) = [each for each in session.kept() if each.query_id is not None]
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            await Admin(cluster).create_topics([NewTopic("word_count-tasks-0-changelog", num_partitions=1)])
            await StatementLog(cluster).write(replace(query, query_id="word_count"))
            await session.refresh()
            (said,) = await results(session, "TERMINATE ALL")
            assert said.text.endswith("nothing of it was deleted, as no query has such an id")
            assert "word_count-tasks-0-changelog" in await Admin(cluster).list_topics()
        assert runner.forgotten == []

    work_on(broker, work)


def test_a_query_that_is_made_again_does_not_find_the_state_of_the_old_one(broker: Broker) -> None:
    async def work(session: Session, runner: Runner) -> None:
        await results(session, f"{CLICKS} {COUNTS}")
        (first,) = runner.running
        await results(session, f"DROP TABLE counts; {COUNTS}")
        (second,) = runner.running
        assert first != second

    work_on(broker, work)


def test_what_others_read_or_write_is_not_taken_from_them(broker: Broker) -> None:
    """The statement log has to be readable afterwards: else no shell of the cluster could begin."""

    async def make(session: Session, runner: Runner) -> None:
        await results(session, CLICKS)
        await results(session, "CREATE STREAM more AS SELECT user, page, ms FROM clicks")
        await results(
            session,
            "CREATE STREAM names (user STRING KEY, name STRING) WITH"
            " (KAFKA_TOPIC='names', VALUE_FORMAT='JSON', PARTITIONS=3)",
        )
        await results(session, "INSERT INTO names SELECT user, page AS name FROM clicks")
        await results(
            session,
            "CREATE STREAM both AS SELECT m.user AS user, page, name FROM more m"
            " JOIN names n WITHIN 1 HOUR ON m.user = n.user",
        )

    async def break_it(session: Session, runner: Runner) -> None:
        before = dict(runner.running)
        for text, complaint in (
            (
                CLICKS.replace("CREATE", "CREATE OR REPLACE").replace("page STRING, ", ""),
                "PAGE would be gone",
            ),
            (
                CLICKS.replace("CREATE", "CREATE OR REPLACE").replace("clicks", "more", 1),
                "CSAS_MORE_2 writes MORE",
            ),
            (
                CLICKS.replace("STREAM", "OR REPLACE TABLE").replace("KEY", "PRIMARY KEY"),
                "CLICKS is a stream",
            ),
            (
                "CREATE OR REPLACE STREAM names (user STRING KEY, name STRING, page STRING) WITH"
                " (KAFKA_TOPIC='names', VALUE_FORMAT='JSON')",
                "others read it: Column PAGE is ambiguous.* That is in: CREATE STREAM both",
            ),
            ("DROP STREAM names", "CSAS_BOTH_5 reads it. DROP it first"),
            ("DROP STREAM both; DROP STREAM names", "INSERTQUERY_NAMES_4 writes into it. TERMINATE it first"),
        ):
            with pytest.raises(SqlError, match=complaint):
                await results(session, text)
        del before["CSAS_BOTH_5"]
        assert runner.running == before

    async def later(session: Session, runner: Runner) -> None:
        await results(session, "TERMINATE ALL; DROP STREAM names; DROP STREAM more")
        with pytest.raises(SqlError, match="There are no queries; SHOW QUERIES"):
            await results(session, "TERMINATE ALL")

    work_on(broker, make, break_it, later)


def test_a_topic_keeps_what_it_was_told_to(broker: Broker) -> None:
    async def work(session: Session, runner: Runner) -> None:
        await results(session, CLICKS.replace("PARTITIONS=3", "PARTITIONS=3, RETENTION_MS=60000"))
        resource = ConfigResource(ResourceType.TOPIC, "clicks")
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            found = (await Admin(cluster).describe_configs({resource: ["retention.ms"]}))[resource]
        assert isinstance(found, list)
        assert found[0].value == "60000"

    work_on(broker, work)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='none', VALUE_FORMAT='JSON')", "add PARTITIONS"),
        ("CREATE STREAM s (a INT) WITH (VALUE_FORMAT='JSON', PARTITIONS=1)", "KAFKA_TOPIC"),
        ("CREATE TABLE s (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON', PARTITIONS=1)", "PRIMARY KEY"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='AVRO', PARTITIONS=1)", "registry"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='x', COLOUR='red', PARTITIONS=1)", "no COLOUR"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC=5, VALUE_FORMAT='JSON', PARTITIONS=1)", "takes a text"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT=5, PARTITIONS=1)", "takes a text"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON', PARTITIONS='y')", "from 1"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON', PARTITIONS=0)", "from 1"),
        (
            "CREATE STREAM s (a STRING) WITH"
            " (KAFKA_TOPIC='x', VALUE_FORMAT='JSON', TIMESTAMP='a', PARTITIONS=1)",
            "has to be BIGINT or TIMESTAMP",
        ),
        ("INSERT INTO clicks (ROWTIME, user) VALUES ('x', 'y')", "ROWTIME takes milliseconds"),
        ("INSERT INTO clicks (ROWTIME, user) VALUES (NULL, 'y')", "ROWTIME takes milliseconds"),
        ("DROP TABLE clicks", "use DROP STREAM"),
        ("DROP STREAM nope", "does not exist"),
        ("INSERT INTO clicks VALUES (1)", "1 values for 3 columns"),
        ("INSERT INTO clicks (user, ms) VALUES ('x', 'y')", "Column MS is BIGINT"),
        ("INSERT INTO clicks (nope) VALUES (1)", "no column NOPE"),
        ("TERMINATE nope", "no query NOPE"),
        ("SET 'colour' = 'red'", "no property colour"),
        ("SET 'auto.offset.reset' = 'red'", "earliest"),
        ("SELECT * FROM clicks AS OF 5 EMIT CHANGES", "does not go with EMIT"),
    ],
)
def test_what_is_refused_changes_nothing(text: str, complaint: str) -> None:
    async def work(session: Session, runner: Runner) -> None:
        await results(session, CLICKS)
        before = session.catalogue
        with pytest.raises(SqlError, match=complaint):
            await results(session, text)
        assert session.catalogue == before

    with Broker() as broker:
        work_on(broker, work)


def test_without_spark_nothing_is_kept(broker: Broker) -> None:
    async def work() -> None:
        async with await Cluster.open(broker.bootstrap_servers) as cluster, Session(cluster) as session:
            await results(session, CLICKS)
            with pytest.raises(SqlError, match="run on Spark"):
                await results(session, COUNTS)

    asyncio.run(work())


def test_a_name_in_quotes_becomes_a_plain_id(broker: Broker) -> None:
    """The id is the name of a file and of a process, and stands in the program."""

    async def work(session: Session, runner: Runner) -> None:
        await results(session, CLICKS)
        name = 'x""" ../ raise SystemExit """'
        statement = f"CREATE STREAM `{name}` WITH (KAFKA_TOPIC='plain') AS SELECT * FROM clicks EMIT CHANGES;"
        (made,) = await results(session, statement)
        (query_id,) = runner.running
        assert re.fullmatch(r"CSAS_x_+raise_SystemExit_+2", query_id)
        assert made.text == f"Created query with ID {query_id}"

    work_on(broker, work)
