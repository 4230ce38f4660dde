"""Servers and shells of one cluster know the same, and queries that should run are started again."""

import asyncio
from collections.abc import Iterator

import pytest

from moldau.base.clock import SteppedClock
from moldau.client import Cluster
from moldau.sql.errors import SqlError
from moldau.sql.running.session import Session
from moldau.sql.server.service import SqlService, properties_of
from moldau.testing import Broker
from tests.sql.sql_servers import NotedQueries

pytestmark = pytest.mark.slow

CLICKS = (
    "CREATE STREAM clicks (user STRING KEY, page STRING)"
    " WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON', PARTITIONS=1);"
)
COPY = "CREATE STREAM copy AS SELECT user, page FROM clicks EMIT CHANGES;"


@pytest.fixture(autouse=True)
def _empty(broker: Broker) -> Iterator[None]:
    yield
    broker.reset()


def test_what_a_shell_makes_the_server_knows(broker: Broker) -> None:
    async def work() -> None:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            service = SqlService(cluster)
            await service.open()
            async with Session(cluster) as shell:
                assert [each async for each in shell.run(CLICKS)]
            (listed,) = await service.run("SHOW STREAMS;", {})
            assert [each["name"] for each in listed["streams"]] == ["CLICKS"]

    asyncio.run(work())


class FailingQueries(NotedQueries):
    def __init__(self) -> None:
        super().__init__()
        self.tries = 0
        self.fails = False

    async def start(self, query_id: str, program: str) -> None:
        self.tries += 1
        if self.fails:
            raise SqlError("no Spark")
        await super().start(query_id, program)


def test_queries_are_started_again_after_longer_and_longer_pauses(broker: Broker) -> None:
    async def work() -> None:
        queries, clock = FailingQueries(), SteppedClock(frozen=True)
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            service = SqlService(cluster, runner=queries, clock=clock)
            await service.open()
            await service.run(CLICKS + COPY, {})
            await service.start_missing()
            assert queries.tries == 1  # it runs
            queries.programs.clear()
            queries.fails = True
            for tries, after in ((2, 0), (2, 4), (3, 2), (3, 9), (4, 2)):
                clock.advance(after)
                await service.start_missing()
                assert queries.tries == tries
            queries.fails = False
            clock.advance(60)
            await service.start_missing()
            assert list(queries.programs) == ["CSAS_COPY_2"]
            await service.run("PAUSE CSAS_COPY_2;", {})
            clock.advance(1_000)
            await service.start_missing()
            assert queries.programs == {}  # who pauses it means it

    asyncio.run(work())


def test_properties_of_requests() -> None:
    assert properties_of({"ksql.streams.auto.offset.reset": "earliest", "other": 1}) == {
        "auto.offset.reset": "earliest"
    }
    assert properties_of(None) == {}
