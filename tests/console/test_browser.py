"""The walks of the console in a real Chromium, on Moldau."""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.testing import Broker
from tests.console.scene import chromium, scene_on
from tests.console.walks import WALKS, Walk

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.__name__)
def test_walk(walk: Walk, browser: Any, broker: Broker) -> None:
    with scene_on(browser, broker.bootstrap_servers) as scene:
        walk(scene)
