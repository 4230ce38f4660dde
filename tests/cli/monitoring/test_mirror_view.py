"""The metrics of a mirror move with what it copies."""

import asyncio
from collections.abc import Iterator

import pytest

from moldau.base.http_server import Request
from moldau.cli.monitoring.mirror_view import MirrorView
from moldau.testing import Broker
from tests.mirror.flows import SETTINGS, running, settings
from tests.shared.waiting import wait_until


@pytest.fixture(scope="module")
def pair() -> Iterator[dict[str, Broker]]:
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b:
        yield {"A": a, "B": b}


@pytest.mark.slow
def test_what_is_copied_is_shown(pair: dict[str, Broker]) -> None:
    pair["A"].create_topic("orders")
    for at in range(10):
        pair["A"].produce("orders", b"%d" % at)
    identity = {"replication_policy_class": "IdentityReplicationPolicy"}
    with running(settings(pair, "A->B", **identity)) as flows:
        view = MirrorView(flows)

        def text(path: str = "/metrics") -> str:
            response = asyncio.run(view.answer(Request("GET", path, {}, b"")))
            return response.body.decode()

        place = 'source="A",target="B",topic="orders",partition="0"'
        wait_until(lambda: f"moldau_mirror_partition_position{{{place}}} 10" in text(), text)
        assert f"moldau_mirror_partition_lag{{{place}}} 0" in text()
        assert f"moldau_mirror_partition_lost_total{{{place}}} 0" in text()
        assert 'moldau_mirror_flow_refusedtopics{source="A",target="B"} 0' in text()
        nothing = 'moldau_mirror_flow_bytescopied_total{source="A",target="B"} 0'
        wait_until(lambda: nothing not in text(), text)
        assert text("/healthz") == "GOOD\n"
        assert "there is /metrics" in text("/other")
