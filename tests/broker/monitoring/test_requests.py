"""Counting and timing of requests, without a broker."""

from types import SimpleNamespace

import pytest

from moldau.broker.monitoring import requests
from moldau.broker.monitoring.requests import RequestMetrics, error_counter, error_name, request_name
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.messages.heartbeat import HeartbeatResponse
from moldau.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def ask(tally: requests.Tally, times: int) -> None:
    """What the dispatcher does for requests that are answered at once."""
    for _ in range(times):
        if tally.left:
            tally.left -= 1
        else:
            began = tally.begin()
            tally.answered(began, began, 0.0, 100, None)


def test_names_are_kafkas() -> None:
    assert [request_name(key) for key in (ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID)] == [
        "Produce",
        "InitProducerId",
    ]


@pytest.mark.parametrize("seconds", [0.0, 0.1], ids=["busy", "idle"])
def test_every_request_is_counted_and_samples_stand_for_the_others(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    now = [100.0]

    def stopwatch() -> float:
        now[0] += seconds + 1e-6
        return now[0]

    monkeypatch.setattr(requests, "stopwatch", stopwatch)
    tally = RequestMetrics().tally(ApiKey.PRODUCE, 13)
    ask(tally, 1000)
    assert tally.count == 1000
    assert 1000 - 127 <= tally.times.total.count <= 1000
    tally.time_next()
    ask(tally, 1)
    assert tally.count == 1001
    assert tally.times.total.count == 1001, "a look has every request stand for itself again"
    buckets = tally.times.request_bytes.snapshot(now[0])
    assert (buckets.minimum, buckets.maximum) == (100, 100)


def test_requests_that_waited_are_not_counted_twice() -> None:
    tally = RequestMetrics().tally(ApiKey.PRODUCE, 13)
    tally.begin()
    tally.answered_later(1.0, 2.0, None)
    tally.left = 0
    assert tally.times.remote.count == 1
    assert tally.times.local.count == 1


def test_fetches_of_followers_have_times_of_their_own() -> None:
    tally = RequestMetrics().tally(ApiKey.FETCH, 17)
    of = SimpleNamespace(replica_id=-1, replica_state=SimpleNamespace(replica_id=2))
    tally.answered(tally.begin(), 0.0, 0.0, 10, of)
    assert [name for name, _ in tally.requests.shown_times()] == ["FetchConsumer", "FetchFollower"]
    assert tally.requests.of_follower.total.count == 1
    assert tally.times.total.count == 0


def test_errors_are_found_at_every_depth() -> None:
    found: list[int] = []
    counter = error_counter(HeartbeatResponse)
    assert counter is not None
    counter(HeartbeatResponse(error_code=27), found.append)
    counter(HeartbeatResponse(), found.append)
    deep = error_counter(MetadataResponse)
    assert deep is not None
    partitions = [MetadataResponsePartition(error_code=5), MetadataResponsePartition()]
    deep(MetadataResponse(topics=[MetadataResponseTopic(error_code=3, partitions=partitions)]), found.append)
    assert found == [27, 3, 5]
    assert (error_name(5), error_name(9999)) == ("LEADER_NOT_AVAILABLE", "9999")


def test_throttles_are_remembered_by_api() -> None:
    metrics = RequestMetrics()
    metrics.throttled(ApiKey.PRODUCE, 250)
    assert metrics.api(ApiKey.PRODUCE).times.throttle.maximum == 250
