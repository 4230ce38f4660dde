"""v2's consumer instances over HTTP: subscriptions, assignments, records, positions, committed offsets."""

import json
import threading

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.rest.consumers.reader import Reader
from moldau.web.limits import Limits
from tests.shared.waiting import wait_until

V2 = "application/vnd.kafka.v2+json"
JSON = "application/vnd.kafka.json.v2+json"
BINARY = "application/vnd.kafka.binary.v2+json"


def fill(broker, topic="t", count=3, partition=0):
    for number in range(count):
        broker.produce(topic, json.dumps(number), partition=partition)


def values(records):
    return [each["value"] for each in records]


def places(path, *partitions):
    return {path: [{"topic": "t", "partition": number} for number in partitions]}


def committed(http, path, *partitions):
    answer = http.request("GET", f"{path}/offsets", json=places("partitions", *(partitions or (0,))))
    assert answer.status_code == 200, answer.text
    return {each["partition"]: each["offset"] for each in answer.json()["offsets"]}


def test_the_way_of_a_consumer(broker, http, consumer, read, refusal):
    fill(broker)
    made = http.post("/consumers/g", json={"name": "mine", "format": "json", "auto.offset.reset": "earliest"})
    assert made.headers["content-type"] == V2
    assert made.json() == {
        "instance_id": "mine",
        "base_uri": f"{http.base_url}/consumers/g/instances/mine",
    }
    path = "/consumers/g/instances/mine"
    assert refusal(http.post("/consumers/g", json={"name": "mine"})) == (409, 40902)
    assert "moldau_rest_consumers_instances 1\n" in http.get("/metrics").text
    assert http.post(f"{path}/subscription", json={"topics": ["t"]}).status_code == 204
    assert http.get(f"{path}/subscription").json() == {"topics": ["t"]}
    found = read(http, path, 3)
    assert found[0] == {"topic": "t", "key": None, "value": 0, "partition": 0, "offset": 0}
    assert values(found) == [0, 1, 2]
    assert http.get(f"{path}/assignments").json() == {"partitions": [{"topic": "t", "partition": 0}]}
    assert http.post(f"{path}/offsets").status_code == 204
    assert committed(http, path) == {0: 3}
    offsets = [{"topic": "t", "partition": 0, "offset": 0, "metadata": "half"}]
    assert http.post(f"{path}/offsets", json={"offsets": offsets}).status_code == 204
    assert committed(http, path) == {0: 1}  # the next one after the record that was dealt with
    assert http.delete(f"{path}/subscription").status_code == 204
    assert http.get(f"{path}/subscription").json() == {"topics": []}
    assert http.delete(path).status_code == 204
    assert refusal(http.delete(path)) == (404, 40403)


def test_positions(broker, http, consumer, read):
    fill(broker, count=5)
    path = consumer(format="json")
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    assert len(read(http, path, 5)) == 5
    seek = {"offsets": [{"topic": "t", "partition": 0, "offset": 3}]}
    assert http.post(f"{path}/positions", json=seek).status_code == 204
    assert values(read(http, path, 2)) == [3, 4]
    assert http.post(f"{path}/positions/beginning", json=places("partitions", 0)).status_code == 204
    assert values(read(http, path, 5)) == [0, 1, 2, 3, 4]
    http.post(f"{path}/positions/beginning", json=places("partitions", 0))
    assert http.post(f"{path}/positions/end", json=places("partitions", 0)).status_code == 204
    fill(broker, count=1)
    assert read(http, path, 1)[0]["offset"] == 5


def test_partitions_by_hand(broker, http, consumer, read, refusal):
    broker.create_topic("t", 2)
    fill(broker, partition=0)
    fill(broker, count=2, partition=1)
    path = consumer(format="json")
    assert refusal(http.get(f"{path}/records")) == (409, 40903)
    assert http.post(f"{path}/assignments", json=places("partitions", 1)).status_code == 204
    assert http.get(f"{path}/assignments").json() == places("partitions", 1)
    assert {each["partition"] for each in read(http, path, 2)} == {1}
    assert refusal(http.post(f"{path}/subscription", json={"topics": ["t"]})) == (409, 40903)
    unassigned = {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]}
    assert refusal(http.post(f"{path}/positions", json=unassigned)) == (409, 40903)
    assert http.post(f"{path}/offsets").status_code == 204
    assert committed(http, path, 0, 1) == {1: 2}
    # Another instance of the group goes on where this one has committed.
    http.delete(path)
    again = consumer(format="json")
    http.post(f"{again}/assignments", json=places("partitions", 0, 1))
    assert {each["partition"] for each in read(http, again, 3)} == {0}
    assert refusal(http.post(f"{again}/assignments", json=places("partitions", 9))) == (404, 40402)
    missing = {"partitions": [{"topic": "missing", "partition": 0}]}
    assert refusal(http.post(f"{again}/assignments", json=missing)) == (404, 40401)


def test_the_format_is_that_of_the_instance(broker, http, consumer, read, refusal):
    broker.produce("t", b"\xff\x00", key="k")
    binary, as_json = consumer("a", format="binary"), consumer("b", format="json")
    for path in (binary, as_json):
        http.post(f"{path}/subscription", json={"topics": ["t"]})
    (found,) = read(http, binary, 1)
    assert (found["key"], found["value"]) == ("aw==", "/wA=")
    assert http.get(f"{binary}/records?timeout=1").headers["content-type"] == BINARY
    assert refusal(http.get(f"{binary}/records", headers={"Accept": JSON})) == (406, 40601)
    # What is no JSON stays where it is, until its reader goes on behind it.
    wait_until(lambda: http.get(f"{as_json}/records").status_code == 408)
    refused = http.get(f"{as_json}/records")
    assert refusal(refused) == (408, 40801)
    assert "t-0 at offset 0" in refused.json()["message"]
    http.post(f"{as_json}/positions", json={"offsets": [{"topic": "t", "partition": 0, "offset": 1}]})
    broker.produce("t", "7")
    assert values(read(http, as_json, 1)) == [7]


def test_an_answer_is_as_large_as_it_may_be(broker, http, consumer, read):
    broker.produce("t", json.dumps("x" * 100))
    broker.produce("t", json.dumps("y" * 100))
    path = consumer(format="json")
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    first = wait_until(lambda: http.get(f"{path}/records", params={"max_bytes": 10}).json())
    assert values(first) == ["x" * 100]
    assert values(http.get(f"{path}/records", params={"max_bytes": 10}).json()) == ["y" * 100]
    assert http.get(f"{path}/records", params={"timeout": 0}).json() == []


@pytest.mark.parametrize("max_bytes", [5, 60, 100_000])
def test_small_batches_and_large_ones_are_read_alike(broker, http, consumer, max_bytes):
    """Batches of one record, some with more than a value, and one of many: all of them, once and in order."""
    broker.create_topic("t", 1)
    for number in range(30):
        broker.produce("t", None if number == 10 else json.dumps(number), key='"k"' if number == 20 else None)
    records = [{"value": number} for number in range(30, 60)]
    http.post("/topics/t", headers={"Content-Type": JSON}, json={"records": records})
    path = consumer(format="json")
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    found = []

    def all_are_read():
        found.extend(http.get(f"{path}/records", params={"max_bytes": max_bytes}).json())
        return len(found) >= 60

    wait_until(all_are_read)
    assert [each["offset"] for each in found] == list(range(60))
    assert values(found) == [None if number == 10 else number for number in range(60)]
    assert [each["offset"] for each in found if each["key"] is not None] == [20]


def test_a_pattern_finds_topics(broker, http, consumer, read, refusal):
    fill(broker, "shop-a", 1)
    fill(broker, "other", 1)
    path = consumer(format="json")
    assert http.post(f"{path}/subscription", json={"topic_pattern": "shop-.*"}).status_code == 204
    assert {each["topic"] for each in read(http, path, 1)} == {"shop-a"}
    assert http.get(f"{path}/subscription").json() == {"topics": ["shop-a"]}
    assert refusal(http.post(f"{path}/subscription", json={"topics": ["other"]})) == (409, 40901)


@pytest.mark.slow
def test_members_share_a_topic_and_nobody_waits_for_a_client_that_does_not_poll(broker, http, consumer, read):
    broker.create_topic("t", 3)
    idle, busy = consumer(format="json"), consumer(format="json")
    http.post(f"{idle}/subscription", json={"topics": ["t"]})
    wait_until(lambda: len(http.get(f"{idle}/assignments").json()["partitions"]) == 3)
    http.post(f"{busy}/subscription", json={"topics": ["t"]})
    # The first one is never polled, and gives up a part all the same.
    wait_until(lambda: http.get(f"{busy}/assignments").json()["partitions"])
    wait_until(lambda: len(http.get(f"{idle}/assignments").json()["partitions"]) in (1, 2))
    for partition in (0, 1, 2):
        fill(broker, count=1, partition=partition)
    assert read(http, busy, 1)
    assert read(http, idle, 1)
    # Members of another make are in the same group.
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
    theirs = Consumer({**settings, "partition.assignment.strategy": "range"})
    theirs.subscribe(["t"])
    wait_until(lambda: theirs.poll(0.05) or theirs.assignment() or None)
    theirs.close()


@pytest.mark.slow
def test_what_is_committed_is_seen_by_others(broker, http, consumer, read):
    fill(broker, count=4)
    path = consumer(format="json", **{"auto.commit.enable": "false"})
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    assert len(read(http, path, 4)) == 4
    assert committed(http, path) == {}
    http.post(f"{path}/offsets", json={"offsets": [{"topic": "t", "partition": 0, "offset": 1}]})
    http.delete(path)
    theirs = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    (found,) = theirs.committed([TopicPartition("t", 0)], timeout=60)
    theirs.close()
    assert found.offset == 2


@pytest.mark.slow
def test_a_consumer_that_is_deleted_has_committed(broker, http, consumer, read):
    fill(broker, count=4)
    path = consumer(format="json")
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    assert len(read(http, path, 4)) == 4
    http.delete(path)
    again = consumer(format="json")
    assert committed(http, again) == {0: 4}


def test_an_answer_that_was_lost_is_given_again(broker, http, consumer):
    fill(broker, count=2)
    path = consumer(format="json", redelivery=True)
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    first = wait_until(lambda: (found := http.get(f"{path}/records")).json() and found)
    number = first.headers["x-delivery"]
    again = http.get(f"{path}/records")
    assert (again.json(), again.headers["x-delivery"]) == (first.json(), number)
    fill(broker, count=1)
    following = wait_until(
        lambda: (found := http.get(f"{path}/records", params={"ack": number})).json() and found
    )
    assert values(following.json()) == [0]
    assert following.headers["x-delivery"] != number
    # An old acknowledgement acknowledges nothing.
    assert http.get(f"{path}/records", params={"ack": number}).json() == following.json()
    http.post(f"{path}/offsets")
    assert committed(http, path) == {0: 3}
    assert http.get(f"{path}/records", params={"timeout": 50}).json() == []


def test_what_was_not_acknowledged_is_not_committed(broker, http, consumer):
    fill(broker, count=2)
    path = consumer(format="json", redelivery="true")
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    wait_until(lambda: http.get(f"{path}/records").json())
    http.delete(path)
    assert committed(http, consumer()).get(0, 0) == 0


def events(lines):
    """The data of server-sent events, as they come."""
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def test_records_are_followed(broker, http, consumer, refusal):
    fill(broker, count=2)
    path = consumer(format="json", **{"consumer.request.timeout.ms": 50})
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    with http.stream("GET", f"{path}/records?follow") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = events(answer.iter_lines())
        assert [next(found)["value"] for _ in range(2)] == [0, 1]
        fill(broker, count=1)
        third = next(found)
        assert (third["value"], third["offset"], third["headers"]) == (0, 2, [])
        assert isinstance(third["timestamp"], int)
        assert refusal(http.get(f"{path}/records")) == (409, 40903)
        assert refusal(http.get(f"{path}/records?follow=true")) == (409, 40903)
    # When the client has gone, the instance is free again, and goes on behind what was followed.
    wait_until(lambda: http.get(f"{path}/records").status_code == 200)
    fill(broker, count=1)
    assert wait_until(lambda: http.get(f"{path}/records").json())[0]["offset"] == 3


def test_what_fails_ends_a_stream_of_events(broker, http, consumer):
    broker.produce("t", "no JSON")
    path = consumer(format="json", **{"consumer.request.timeout.ms": 50})
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    with http.stream("GET", f"{path}/records?follow") as answer:
        (told,) = events(answer.iter_lines())
    assert told["error_code"] == 40801


def test_a_stop_lets_followers_go(broker, start):
    broker.produce("t", "1")
    with start() as proxy:
        settings = {"name": "c", "format": "json", "auto.offset.reset": "earliest"}
        proxy.http.post("/consumers/g", json={**settings, "consumer.request.timeout.ms": 50})
        path = "/consumers/g/instances/c"
        proxy.http.post(f"{path}/subscription", json={"topics": ["t"]})
        with proxy.http.stream("GET", f"{path}/records?follow") as answer:
            lines = answer.iter_lines()
            while not next(lines).startswith("data: "):
                pass
            proxy.service.stopping = True
            assert not [line for line in lines if line.startswith("event: error")]
        wait_until(lambda: proxy.service.followers == 0)


def test_a_long_poll_ends_when_records_come(broker, http, consumer):
    broker.create_topic("t")
    path = consumer(format="json")
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    wait_until(lambda: http.get(f"{path}/assignments").json()["partitions"])
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(http.get(f"{path}/records", params={"timeout": 60_000}))
    )
    asking.start()
    fill(broker, count=1)
    asking.join(60)
    assert values(answers[0].json()) == [0]


def test_long_polls_leave_room_for_other_requests(broker, start):
    limits = Limits(max_concurrent_requests=1)
    with start(limits=limits, proxy={"max_consumers": 1}) as proxy:
        proxy.http.post("/consumers/g", json={"name": "c", "auto.offset.reset": "earliest"})
        path = "/consumers/g/instances/c"
        proxy.http.post(f"{path}/subscription", json={"topics": ["t"]})
        broker.create_topic("t", 1)
        poll = f"{proxy.url}{path}/records?timeout=60000"
        asking = threading.Thread(target=httpx.get, args=(poll,), kwargs={"timeout": 120})
        asking.start()
        (instance,) = proxy.service.consumers._instances.values()
        wait_until(lambda: instance.busy)
        assert proxy.http.get("/topics").json() == ["t"]
        fill(broker, count=1)
        asking.join(60)
        assert not asking.is_alive()


@pytest.mark.parametrize(
    ("body", "status", "error_code"),
    [
        ({"format": "xml"}, 422, 42204),
        ({"auto.offset.reset": "middle"}, 422, 42204),
        ({"auto.commit.enable": "perhaps"}, 422, 42204),
        ({"fetch.min.bytes": "many"}, 422, 42204),
        ({"consumer.request.timeout.ms": 10**9}, 422, 42204),
        ({"name": 7}, 422, 42204),
        ({"colour": "red"}, 422, 422),
        ([], 400, 400),
    ],
)
def test_settings_that_are_refused(http, refusal, body, status, error_code):
    assert refusal(http.post("/consumers/g", json=body)) == (status, error_code)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error_code"),
    [
        ("POST", "subscription", {}, 422, 422),
        ("POST", "subscription", {"topics": []}, 422, 422),
        ("POST", "subscription", {"topics": [1]}, 422, 422),
        ("POST", "subscription", {"topics": ["t"], "topic_pattern": "t"}, 409, 40903),
        ("POST", "subscription", {"topic_pattern": "("}, 422, 422),
        ("POST", "assignments", {"partitions": [{"topic": "t"}]}, 422, 422),
        ("POST", "assignments", {"partitions": [{"topic": "t", "partition": -1}]}, 422, 422),
        ("POST", "positions", {"offsets": [{"topic": "t", "partition": 0, "offset": -1}]}, 422, 422),
        ("POST", "positions", {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]}, 409, 40903),
        ("POST", "offsets", {"offsets": [{"topic": "t", "partition": 0}]}, 422, 422),
        ("POST", "offsets", {"offsets": [{"topic": "t", "partition": 0, "offset": 2**63 - 1}]}, 422, 422),
        ("POST", "offsets", {"offsets": [{"topic": "missing", "partition": 0, "offset": 0}]}, 404, 40401),
        ("GET", "records?timeout=soon", None, 400, 400),
        ("GET", "records?timeout=-1", None, 400, 40001),
        ("GET", "offsets", {}, 422, 422),
    ],
)
def test_requests_that_are_refused(http, consumer, refusal, method, path, body, status, error_code):
    instance = consumer()
    assert refusal(http.request(method, f"{instance}/{path}", json=body)) == (status, error_code)
    missing = http.request(method, f"/consumers/g/instances/nobody/{path}", json=body)
    assert refusal(missing) == (404, 40403)


def test_names_that_are_no_unicode_are_refused(http, consumer, refusal):
    body = b'{"partitions": [{"topic": "\\ud800", "partition": 0}]}'
    assert refusal(http.post(f"{consumer()}/assignments", content=body)) == (422, 422)
    assert refusal(http.post("/consumers/g", content=b'{"name": "\\udfff"}')) == (422, 422)


@pytest.mark.slow
def test_an_instance_that_cannot_commit_leaves_its_group(broker, http, consumer, read, monkeypatch):
    fill(broker)
    path = consumer(format="json")
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    assert len(read(http, path, 3)) == 3

    async def refused(*arguments):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the disk is gone")

    monkeypatch.setattr(Reader, "commit", refused)
    assert http.delete(path).status_code == 204
    cluster = http.get("/v3/clusters").json()["data"][0]["cluster_id"]
    assert http.get(f"/v3/clusters/{cluster}/consumer-groups/g/consumers").json()["data"] == []


def test_an_instance_that_is_not_used_ends(start, refusal):
    with start(proxy={"consumer_idle_timeout_ms": 20}) as proxy:
        proxy.http.post("/consumers/g", json={"name": "c"})
        wait_until(lambda: len(proxy.service.consumers) == 0)
        assert refusal(proxy.http.get("/consumers/g/instances/c/assignments")) == (404, 40403)


def test_there_are_never_too_many_instances(start, refusal):
    with start(proxy={"max_consumers": 1}) as proxy:
        assert proxy.http.post("/consumers/g", json={}).status_code == 200
        assert refusal(proxy.http.post("/consumers/g", json={})) == (503, 503)
