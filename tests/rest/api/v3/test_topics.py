"""v3's topics, partitions, replicas, moves and elections; clusters, brokers and configs with them."""

import pytest

from moldau.client.admin.admin import Admin
from moldau.protocol.errors import ErrorCode, KafkaError


@pytest.fixture
def cluster(http):
    return f"/v3/clusters/{http.get('/v3/clusters').json()['data'][0]['cluster_id']}"


def data(answer, kind):
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["kind"], set(found)) == (kind, {"kind", "metadata", "data"})
    assert set(found["metadata"]) == {"self", "next"}
    return found["data"]


def links(found):
    """Every link that a resource has."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name in ("self", "related"):
                yield value
            else:
                yield from links(value)
    elif isinstance(found, list):
        for each in found:
            yield from links(each)


def test_a_broker_hears_of_a_new_topic_later_than_the_controller(http, cluster, monkeypatch):
    describe, unheard = Admin.describe_topics, [1, 2]

    async def describe_later(self, names=None, **more):
        if names is not None and unheard:
            unheard.pop()
            return {name: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names}
        return await describe(self, names, **more)

    monkeypatch.setattr(Admin, "describe_topics", describe_later)
    assert http.post(f"{cluster}/topics", json={"topic_name": "late"}).status_code == 201
    assert unheard == []


def test_the_way_of_a_topic(http, cluster, refusal):
    wanted = {
        "topic_name": "orders",
        "partitions_count": 2,
        "replication_factor": 1,
        "configs": [{"name": "cleanup.policy", "value": "compact"}],
    }
    dry = http.post(f"{cluster}/topics", json={**wanted, "validate_only": True})
    assert (dry.status_code, dry.json()["partitions_count"]) == (200, 2)
    assert refusal(http.get(f"{cluster}/topics/orders")) == (404, 40403)
    made = http.post(f"{cluster}/topics", json=wanted)
    assert (made.status_code, made.headers["content-type"]) == (201, "application/json")
    topic, name = made.json(), cluster.rpartition("/")[2]
    assert topic == http.get(made.headers["location"]).json()
    where = f"{http.base_url}{cluster}/topics/orders"
    assert topic == {
        "kind": "KafkaTopic",
        "metadata": {"self": where, "resource_name": f"crn:///kafka={name}/topic=orders"},
        "cluster_id": name,
        "topic_name": "orders",
        "is_internal": False,
        "replication_factor": 1,
        "partitions_count": 2,
        "partitions": {"related": f"{where}/partitions"},
        "configs": {"related": f"{where}/configs"},
        "partition_reassignments": {"related": f"{where}/partitions/-/reassignment"},
    }
    again = http.post(f"{cluster}/topics", json=wanted)
    assert refusal(again) == (400, 40002)
    assert again.json()["message"] == "Topic 'orders' already exists."
    assert [each["topic_name"] for each in data(http.get(f"{cluster}/topics"), "KafkaTopicList")] == [
        "orders"
    ]
    asked = http.get(f"{cluster}/topics/orders", params={"include_authorized_operations": "true"}).json()
    assert {"READ", "WRITE", "DESCRIBE"} <= set(asked["authorized_operations"])
    grown = http.patch(f"{cluster}/topics/orders", json={"partitions_count": 3})
    assert grown.json()["partitions_count"] == 3
    assert refusal(http.patch(f"{cluster}/topics/orders", json={"partitions_count": 1})) == (400, 40002)
    assert http.delete(f"{cluster}/topics/orders").status_code == 204
    assert refusal(http.delete(f"{cluster}/topics/orders")) == (404, 40403)


@pytest.mark.slow
def test_every_link_leads_somewhere(broker, http, cluster):
    broker.create_topic("t", 1)
    seen, waiting = set(), [f"{http.base_url}/v3/clusters"]
    while waiting:
        url = waiting.pop()
        if url in seen or "/configs/" in url or "/broker-configs/" in url:
            continue
        seen.add(url)
        answer = http.get(url)
        expected = (200,)
        if url.endswith("/reassignment"):
            expected = (200, 404)  # nothing moves
        elif url.endswith("/acls"):
            expected = (400,)  # this broker has no authorizer
        assert answer.status_code in expected, (url, answer.text)
        waiting += list(links(answer.json()))
    assert len(seen) > 15


def test_partitions_and_replicas(broker, http, cluster, refusal):
    broker.create_topic("t", 2)
    partitions = data(http.get(f"{cluster}/topics/t/partitions"), "KafkaPartitionList")
    assert [each["partition_id"] for each in partitions] == [0, 1]
    assert http.get(f"{cluster}/topics/t/partitions/1").json() == partitions[1]
    (replica,) = data(http.get(f"{cluster}/topics/t/partitions/1/replicas"), "KafkaReplicaList")
    assert (replica["broker_id"], replica["is_leader"], replica["is_in_sync"]) == (1, True, True)
    assert http.get(f"{cluster}/topics/t/partitions/1/replicas/1").json() == replica
    assert http.get(partitions[1]["leader"]["related"]).json() == replica
    assert refusal(http.get(f"{cluster}/topics/t/partitions/1/replicas/7")) == (404, 404)
    assert refusal(http.get(f"{cluster}/topics/t/partitions/7")) == (404, 40403)
    of_broker = data(http.get(f"{cluster}/brokers/1/partition-replicas"), "KafkaReplicaList")
    assert [each for each in of_broker if each["topic_name"] == "t"][1] == replica
    for topic in ("-", "t"):
        for last in ("reassignment", "reassignments"):
            moves = http.get(f"{cluster}/topics/{topic}/partitions/-/{last}")
            assert data(moves, "KafkaReassignmentList") == []
    assert refusal(http.get(f"{cluster}/topics/t/partitions/0/reassignment")) == (404, 404)
    moved = http.post(f"{cluster}/topics/t/partitions/0/reassignment", json={"broker_ids": [1]})
    assert moved.status_code == 204
    assert refusal(http.post(f"{cluster}/topics/t/partitions/0/reassignment", json={"broker_ids": [9]})) == (
        400,
        40002,
    )
    assert refusal(http.post(f"{cluster}/topics/t/partitions/0/reassignment", json={"broker_ids": "1"})) == (
        400,
        400,
    )


def test_elections(broker, http, cluster, refusal):
    broker.create_topic("t", 1)
    wanted = {"partitions": [{"topic_name": "t", "partition_id": 0}, {"topic_name": "u", "partition_id": 0}]}
    found = data(http.post(f"{cluster}/leader-elections", json=wanted), "KafkaLeaderElectionList")
    assert [each["topic_name"] for each in found] == ["t", "u"]
    assert found[1]["error_code"] == 40403
    assert refusal(http.post(f"{cluster}/leader-elections", json={"election_type": "ANY"})) == (400, 400)


def test_clusters_and_brokers(broker, http, cluster, refusal):
    (found,) = data(http.get("/v3/clusters"), "KafkaClusterList")
    assert http.get(cluster).json() == found
    assert http.get(f"/kafka{cluster}").json() == found
    assert found["controller"]["related"] == f"{http.base_url}{cluster}/brokers/1"
    assert refusal(http.get("/v3/clusters/other")) == (404, 404)
    assert refusal(http.get("/v3/clusters/other/topics")) == (404, 404)
    (one,) = data(http.get(f"{cluster}/brokers"), "KafkaBrokerList")
    assert http.get(f"{cluster}/brokers/1").json() == one
    assert f"{one['host']}:{one['port']}" == broker.bootstrap_servers
    assert refusal(http.get(f"{cluster}/brokers/7")) == (404, 404)
    assert refusal(http.get(f"{cluster}/brokers/x")) == (404, 404)


@pytest.mark.slow
def test_configs_of_topics(broker, http, cluster, refusal):
    broker.create_topic("t", 1)
    path = f"{cluster}/topics/t/configs"
    listed = data(http.get(path), "KafkaTopicConfigList")
    (policy,) = [each for each in listed if each["name"] == "cleanup.policy"]
    assert (policy["value"], policy["is_default"], policy["source"]) == ("delete", True, "DEFAULT_CONFIG")
    assert policy["topic_name"] == "t"
    assert http.put(f"{path}/cleanup.policy", json={"value": "compact"}).status_code == 204
    one = http.get(f"{path}/cleanup.policy").json()
    assert (one["value"], one["is_default"], one["source"]) == ("compact", False, "DYNAMIC_TOPIC_CONFIG")
    assert one["synonyms"][0] == {
        "name": "cleanup.policy",
        "value": "compact",
        "source": "DYNAMIC_TOPIC_CONFIG",
    }
    defaults = data(http.get(f"{cluster}/topics/t/default-configs"), "KafkaTopicConfigList")
    assert [each["value"] for each in defaults if each["name"] == "cleanup.policy"] == ["delete"]
    changes = [{"name": "cleanup.policy", "operation": "DELETE"}, {"name": "retention.ms", "value": "1000"}]
    only_checked = {"data": changes, "validate_only": True}
    assert http.post(f"{path}:alter", json=only_checked).status_code == 204
    assert http.get(f"{path}/cleanup.policy").json()["value"] == "compact"
    assert http.post(f"{path}:alter", json={"data": changes}).status_code == 204
    assert http.get(f"{path}/cleanup.policy").json()["value"] == "delete"
    assert http.get(f"{path}/retention.ms").json()["value"] == "1000"
    assert http.delete(f"{path}/retention.ms").status_code == 204
    assert http.get(f"{path}/retention.ms").json()["value"] != "1000"
    assert refusal(http.get(f"{path}/colour")) == (404, 404)
    assert refusal(http.put(f"{path}/colour", json={"value": "red"})) == (400, 40002)
    assert refusal(http.put(f"{path}/retention.ms", json={"value": "soon"})) == (400, 40002)
    assert refusal(http.put(f"{path}/retention.ms", json={"value": 5})) == (400, 400)
    assert refusal(http.post(f"{path}:alter", json={"data": []})) == (400, 400)
    assert refusal(http.post(f"{path}:alter", json={"data": [{"name": "a", "operation": "ADD"}]})) == (
        400,
        400,
    )
    assert refusal(http.get(f"{cluster}/topics/missing/configs")) == (404, 40403)
    everything = data(http.get(f"{cluster}/topics/-/configs"), "KafkaTopicConfigList")
    assert {each["topic_name"] for each in everything} == {"t"}


@pytest.mark.slow
def test_configs_of_brokers_and_the_cluster(http, cluster, refusal):
    for path, kind, field in (
        (f"{cluster}/brokers/1/configs", "KafkaBrokerConfig", ("broker_id", 1)),
        (f"{cluster}/broker-configs", "KafkaClusterConfig", ("config_type", "BROKER")),
    ):
        assert http.put(f"{path}/log.retention.ms", json={"value": "77000"}).status_code == 204
        one = http.get(f"{path}/log.retention.ms").json()
        assert (one["kind"], one["value"], one[field[0]]) == (kind, "77000", field[1])
        assert data(http.get(path), f"{kind}List")
        changes = {"data": [{"name": "log.retention.ms", "operation": "DELETE"}]}
        assert http.post(f"{path}:alter", json=changes).status_code == 204
        assert refusal(http.get(f"{path}/colour")) == (404, 404)
    http.put(f"{cluster}/brokers/1/configs/log.retention.ms", json={"value": "77000"})
    (dynamic,) = data(http.get(f"{cluster}/brokers/-/configs"), "KafkaBrokerConfigList")
    assert dynamic["name"] == "log.retention.ms"
    assert http.delete(f"{cluster}/brokers/1/configs/log.retention.ms").status_code == 204
    assert refusal(http.get(f"{cluster}/brokers/9/configs")) == (404, 404)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"topic_name": 7},
        {"topic_name": "t", "partitions_count": "many"},
        {"topic_name": "t", "replicas_assignments": [{"partition_id": 0, "broker_ids": 1}]},
        {"topic_name": "t", "configs": [{"name": 1}]},
    ],
)
def test_topics_that_are_refused(http, cluster, refusal, body):
    assert refusal(http.post(f"{cluster}/topics", json=body)) == (400, 400)
    assert refusal(http.post(f"{cluster}/topics", json={"topic_name": "a b"})) == (400, 40002)
    assert refusal(http.post(f"{cluster}/topics", content=b'{"topic_name": "\\ud800"}')) == (400, 400)
    assert refusal(http.post(f"{cluster}/topics", json={"topic_name": "x" * 40_000})) == (400, 400)
    assert refusal(http.get(f"{cluster}/topics/{'x' * 40_000}")) == (400, 400)


def test_replicas_that_are_assigned_by_hand(http, cluster):
    wanted = [{"partition_id": number, "broker_ids": [1]} for number in range(2)]
    made = http.post(f"{cluster}/topics", json={"topic_name": "t", "replicas_assignments": wanted})
    assert (made.status_code, made.json()["partitions_count"]) == (201, 2)
