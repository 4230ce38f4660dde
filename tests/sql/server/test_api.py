"""ksqlDB's paths on a real server: what requests make, what their answers look like, what is refused."""

import json
from typing import Any

import httpx
import pytest

from moldau.sql.server.server import ServerOptions
from moldau.testing import Broker
from tests.sql.sql_servers import NotedQueries, RunningServer, running_server

pytestmark = pytest.mark.slow

CLICKS = (
    "CREATE STREAM clicks (user STRING KEY, page STRING, ms BIGINT)"
    " WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON', PARTITIONS=2);"
)
ROWS = "INSERT INTO clicks (ROWTIME, user, page, ms) VALUES (1000, 'ann', '/a', 5), (2000, 'bob', '/b', 7);"
COUNTS = "CREATE TABLE counts AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page EMIT CHANGES;"
EARLIEST = {"ksql.streams.auto.offset.reset": "earliest"}


def lines(server: RunningServer, sql: str, most: int, **headers: str) -> list[Any]:
    """The first lines of /query-stream; then the client leaves."""
    body = {"sql": sql, "properties": {"auto.offset.reset": "earliest"}}
    found: list[Any] = []
    with server.http.stream("POST", "/query-stream", json=body, headers=headers) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line:
                found.append(json.loads(line))
            if len(found) == most:
                break
    return found


def test_statements_and_their_entities(server: RunningServer, queries: NotedQueries) -> None:
    (made,) = server.ksql(CLICKS)
    assert made == {
        "@type": "currentStatus",
        "statementText": CLICKS,
        "commandId": "stream/`CLICKS`/create",
        "commandStatus": {"status": "SUCCESS", "message": "Stream CLICKS created", "queryId": None},
        "commandSequenceNumber": 0,
        "warnings": [],
    }
    assert server.ksql(ROWS) == []
    (counted,) = server.ksql(COUNTS, commandSequenceNumber=0)
    assert counted["commandStatus"]["queryId"] == "CTAS_COUNTS_2"
    assert list(queries.programs) == ["CTAS_COUNTS_2"]
    streams, tables, shown, topics, functions, properties = server.ksql(
        "SHOW STREAMS; LIST TABLES; SHOW QUERIES; SHOW TOPICS; SHOW FUNCTIONS; SHOW PROPERTIES;"
    )
    assert streams["streams"] == [
        {"type": "STREAM", "name": "CLICKS", "topic": "clicks", "keyFormat": "KAFKA", "valueFormat": "JSON",
         "isWindowed": False}
    ]  # fmt: skip
    assert [each["name"] for each in tables["tables"]] == ["COUNTS"]
    (query,) = shown["queries"]
    assert (query["id"], query["state"], query["sinkKafkaTopics"]) == ("CTAS_COUNTS_2", "RUNNING", ["COUNTS"])
    assert {"name": "clicks", "replicaInfo": [1, 1]} in topics["topics"]
    assert {"name": "COUNT", "type": "AGGREGATE", "category": ""} in functions["functions"]
    assert properties["properties"][0]["name"] == "auto.offset.reset"


def test_descriptions(server: RunningServer) -> None:
    server.ksql(CLICKS + COUNTS)
    described, explained, planned = server.ksql(
        "DESCRIBE clicks EXTENDED; EXPLAIN CTAS_COUNTS_2; EXPLAIN SELECT page FROM clicks EMIT CHANGES;"
    )
    source = described["sourceDescription"]
    assert source["fields"][0] == {
        "name": "USER",
        "schema": {"type": "STRING", "fields": None, "memberSchema": None},
        "type": "KEY",
    }
    assert [each["id"] for each in source["readQueries"]] == ["CTAS_COUNTS_2"]
    assert (source["partitions"], source["replication"], source["extended"]) == (2, 1, True)
    query = explained["queryDescription"]
    assert (query["sources"], query["sinks"]) == (["CLICKS"], ["COUNTS"])
    assert "KSTREAM-AGGREGATE" in query["topology"]
    assert planned["queryDescription"]["fields"][0]["name"] == "PAGE"


def test_queries_are_paused_replaced_and_ended(server: RunningServer, queries: NotedQueries) -> None:
    server.ksql(CLICKS + ROWS)
    server.ksql("CREATE STREAM slow AS SELECT user, page FROM clicks WHERE ms > 4 EMIT CHANGES;")
    better = "CREATE OR REPLACE STREAM slow AS SELECT user, page FROM clicks WHERE ms > 6 EMIT CHANGES;"
    (shown,) = server.ksql(f"EXPLAIN {better}")
    assert "~ WHERE: ms > 4 becomes ms > 6" in shown["message"]
    assert "over the last 2 records: 1 rows are the same, 1 only the old query gives" in shown["message"]
    (replaced,) = server.ksql(better)
    assert replaced["commandStatus"]["queryId"] == "CSAS_SLOW_2"
    assert "ms > 6" in queries.programs["CSAS_SLOW_2"]
    (paused,) = server.ksql("PAUSE CSAS_SLOW_2;")
    assert (paused["@type"], queries.programs) == ("pause_query", {})
    server.ksql("RESUME CSAS_SLOW_2;")
    assert list(queries.programs) == ["CSAS_SLOW_2"]
    ended, dropped = server.ksql("TERMINATE CSAS_SLOW_2; DROP STREAM slow DELETE TOPIC;")
    assert ended["commandId"] == "terminate/CSAS_SLOW_2/execute"
    assert dropped["commandId"] == "stream/`SLOW`/drop"
    statuses = server.http.get("/status").json()["commandStatuses"]
    assert statuses["stream/`SLOW`/drop"] == "SUCCESS"
    assert server.http.get("/status/stream/SLOW/create").json()["status"] == "SUCCESS"
    assert server.http.get("/status/stream/NONE/create").status_code == 404


def test_pull_queries(server: RunningServer) -> None:
    server.ksql(CLICKS + ROWS)
    sql = "SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;"
    body = {"ksql": sql, "streamsProperties": EARLIEST}
    head, one, two = server.http.post("/query", json=body).json()
    assert head["header"]["schema"] == "`PAGE` STRING, `N` BIGINT"
    assert [one, two] == [{"row": {"columns": ["/a", 1]}}, {"row": {"columns": ["/b", 1]}}]
    found = lines(server, sql, 9)
    assert found[0]["columnTypes"] == ["STRING", "BIGINT"]
    assert found[1:] == [["/a", 1], ["/b", 1]]
    array = server.http.post("/query-stream", json={"sql": sql}, headers={"Accept": "application/json"})
    assert array.json()[1:] == [["/a", 1], ["/b", 1]]


def test_push_queries(server: RunningServer) -> None:
    server.ksql(CLICKS + ROWS)
    limited = {"ksql": "SELECT user FROM clicks EMIT CHANGES LIMIT 2;", "streamsProperties": EARLIEST}
    answer = server.http.post("/query", json=limited)
    assert answer.headers["content-type"] == "application/vnd.ksql.v1+json"
    assert answer.headers["transfer-encoding"] == "chunked"
    head, *rows, last = answer.json()
    assert head["header"]["queryId"].startswith("transient_CLICKS_")
    assert {each["row"]["columns"][0] for each in rows} == {"ann", "bob"}
    assert last == {"finalMessage": "Limit Reached"}
    printed = server.http.post("/query", json={"ksql": "PRINT 'clicks' FROM BEGINNING LIMIT 2;"}).text
    assert 'key: ann, value: {"PAGE":"/a","MS":5}' in printed


def test_a_push_query_is_closed_from_outside(server: RunningServer) -> None:
    server.ksql(CLICKS)
    body = {"sql": "SELECT user FROM clicks EMIT CHANGES;"}
    with server.http.stream("POST", "/query-stream", json=body) as answer:
        parts = (line for line in answer.iter_lines() if line)
        head = json.loads(next(parts))
        with httpx.Client(base_url=server.url, trust_env=False) as other:
            closed = other.post("/close-query", json={"queryId": head["queryId"]})
            assert closed.status_code == 200
        assert list(parts) == []
    assert server.http.post("/close-query", json={"queryId": head["queryId"]}).status_code == 400


def test_rows_are_inserted_by_lines(server: RunningServer) -> None:
    server.ksql(CLICKS)
    rows = [{"target": "clicks"}, {"user": "ann", "page": "/a", "ms": 1}, {"USER": "bob", "ms": "x"}, {}]
    text = "\n".join(map(json.dumps, rows))
    answer = server.http.post(
        "/inserts-stream", content=text, headers={"Content-Type": "application/vnd.ksqlapi.delimited.v1"}
    )
    first, second = (json.loads(line) for line in answer.text.splitlines())
    assert first == {"status": "ok", "seq": 0}
    assert (second["status"], second["seq"]) == ("error", 1)
    assert lines(server, "SELECT * FROM clicks;", 9)[1:] == [["ann", "/a", 1]]


def test_what_the_server_is(server: RunningServer, broker: Broker) -> None:
    info = server.http.get("/info").json()["KsqlServerInfo"]
    assert (info["ksqlServiceId"], info["serverStatus"]) == ("default_", "RUNNING")
    assert info["kafkaClusterId"]
    assert server.http.get("/healthcheck").json()["isHealthy"] is True
    (host,) = server.http.get("/clusterStatus").json()["clusterStatus"].values()
    assert host["hostAlive"] is True
    paths = server.http.get("/openapi.json").json()["paths"]
    assert {"/ksql", "/query", "/query-stream", "/info", "/healthcheck"} <= set(paths)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/ksql", {"ksql": "SELECT * FROM clicks;"}, 400, 40002),
        ("/ksql", {"ksql": "SHOW STREAMS; SHOW NOTHING;"}, 400, 40001),
        ("/ksql", {"ksql": ""}, 400, 40001),
        ("/ksql", {}, 400, 40000),
        ("/ksql", {"ksql": "SHOW STREAMS;", "commandSequenceNumber": 99}, 503, 50300),
        ("/query", {"ksql": "SELECT * FROM nothing;"}, 400, 40001),
        ("/query", {"ksql": "SHOW STREAMS;"}, 400, 40001),
        ("/query-stream", {"sql": "SELECT 1 FROM;"}, 400, 40001),
        ("/query-stream", {"sql": "PRINT 'clicks';"}, 400, 40001),
        ("/nothing", {}, 404, 40400),
    ],
)
def test_what_is_refused(
    server: RunningServer, path: str, body: dict[str, Any], status: int, code: int
) -> None:
    answer = server.http.post(path, json=body)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)


def test_statements_before_the_one_that_fails_are_answered(server: RunningServer) -> None:
    answer = server.http.post("/ksql", json={"ksql": f"{CLICKS} SHOW STREAMS; DROP STREAM nope;"}).json()
    assert answer["@type"] == "statement_error"
    assert [each["@type"] for each in answer["entities"]] == ["currentStatus", "streams"]
    assert server.ksql("SHOW STREAMS;")[0]["streams"][0]["name"] == "CLICKS"


def test_pages_of_a_browser_are_refused(server: RunningServer) -> None:
    headers = {"Origin": "http://example.com", "Content-Type": "application/x-www-form-urlencoded"}
    body = json.dumps({"ksql": "SHOW STREAMS;"})
    assert server.http.post("/ksql", content=body, headers=headers).status_code == 403
    del headers["Origin"]
    assert server.http.post("/ksql", content=body, headers=headers).status_code == 200


def test_logins_and_limits(broker: Broker) -> None:
    from moldau.web.limits import Limits

    options = ServerOptions(
        broker.bootstrap_servers, users={"ann": "secret"}, limits=Limits(max_body_bytes=100)
    )
    with running_server(options) as server:
        assert server.http.get("/info").status_code == 401
        assert server.http.get("/info", auth=("ann", "secret")).status_code == 200
        large = {"ksql": "x" * 200}
        assert server.http.post("/ksql", json=large, auth=("ann", "secret")).status_code == 413
