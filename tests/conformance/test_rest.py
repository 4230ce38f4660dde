"""The REST proxy, with a schema registry, in front of a real Apache Kafka 4.3: formats, groups, admin."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, DeserializingConsumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

from benchmarks.apache_kafka import ApacheKafka

pytestmark = pytest.mark.timeout(300)

PATIENCE_SECONDS = 120
AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
JSON_SCHEMA = (
    '{"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'
)
PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; }'
#: A value in each format, with the schema that it has.
VALUES: dict[str, tuple[Any, str | None]] = {
    "binary": (base64.b64encode(b"\x00\xff").decode(), None),
    "json": ({"id": 1, "name": "Ünï"}, None),
    "avro": ({"id": 7}, AVRO),
    "jsonschema": ({"id": 7}, JSON_SCHEMA),
    "protobuf": ({"id": "7"}, PROTOBUF),
}


@contextmanager
def service(*arguments: str) -> Iterator[str]:
    """One of Moldau's services as a process; its URL."""
    command = [sys.executable, "-m", "moldau", *arguments, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()


@pytest.fixture(scope="module")
def authorized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """A node that has ACLs; without a login everybody is ANONYMOUS, who may do anything."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
    }
    with ApacheKafka(tmp_path_factory.mktemp("authorized"), settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def registry(authorized: ApacheKafka) -> Iterator[str]:
    with service("registry", "-b", authorized.bootstrap_servers) as url:
        yield url


@pytest.fixture(scope="module")
def http(authorized: ApacheKafka, registry: str) -> Iterator[httpx.Client]:
    with (
        service("rest", "-b", authorized.bootstrap_servers, "--registry-url", registry) as url,
        httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, trust_env=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def cluster(http: httpx.Client) -> str:
    (found,) = http.get("/v3/clusters").json()["data"]
    return f"/v3/clusters/{found['cluster_id']}"


def ok(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def media(form: str) -> dict[str, str]:
    return {"Content-Type": f"application/vnd.kafka.{form}.v2+json"}


def read(http: httpx.Client, path: str, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += ok(http.get(f"{path}/records", params={"timeout": 2000}))
    return found


def instance(http: httpx.Client, group: str, topic: str, **settings: Any) -> str:
    made = ok(http.post(f"/consumers/{group}", json={"auto.offset.reset": "earliest", **settings}))
    path = f"/consumers/{group}/instances/{made['instance_id']}"
    ok(http.post(f"{path}/subscription", json={"topics": [topic]}), 204)
    return path


@pytest.mark.parametrize("form", list(VALUES))
@pytest.mark.check(
    "moldau rest on Apache Kafka 4.3.0", "v2 and v3: records of every format, produced and read"
)
def test_formats(http: httpx.Client, cluster: str, form: str) -> None:
    value, schema = VALUES[form]
    topic = f"rest-{form}"
    ok(http.post(f"{cluster}/topics", json={"topic_name": topic, "partitions_count": 2}), 201)
    body: dict[str, Any] = {"records": [{"value": value}] * 20}
    if schema is not None:
        body["value_schema"] = schema
    made = ok(http.post(f"/topics/{topic}", json=body, headers=media(form)))
    assert all(each["error_code"] is None for each in made["offsets"])
    data: dict[str, Any] = {"type": form.upper(), "data": value}
    if schema is not None:
        data["schema_id"] = made["value_schema_id"]
    lines = "".join(json.dumps({"partition_id": 1, "value": data}) for _ in range(3))
    answer = http.post(f"{cluster}/topics/{topic}/records", content=lines)
    reports = [json.loads(line) for line in answer.text.splitlines()]
    assert [each["error_code"] for each in reports] == [200] * 3, answer.text
    path = instance(http, f"readers-{form}", topic, format=form)
    assert [each["value"] for each in read(http, path, 23)] == [value] * 23
    ok(http.delete(path), 204)


@pytest.mark.check("moldau rest on Apache Kafka 4.3.0", "what it wrote is read by Confluent's client")
def test_a_kafka_client_reads_it(http: httpx.Client, authorized: ApacheKafka, registry: str) -> None:
    keyed = {"key_schema": '"string"', "value_schema": AVRO, "records": [{"key": "k", "value": {"id": 9}}]}
    ok(http.post("/topics/rest-client", json=keyed, headers=media("avro")))
    client = SchemaRegistryClient({"url": registry})
    consumer = DeserializingConsumer(
        {
            "bootstrap.servers": authorized.bootstrap_servers,
            "group.id": "theirs",
            "auto.offset.reset": "earliest",
            "key.deserializer": AvroDeserializer(client),
            "value.deserializer": AvroDeserializer(client),
        }
    )
    consumer.subscribe(["rest-client"])
    message = consumer.poll(PATIENCE_SECONDS)
    assert message is not None
    assert (message.key(), message.value()) == ("k", {"id": 9})
    consumer.close()


@pytest.mark.check(
    "moldau rest on Apache Kafka 4.3.0", "groups: members share, commits, lags, a Kafka client beside"
)
def test_groups(http: httpx.Client, cluster: str, authorized: ApacheKafka) -> None:
    ok(http.post(f"{cluster}/topics", json={"topic_name": "shared", "partitions_count": 4}), 201)
    body = {"records": [{"value": n, "partition": n % 4} for n in range(40)]}
    ok(http.post("/topics/shared", json=body, headers=media("json")))
    one = instance(http, "sharers", "shared", format="json", **{"auto.commit.enable": "false"})
    assert sorted(each["value"] for each in read(http, one, 40)) == list(range(40))
    ok(http.post(f"{one}/offsets"), 204)
    summary = ok(http.get(f"{cluster}/consumer-groups/sharers/lag-summary"))
    assert (summary["max_lag"], summary["total_lag"]) == (0, 0)
    theirs = Consumer({"bootstrap.servers": authorized.bootstrap_servers, "group.id": "sharers"})
    theirs.subscribe(["shared"])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (theirs.assignment() and len(ok(http.get(f"{one}/assignments"))["partitions"]) == 2):
        assert time.monotonic() < deadline
        theirs.poll(0.2)
        http.get(f"{one}/records", params={"timeout": 10})
    assert len(theirs.assignment()) == 2
    described = ok(http.get(f"{cluster}/consumer-groups/sharers/consumers"))
    assert len(described["data"]) == 2
    theirs.close()
    ok(http.delete(one), 204)


@pytest.mark.check("moldau rest on Apache Kafka 4.3.0", "v3: topics, configs, brokers, ACLs, reassignment")
def test_administration(http: httpx.Client, cluster: str) -> None:
    topic = f"{cluster}/topics/administered"
    configs = [{"name": "cleanup.policy", "value": "compact"}]
    made = {"topic_name": "administered", "partitions_count": 1, "configs": configs}
    ok(http.post(f"{cluster}/topics", json=made), 201)
    again = http.post(f"{cluster}/topics", json=made)
    assert (again.status_code, again.json()["error_code"]) == (400, 40002)
    assert ok(http.get(f"{topic}/configs/cleanup.policy"))["value"] == "compact"
    changed = {
        "data": [
            {"name": "retention.ms", "value": "60000"},
            {"name": "cleanup.policy", "operation": "DELETE"},
        ]
    }
    ok(http.post(f"{topic}/configs:alter", json=changed), 204)
    assert ok(http.get(f"{topic}/configs/retention.ms"))["value"] == "60000"
    ok(http.patch(topic, json={"partitions_count": 3}))
    assert len(ok(http.get(f"{topic}/partitions"))["data"]) == 3
    (broker,) = ok(http.get(f"{cluster}/brokers"))["data"]
    assert ok(http.get(f"{cluster}/brokers/{broker['broker_id']}/configs"))["data"]
    moved = http.post(f"{topic}/partitions/0/reassignment", json={"broker_ids": [broker["broker_id"]]})
    assert moved.status_code in (200, 202, 204), moved.text
    refused = http.post(f"{topic}/partitions/0/reassignment", json={"broker_ids": [99]})
    assert refused.status_code == 400, refused.text
    acl = {
        "resource_type": "TOPIC",
        "resource_name": "administered",
        "pattern_type": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
    }
    ok(http.post(f"{cluster}/acls", json=acl), 201)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := ok(http.get(f"{cluster}/acls", params={"principal": "User:alice"}))["data"]):
        assert time.monotonic() < deadline
    assert found[0]["operation"] == "READ"
    ok(http.delete(f"{cluster}/acls", params=acl))
    ok(http.delete(topic), 204)
    missing = http.get(topic)
    assert (missing.status_code, missing.json()["error_code"]) == (404, 40403)


@pytest.mark.check("moldau rest on Apache Kafka 4.3.0", "what Kafka refuses has the proxy's codes")
def test_refusals(http: httpx.Client) -> None:
    missing = http.get("/topics/missing/partitions")
    assert (missing.status_code, missing.json()["error_code"]) == (404, 40401)
    large = {"records": [{"value": base64.b64encode(b"x" * 2_000_000).decode()}]}
    answer = ok(http.post("/topics/rest-binary", json=large, headers=media("binary")))
    assert answer["offsets"][0]["error_code"] == 50002
