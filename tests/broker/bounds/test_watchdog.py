"""The watchdog of the event loop: who keeps it is counted and named, and who does not is not."""

import asyncio
import time
from typing import Any

import pytest

from moldau.broker.bounds.watchdog import Holds, Watchdog
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.testing import Broker
from tests.contract.wire import Wire
from tests.shared.waiting import wait_until


@pytest.mark.slow
def test_whoever_holds_the_loop_is_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker:

        async def make() -> Watchdog:
            return Watchdog(asyncio.get_running_loop(), broker.node.services.holds)

        def hold(request: Any, context: Any) -> None:
            time.sleep(0.3)  # what a handler must never do

        watchdog, holds = broker.run(make()), broker.node.services.holds
        with watchdog, broker.intercept("METADATA", hold), Wire(broker.port) as wire:

            def held() -> bool:
                wire.ask(MetadataRequest(), 12)
                return bool(holds.by_name)

            wait_until(held)
        assert holds.longest_ms >= 50
        assert all(name.startswith("moldau.") for name in holds.by_name), holds.by_name
        assert "kept the event loop for" in caplog.text
        assert ", for 127.0.0.1:" in caplog.text
        readings = dict(broker.run(_read(broker)))
        assert readings["Holds"]


async def _read(broker: Broker) -> list[tuple[str, Any]]:
    from moldau.broker.monitoring.process_sources import ProcessSources

    node = broker.node
    found = ProcessSources(node.services, broker.clock, node.upkeep.clock_watch).lag()
    return [(reading.metric.name, list(reading.values)) for reading in found]


def test_names_are_bounded_and_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    holds = Holds()
    for number in range(300):
        holds.add(f"f{number}", "", 0.06, 0.0)
    assert len(holds.by_name) == 101
    assert sum(holds.by_name.values()) == 300
    before = len(caplog.records)
    holds.add("f1", "", 0.2, 30.0)
    assert len(caplog.records) == before
    holds.add("f1", "", 0.2, 61.0)
    assert len(caplog.records) == before + 1
    assert holds.longest_ms == 200
