from collections.abc import Iterator

import pytest

from moldau.testing import Broker
from tests.shared.services import running_registry


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[str]:
    """The URL of a schema registry that runs on the module's broker."""
    with running_registry(broker.bootstrap_servers) as found:
        yield found.url
