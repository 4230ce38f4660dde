"""v2's topics, partitions, brokers and produced records: paths, fields, codes, media types."""

import asyncio
import base64
import json
import shlex
import subprocess

import httpx
import pytest
from confluent_kafka import Consumer

JSON = {"Content-Type": "application/vnd.kafka.json.v2+json"}
BINARY = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
V2 = "application/vnd.kafka.v2+json"

#: As the books have it; the port is that of the test.
CURL = 'curl -X GET -H "Accept: application/vnd.kafka.v2+json" localhost:8082/topics'
ANSWER = '["__confluent.support.metrics","_confluent-metrics","_schemas","alert"]'


def test_the_call_of_the_book(broker, start):
    for name in json.loads(ANSWER):
        broker.create_topic(name)
    with start() as proxy:
        port = proxy.url.rpartition(":")[2]
        command = shlex.split(CURL.replace("8082", port))
        done = subprocess.run([*command, "-s"], capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == (ANSWER, "")
        other = [part.replace("v2", "v1") for part in command]
        refused = subprocess.run([*other, "-s"], capture_output=True, text=True, timeout=60)
        assert json.loads(refused.stdout)["error_code"] == 406


def test_metadata(broker, http):
    broker.create_topic("orders", 2)
    assert http.get("/").json() == {}
    answer = http.get("/topics")
    assert (answer.json(), answer.headers["content-type"]) == (["orders"], V2)
    topic = http.get("/topics/orders").json()
    replica = {"broker": 1, "leader": True, "in_sync": True}
    partitions = [{"partition": number, "leader": 1, "replicas": [replica]} for number in range(2)]
    assert (topic["name"], topic["partitions"]) == ("orders", partitions)
    assert topic["configs"]["cleanup.policy"] == "delete"
    assert http.get("/topics/orders/partitions").json() == partitions
    assert http.get("/topics/orders/partitions/1").json() == partitions[1]
    assert http.get("/brokers").json() == {"brokers": [1]}
    broker.produce("orders", "v", partition=1)
    offsets = http.get("/topics/orders/partitions/1/offsets").json()
    assert offsets == {"beginning_offset": 0, "end_offset": 1}


@pytest.mark.parametrize(
    ("path", "status", "error_code"),
    [
        ("/topics/missing", 404, 40401),
        ("/topics/missing/partitions", 404, 40401),
        ("/topics/orders/partitions/7", 404, 40402),
        ("/topics/orders/partitions/x", 404, 40402),
        ("/topics/orders/partitions/99999999999999999999", 404, 40402),
        ("/topics/orders/partitions/7/offsets", 404, 40402),
        ("/nowhere", 404, 404),
        ("/topics;v=1", 404, 404),
        ("/topics/orders/", 200, None),
    ],
)
def test_what_is_not_there(broker, http, refusal, path, status, error_code):
    broker.create_topic("orders", 1)
    answer = http.get(path)
    if error_code is None:
        assert answer.status_code == status
    else:
        assert refusal(answer) == (status, error_code)


def test_json_records_reach_a_kafka_client(broker, http):
    broker.create_topic("orders", 3)
    body = {
        "records": [
            {"key": "a", "value": {"name": "Žižka"}, "partition": 2},
            {"value": [1, 2.5, None]},
            {"key": {"k": 1}, "value": None},
        ]
    }
    answer = http.post("/topics/orders", json=body, headers=JSON)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == V2
    made = answer.json()
    assert (made["key_schema_id"], made["value_schema_id"]) == (None, None)
    assert made["offsets"][0] == {"partition": 2, "offset": 0, "error_code": None, "error": None}
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "c",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    found = {message.value(): message.key() for message in consumer.consume(3, timeout=60)}
    consumer.close()
    assert found == {'{"name":"Žižka"}'.encode(): b'"a"', b"[1,2.5,null]": None, None: b'{"k":1}'}


def test_binary_records_are_base64(broker, http):
    broker.create_topic("t", 1)
    data = bytes(range(256))
    records = [{"key": base64.b64encode(b"k").decode(), "value": base64.b64encode(data).decode()}]
    for headers in (BINARY, {"Content-Type": V2}, {"Content-Type": "application/json"}):
        assert (
            http.post("/topics/t/partitions/0", json={"records": records}, headers=headers).status_code == 200
        )
    assert [(each.key, each.value) for each in broker.records("t")] == [(b"k", data)] * 3


def test_a_topic_that_the_broker_makes(http):
    answer = http.post("/topics/fresh", json={"records": [{"value": 1}]}, headers=JSON)
    assert answer.json()["offsets"][0]["offset"] == 0


def test_partitions_that_are_added_are_seen(broker, http):
    broker.create_topic("t", 1)
    one = {"records": [{"value": 1, "partition": 0}]}
    assert http.post("/topics/t", json=one, headers=JSON).json()["offsets"][0]["error_code"] is None
    cluster = http.get("/v3/clusters").json()["data"][0]["cluster_id"]
    assert http.patch(f"/v3/clusters/{cluster}/topics/t", json={"partitions_count": 3}).status_code == 200
    answer = http.post("/topics/t/partitions/2", json={"records": [{"value": 1}]}, headers=JSON)
    assert answer.json()["offsets"][0] == {"partition": 2, "offset": 0, "error_code": None, "error": None}


def test_one_record_that_fails_leaves_the_others(broker, http):
    broker.create_topic("t", 1, {"max.message.bytes": "1000"})
    records = [{"value": "a"}, {"value": "b" * 2000}, {"value": "c", "partition": 9}]
    answers = http.post("/topics/t", json={"records": records}, headers=JSON).json()["offsets"]
    assert [each["error_code"] for each in answers][2] == 40402
    alone = http.post("/topics/t", json={"records": [{"value": "b" * 2000}]}, headers=JSON).json()["offsets"]
    assert alone[0]["error_code"] == 50002
    assert alone[0]["offset"] is None
    assert alone[0]["error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "headers", "status", "error_code"),
    [
        ({"records": []}, JSON, 422, 422),
        ({}, JSON, 422, 422),
        ({"records": [1]}, JSON, 422, 422),
        ({"records": [{"value": 1}], "more": 1}, JSON, 422, 422),
        ({"records": [{"value": 1, "offset": 7}]}, JSON, 422, 422),
        ({"records": [{"value": 1, "partition": -1}]}, JSON, 422, 422),
        ({"records": [{"value": "%"}]}, BINARY, 422, 422),
        ({"records": [{"value": 1}]}, BINARY, 422, 422),
        ({"records": [{"value": 1}]}, {"Content-Type": "text/plain"}, 415, 415),
        ({"records": [{"value": 1}]}, {**JSON, "Accept": "text/html"}, 406, 406),
        ({"records": [{"value": 1}]}, {**JSON, "Content-Encoding": "gzip"}, 415, 415),
    ],
)
def test_bodies_that_are_refused(broker, http, refusal, body, headers, status, error_code):
    broker.create_topic("t", 1)
    assert refusal(http.post("/topics/t", json=body, headers=headers)) == (status, error_code)
    assert broker.records("t") == []


def test_a_partition_that_is_not_there(broker, http, refusal):
    broker.create_topic("t", 1)
    answer = http.post("/topics/t/partitions/9", json={"records": [{"value": 1}]}, headers=JSON)
    assert refusal(answer) == (404, 40402)
    assert refusal(http.get("/topics", headers={"Accept": "application/vnd.kafka.v1+json"})) == (406, 406)
    assert refusal(http.put("/topics")) == (405, 405)


def many(count, **more):
    return [{"value": {"n": n, "at": "12:30"}, **more} for n in range(count)]


@pytest.mark.parametrize("count", [1, 7, 8, 100, 1000])
@pytest.mark.parametrize("more", [{}, {"key": "k"}, {"partition": 1}, {"partition": 9}], ids=str)
def test_many_records_are_answered_like_few(broker, http, count, more):
    """The same records twice: all at once, and with a field that makes the proxy look at each of them."""
    answers, found = [], []
    for topic, extra in (("quick", {}), ("general", {"headers": None})):
        broker.create_topic(topic, 3)
        answer = http.post(f"/topics/{topic}", headers=JSON, json={"records": many(count, **more, **extra)})
        assert answer.status_code == 200
        answers.append(answer.content)
        records = [(partition, each) for partition in range(3) for each in broker.records(topic, partition)]
        found.append([(partition, each.offset, each.key, each.value) for partition, each in records])
    if more:
        assert answers[0] == answers[1]
        assert found[0] == found[1]
    offsets = json.loads(answers[0])["offsets"]
    assert len(offsets) == count
    if "partition" not in more or more["partition"] == 1:
        by_place = {(partition, offset): value for partition, offset, _, value in found[0]}
        shown = [json.loads(by_place[each["partition"], each["offset"]])["n"] for each in offsets]
        assert shown == list(range(count))


@pytest.mark.parametrize("count", [1, 7, 8, 100])
def test_the_partition_of_the_path_is_that_of_every_record(broker, http, count):
    broker.create_topic("t", 3)
    for extra in ({}, {"headers": None}):
        records = many(count, key="k", partition=0, **extra)
        answer = http.post("/topics/t/partitions/2", headers=JSON, json={"records": records}).json()
        assert {each["partition"] for each in answer["offsets"]} == {2}
    written = [(each.key, each.value) for each in broker.records("t", 2)]
    assert len(written) == 2 * count
    assert written[:count] == written[count:]


def test_records_of_many_keys_go_where_their_keys_belong(broker, http):
    broker.create_topic("quick", 4)
    broker.create_topic("general", 4)
    keyed = [{"key": f"k{n % 37}", "value": "x" * (n % 50)} for n in range(500)]
    quick = http.post("/topics/quick", headers=JSON, json={"records": keyed}).json()
    general = http.post(
        "/topics/general", headers=JSON, json={"records": [{**each, "headers": None} for each in keyed]}
    ).json()
    assert quick == general
    assert {each["partition"] for each in quick["offsets"]} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("configs", "refused"),
    [({}, False), ({"max.message.bytes": "2000"}, False), ({"cleanup.policy": "compact"}, True)],
    ids=["usual", "small batches", "keys demanded"],
)
def test_many_requests_at_the_same_time_have_their_own_records(broker, http, configs, refused):
    """Some of them have no keys: where the topic demands them, only these are refused."""
    broker.create_topic("t", 1, configs=configs)

    def records(request):
        key = {} if request % 5 == 0 else {"key": f"k{request}"}
        return [{**key, "value": f"{request}-{n}"} for n in range(20)]

    async def ask():
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=http.base_url, timeout=60, limits=limits, trust_env=False
        ) as client:
            return await asyncio.gather(
                *(client.post("/topics/t", headers=JSON, json={"records": records(n)}) for n in range(60))
            )

    answers = [answer.json()["offsets"] for answer in asyncio.run(ask())]
    written = {each.offset: json.loads(each.value) for each in broker.records("t")}
    told = {}
    for request, offsets in enumerate(answers):
        if refused and request % 5 == 0:
            assert {each["error_code"] for each in offsets} == {50002}, offsets[0]
        else:
            told |= {each["offset"]: f"{request}-{n}" for n, each in enumerate(offsets)}
    assert told == written
    assert len(written) == 20 * (48 if refused else 60)


def test_a_record_larger_than_a_batch_is_taken_among_many(broker, http):
    broker.create_topic("t", 1)
    records = [*many(10), {"value": "x" * 100_000}, *many(10)]
    answer = http.post("/topics/t", headers=JSON, json={"records": records}).json()
    assert [each["offset"] for each in answer["offsets"]] == list(range(21))
    assert len(broker.records("t")[10].value) == 100_002
