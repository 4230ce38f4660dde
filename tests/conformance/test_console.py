"""The walks through the console in a real Chromium, on Moldau and on a real Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.moldau_broker import MoldauBroker
from tests.console.scene import chromium, scene_on
from tests.console.walks import WALKS, Walk

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module", params=[MoldauBroker, ApacheKafka], ids=["moldau", "kafka"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of their own: every walk begins with an empty one."""
    folder: Path = tmp_path_factory.mktemp("console")
    with request.param(folder) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.__name__)
def test_walk(walk: Walk, browser: Any, servers: str) -> None:
    with scene_on(browser, servers) as scene:
        walk(scene)
