"""Documents in a real OpenSearch or Elasticsearch, whose address ``MOLDAU_OPENSEARCH_URL`` names."""

import http.client
import json
import os
import uuid
from typing import Any
from urllib.parse import urlsplit

import pytest

from moldau.connect.connector import SinkTaskContext
from moldau.connect.connectors.http.opensearch import OpenSearchSink
from moldau.connect.errors import ConfigException, RetriableException
from moldau.connect.records import SinkRecord
from moldau.testing.connect import write

URL = os.environ.get("MOLDAU_OPENSEARCH_URL", "")


def call(method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection(urlsplit(URL).netloc, timeout=60)
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"Content-Type": "application/json"})
    found = json.load(connection.getresponse())
    connection.close()
    return found


def record(topic: str, offset: int, key: object, value: object) -> SinkRecord:
    return SinkRecord(topic=topic, partition=0, offset=offset, key=key, value=value)


@pytest.mark.skipif(not URL, reason="needs a server: MOLDAU_OPENSEARCH_URL=http://127.0.0.1:9200")
def test_documents_by_key_and_version() -> None:
    topic = f"Logs-{uuid.uuid4().hex[:8]}"
    index = topic.lower()
    call("PUT", f"/{index}", {"mappings": {"properties": {"n": {"type": "integer"}}}})
    reported: list[int] = []

    def put(*records: SinkRecord, **more: str) -> None:
        settings = {name.replace("_", "."): value for name, value in more.items()}
        made = OpenSearchSink({"topics": topic, "connection.url": URL, **settings})
        task = made.make_task()
        context = SinkTaskContext("o", 0, report=lambda record, error: reported.append(record.offset))
        task.start(made.task_settings(1)[0], context)
        task.put(records)
        task.stop()

    values = [
        ("a", {"n": 1}),
        ("b", {"n": "text"}),
        ("a", {"n": 3}),
        ("c", {"n": 4}),
        ("c", None),
        ("d", "{}"),
    ]
    batch = [record(topic, offset, key, value) for offset, (key, value) in enumerate(values)]
    for _ in range(2):  # the same batch again changes nothing
        put(*batch, record(topic, 6, "e", "no object"), behavior_on_null_values="delete")
    put(batch[0])  # one that comes late neither
    put(record(topic, 9, None, {"n": 9}), key_ignore="true")
    call("POST", f"/{index}/_refresh")
    hits = call("GET", f"/{index}/_search?size=50")["hits"]["hits"]
    found = {hit["_id"]: hit["_source"].get("n") for hit in hits}
    assert found == {"a": 3, "d": None, f"{topic}+0+9": 9}
    assert sorted(reported) == [1, 1, 6, 6]


def test_a_cluster_that_is_away() -> None:
    given = {"connection.url": "http://127.0.0.1:1,http://127.0.0.1:2"}
    with pytest.raises(RetriableException, match="cannot be reached"):
        write(OpenSearchSink, given, [record("t", 0, "a", {})])
    with pytest.raises(ConfigException):
        write(OpenSearchSink, {"connection.url": "file:///etc"}, [])
