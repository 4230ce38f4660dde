"""A query that is kept: from CREATE over HTTP to a process on a real Spark, replaced in place, and ended."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.client import Cluster
from moldau.client.groups.groups import Groups
from moldau.sql.running.query_processes import QueryProcesses
from moldau.sql.server.server import ServerOptions
from moldau.testing import Broker
from tests.shared.waiting import wait_until
from tests.sql.sql_servers import RunningServer, running_server

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CLICKS = (
    "CREATE STREAM clicks (user STRING KEY, page STRING, ms BIGINT)"
    " WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON', PARTITIONS=1);"
)
SLOW = "CREATE STREAM slow AS SELECT user, ms FROM clicks WHERE ms > 4 EMIT CHANGES;"
SLOWER = "CREATE OR REPLACE STREAM slow AS SELECT user, ms FROM clicks WHERE ms > 6 EMIT CHANGES;"


def rows(server: RunningServer) -> list[Any]:
    answer = server.http.post("/query-stream", json={"sql": "SELECT user, ms FROM slow;"})
    return [each for each in answer.text.splitlines() if each.startswith("[")]


def groups(broker: Broker) -> set[str]:
    async def found() -> set[str]:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            return {each.group_id for each in await Groups(cluster).list()}

    return asyncio.run(found())


@pytest.mark.timeout(1200)
def test_a_query_on_spark(broker: Broker, tmp_path: Path) -> None:
    processes = QueryProcesses(broker.bootstrap_servers, tmp_path, ["--master", "local[1]"])
    with running_server(ServerOptions(broker.bootstrap_servers, runner=processes)) as server:
        server.http.timeout = 600
        server.ksql(CLICKS)
        server.ksql("INSERT INTO clicks VALUES ('ann', '/a', 3), ('bob', '/b', 5), ('eve', '/c', 9);")
        broker.produce("clicks", b"this is no JSON", key=b"joe")
        (made,) = server.ksql(SLOW)
        query_id = made["commandStatus"]["queryId"]
        try:
            wait_until(lambda: rows(server) == ['["bob",5]', '["eve",9]'], "rows of the query", seconds=200)
            assert server.ksql("SHOW QUERIES;")[0]["queries"][0]["state"] == "RUNNING"
            server.ksql(SLOWER)
            server.ksql("INSERT INTO clicks VALUES ('ann', '/a', 5), ('bob', '/b', 7);")
            # It goes on where the old one ended: nothing is given twice.
            wait_until(
                lambda: rows(server) == ['["bob",5]', '["eve",9]', '["bob",7]'],
                "rows of the query",
                seconds=200,
            )
        finally:
            server.ksql(f"TERMINATE {query_id};")
    assert {each for each in broker.topics() if not each.startswith("_")} == {"clicks", "SLOW"}
    assert query_id not in groups(broker)
    assert [each for each in tmp_path.rglob("*") if query_id in each.name] == []
    broker.reset()
