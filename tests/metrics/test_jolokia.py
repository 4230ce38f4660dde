"""Jolokia's requests and answers, by GET and by POST."""

from typing import Any

import pytest

from moldau.metrics.jolokia import Jolokia, Steps
from moldau.metrics.mbeans import MBeans
from moldau.metrics.readings import Reading, Sources, one
from moldau.metrics.table import Kind, Metric

URP = Metric("kafka.server", "ReplicaManager", "UnderReplicatedPartitions", "Should be 0")
LEADERS = Metric("kafka.server", "ReplicaManager", "LeaderCount", "Led here")
DIRECTORY = Metric("kafka.log", "LogManager", "LogDirectoryOffline", "Failed", Kind.GAUGE, ("logDirectory",))
NAME = "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions"


@pytest.fixture
def jolokia() -> Jolokia:
    sources = Sources()
    sources.add("kafka.server", "ReplicaManager", lambda: [one(URP, 3), one(LEADERS, 5)])
    sources.add("kafka.log", "LogManager", lambda: [Reading(DIRECTORY, [(("/data/a",), 0)])])
    product = {"product": "moldau", "vendor": "Moldau", "version": "1.0", "agent": "broker-1"}
    return Jolokia(MBeans(sources, 0.0), product)


def whole(steps: Steps) -> Any:
    """The answer, without pauses."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def get(jolokia: Jolokia, path: str, **query: str) -> Any:
    return whole(jolokia.get(path, query, 1.0, 1_700_000_000_999))


def test_read(jolokia: Jolokia) -> None:
    answer = get(jolokia, f"/read/{NAME}")
    assert answer == {
        "request": {"type": "read", "mbean": NAME},
        "value": {"Value": 3},
        "status": 200,
        "timestamp": 1_700_000_000,
    }


def test_read_of_one_attribute_is_its_value(jolokia: Jolokia) -> None:
    assert get(jolokia, f"/read/{NAME}/Value")["value"] == 3


def test_read_of_a_pattern_is_by_name(jolokia: Jolokia) -> None:
    found = get(jolokia, "/read/kafka.server:type=ReplicaManager,*")["value"]
    assert found["kafka.server:name=LeaderCount,type=ReplicaManager"] == {"Value": 5}
    plain = get(jolokia, "/read/kafka.server:type=ReplicaManager,*", canonicalNaming="false")["value"]
    assert plain[NAME] == {"Value": 3}


def test_search(jolokia: Jolokia) -> None:
    assert get(jolokia, "/search/*:*")["value"] == [
        "kafka.server:name=UnderReplicatedPartitions,type=ReplicaManager",
        "kafka.server:name=LeaderCount,type=ReplicaManager",
        'kafka.log:logDirectory="/data/a",name=LogDirectoryOffline,type=LogManager',
    ]


def test_a_slash_inside_a_name_is_escaped(jolokia: Jolokia) -> None:
    path = '/read/kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory="!/data!/a"/Value'
    assert get(jolokia, path)["value"] == 0


def test_list_and_a_part_of_it(jolokia: Jolokia) -> None:
    listed = get(jolokia, "/list")["value"]
    entry = listed["kafka.server"]["name=LeaderCount,type=ReplicaManager"]
    assert entry["attr"]["Value"] == {"rw": False, "type": "java.lang.Object", "desc": "Led here"}
    part = get(jolokia, "/list/kafka.server/name=LeaderCount,type=ReplicaManager/desc")
    assert part["value"] == "Led here"
    assert get(jolokia, "/list/kafka.nothing")["status"] == 404


def test_version(jolokia: Jolokia) -> None:
    for path in ("", "/", "/version"):
        value = get(jolokia, path)["value"]
        assert (value["protocol"], value["info"]["product"]) == ("7.2", "moldau")


def test_many_requests_in_one_post_fail_one_by_one(jolokia: Jolokia) -> None:
    asked = [
        {"type": "read", "mbean": NAME, "attribute": "Value"},
        {"type": "read", "mbean": NAME, "attribute": ["Value"]},
        {"type": "READ", "mbean": NAME, "attribute": "Nothing"},
        {"type": "read", "mbean": "kafka.server:type=Nothing"},
        {"type": "read", "mbean": "nonsense"},
        {"type": "exec", "mbean": NAME},
        {"type": "read"},
        "text",
        {"type": "read", "mbean": NAME, "attribute": 7},
    ]
    answers = whole(jolokia.post(asked, 1.0, 0))
    assert [each["status"] for each in answers] == [200, 200, 404, 404, 400, 400, 400, 400, 400]
    assert answers[0]["value"] == 3
    assert answers[1]["value"] == {"Value": 3}
    assert answers[2]["error_type"] == "javax.management.AttributeNotFoundException"
    assert answers[3]["error_type"] == "javax.management.InstanceNotFoundException"


def test_all_requests_of_a_post_have_one_bound(jolokia: Jolokia, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand patterns for everything would fill the broker's memory."""
    monkeypatch.setattr("moldau.metrics.jolokia._MBEANS_MOST", 5)
    everything = {"type": "read", "mbean": "*:*"}
    answers = whole(jolokia.post([everything, everything, {"type": "list"}], 1.0, 0))
    assert [each["status"] for each in answers] == [200, 400, 400]
    assert "ask for fewer" in answers[1]["error"]


def test_a_post_has_a_bound(jolokia: Jolokia) -> None:
    answer = whole(jolokia.post([{"type": "version"}] * 1001, 1.0, 0))
    assert answer["status"] == 400
