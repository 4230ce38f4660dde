"""v3 at a cluster of several brokers: replicas that move, leaders that are elected, and records meanwhile."""

import json

import pytest

from moldau.testing import Cluster
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

JSON = {"Content-Type": "application/vnd.kafka.json.v2+json"}


@pytest.fixture(scope="module")
def brokers():
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.replication.factor": 3}
    with Cluster(3, settings) as cluster:
        yield cluster


@pytest.fixture
def http(brokers, start_at):
    with start_at(brokers.bootstrap_servers) as proxy:
        yield proxy.http


@pytest.fixture
def cluster(http):
    return f"/v3/clusters/{http.get('/v3/clusters').json()['data'][0]['cluster_id']}"


def replicas(http, path):
    found = http.get(f"{path}/replicas").json()["data"]
    return {each["broker_id"] for each in found}, {each["broker_id"] for each in found if each["is_in_sync"]}


def leader(http, path):
    return next(
        each["broker_id"] for each in http.get(f"{path}/replicas").json()["data"] if each["is_leader"]
    )


def make(http, cluster, name, broker_ids):
    assignment = [{"partition_id": 0, "broker_ids": broker_ids}]
    made = http.post(f"{cluster}/topics", json={"topic_name": name, "replicas_assignments": assignment})
    assert made.status_code == 201, made.text
    return f"{cluster}/topics/{name}/partitions/0"


def test_replicas_move(brokers, http, cluster, refusal):
    path = make(http, cluster, "moving", [1, 2])
    for number in range(20):
        answer = http.post("/topics/moving", headers=JSON, json={"records": [{"value": number}]})
        assert answer.json()["offsets"][0]["offset"] == number
    wanted = {1, 2, 3} - {leader(http, path)} | {3}
    moved = http.post(f"{path}/reassignment", json={"broker_ids": sorted(wanted)})
    assert moved.status_code == 204, moved.text
    wait_until(lambda: replicas(http, path) == (wanted, wanted), seconds=60)
    wait_until(lambda: http.get(f"{path}/reassignment").status_code == 404, seconds=60)
    answer = http.post("/topics/moving", headers=JSON, json={"records": [{"value": 20}]})
    assert answer.json()["offsets"][0]["offset"] == 20
    assert refusal(http.post(f"{path}/reassignment", json={"broker_ids": [1, 9]})) == (400, 40002)


def test_a_reassignment_is_seen_and_can_be_cancelled(brokers, http, cluster):
    """To a broker that is away it cannot end, so that there is time to look at it."""
    path = make(http, cluster, "waiting", [1, 2])
    before = replicas(http, path)[0]
    (away,) = {1, 2, 3} - before
    brokers.kill(away)
    try:
        moved = http.post(f"{path}/reassignment", json={"broker_ids": sorted(before | {away})})
        assert moved.status_code == 204, moved.text
        shown = http.get(f"{path}/reassignment")
        assert shown.status_code == 200, shown.text
        assert shown.json()["adding_replicas"] == [away]
        listed = http.get(f"{cluster}/topics/-/partitions/-/reassignments").json()["data"]
        assert [each["topic_name"] for each in listed] == ["waiting"]
        assert http.post(f"{path}/reassignment", json={"broker_ids": None}).status_code == 204
        wait_until(lambda: http.get(f"{path}/reassignment").status_code == 404, seconds=60)
        assert replicas(http, path)[0] == before
    finally:
        brokers.restart(away)


def test_the_preferred_leader_is_elected(brokers, http, cluster):
    path = make(http, cluster, "elected", [1, 2, 3])
    wait_until(lambda: len(replicas(http, path)[1]) == 3, seconds=60)
    preferred = leader(http, path)
    brokers.kill(preferred)
    # A producer goes on meanwhile.
    for number in range(5):
        answer = http.post("/topics/elected", headers=JSON, json={"records": [{"value": number}]})
        assert answer.json()["offsets"][0]["error_code"] is None, answer.text
    assert leader(http, path) != preferred
    brokers.restart(preferred)
    wait_until(lambda: len(replicas(http, path)[1]) == 3, seconds=60)
    body = {"election_type": "PREFERRED", "partitions": [{"topic_name": "elected", "partition_id": 0}]}
    found = http.post(f"{cluster}/leader-elections", json=body)
    assert found.status_code == 200, found.text
    assert json.loads(found.text)["data"][0]["topic_name"] == "elected"
    wait_until(lambda: leader(http, path) == preferred, seconds=60)
