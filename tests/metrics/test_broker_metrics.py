"""The table against what a real broker of Kafka 4.3 shows: MBeans, their kinds, and names in a scrape."""

import json
import re
from pathlib import Path

import pytest

from moldau.metrics import broker_metrics
from moldau.metrics.table import TABLE, Kind, Metric

CAPTURED = json.loads((Path(__file__).parent / "kafka_4_3_metrics.json").read_text())
#: Kafka's, but not on the nodes that were captured: per topic only after such an error, older than 4.3, or
#: with
#: other parts of a quota.
NOT_CAPTURED = {
    "FailedProduceRequestsPerSec",
    "FailedFetchRequestsPerSec",
    "BytesRejectedPerSec",
    "InvalidMessageCrcRecordsPerSec",
    "InvalidOffsetOrSequenceRecordsPerSec",
    "LeaderElectionRateAndTimeMs",
    "byte-rate",
    "request-time",
    "plugin-export-count",
}
#: Nothing of Connect's workers and of registries was captured.
OURS = [metric for metric in TABLE if re.match(r"kafka\.(?!connect|schema)", metric.domain)]


def captured_of(metric: Metric) -> dict[str, object] | None:
    key = [metric.domain, metric.type, metric.name, list(metric.keys)]
    return next((each for each in CAPTURED["mbeans"] if each["key"] == key), None)


@pytest.mark.parametrize("metric", OURS, ids=lambda metric: metric.object_name + metric.attribute)
def test_every_metric_of_kafka_is_kafkas(metric: Metric) -> None:
    captured = captured_of(metric)
    if (metric.name or metric.attribute) in NOT_CAPTURED:
        return
    assert captured is not None, "Kafka has no such MBean"
    kind = {Kind.SHARE: "meter"}.get(metric.kind, metric.kind.value)
    assert captured["kind"] == ("sensor" if metric.name is None else kind)
    if metric.name is None:
        assert metric.attribute in captured["attributes"]  # type: ignore[operator]


def test_names_in_a_scrape_are_those_of_the_jmx_exporter() -> None:
    shown = set(CAPTURED["scrape"])
    types = {(each["key"][0], each["key"][1], each["key"][2]) for each in CAPTURED["broker_named"]}
    for metric in OURS:
        if metric.name is None or metric.name == "ClusterId" or metric.name in NOT_CAPTURED:
            continue
        if (metric.domain, metric.type, metric.name) in types:
            assert metric.prometheus in shown, metric.object_name


def test_every_metric_says_what_it_is_and_no_name_means_two_things() -> None:
    assert broker_metrics.STATE in list(TABLE)
    kinds: dict[str, Kind] = {}
    for metric in TABLE:
        assert metric.help, metric.object_name
        assert not metric.help.endswith("."), metric.object_name
        assert kinds.setdefault(metric.prometheus, metric.kind) is metric.kind
