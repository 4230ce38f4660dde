"""v3's consumer groups: consumers, assignments, lags."""

import pytest

from tests.shared.waiting import wait_until


@pytest.fixture
def groups(http):
    return f"/v3/clusters/{http.get('/v3/clusters').json()['data'][0]['cluster_id']}/consumer-groups"


def test_a_group_with_its_consumers(broker, http, consumer, groups, read, refusal):
    broker.create_topic("t", 2)
    for number in range(5):
        broker.produce("t", str(number), partition=number % 2)
    path = consumer("g", format="json")
    http.post(f"{path}/subscription", json={"topics": ["t"]})
    read(http, path, 5)
    http.post(f"{path}/offsets", json={"offsets": [{"topic": "t", "partition": 0, "offset": 0}]})
    http.post(f"{path}/offsets", json={"offsets": [{"topic": "t", "partition": 1, "offset": 1}]})
    (group,) = http.get(groups).json()["data"]
    assert (group["consumer_group_id"], group["state"], group["is_simple"]) == ("g", "STABLE", False)
    assert group["partition_assignor"] == "range"
    assert http.get(f"{groups}/g").json() == group
    (member,) = http.get(f"{groups}/g/consumers").json()["data"]
    one = f"{groups}/g/consumers/{member['consumer_id']}"
    assert http.get(one).json() == member
    assert member["client_id"] == "moldau-rest"
    assignments = http.get(f"{one}/assignments").json()["data"]
    assert [each["partition_id"] for each in assignments] == [0, 1]
    assert http.get(f"{one}/assignments/t/partitions/1").json() == assignments[1]
    lags = http.get(f"{groups}/g/lags").json()["data"]
    assert [(each["current_offset"], each["log_end_offset"], each["lag"]) for each in lags] == [
        (1, 3, 2),
        (2, 2, 0),
    ]
    assert {each["consumer_id"] for each in lags} == {member["consumer_id"]}
    assert http.get(f"{groups}/g/lags/t/partitions/0").json() == lags[0]
    summary = http.get(f"{groups}/g/lag-summary").json()
    assert (summary["max_lag"], summary["total_lag"], summary["max_lag_partition_id"]) == (2, 2, 0)
    assert summary["max_lag_consumer_id"] == member["consumer_id"]
    for missing in ("consumers/x", "consumers/x/assignments", "lags/t/partitions/9", "lags/u/partitions/0"):
        assert refusal(http.get(f"{groups}/g/{missing}"))[0] == 404
    # A group that nobody is in has its lag all the same.
    http.delete(path)
    wait_until(lambda: http.get(f"{groups}/g").json()["state"] == "EMPTY")
    assert {each["consumer_id"] for each in http.get(f"{groups}/g/lags").json()["data"]} == {""}


def test_a_group_that_is_not_there(http, groups, refusal):
    assert http.get(groups).json()["data"] == []
    for path in ("", "/consumers", "/lags", "/lag-summary"):
        assert refusal(http.get(f"{groups}/nobody{path}")) == (404, 404)
