"""A broker for the module, and a SQL server on it whose queries are only noted."""

from collections.abc import Iterator

import pytest

from moldau.sql.server.server import ServerOptions
from moldau.testing import Broker
from tests.sql.sql_servers import NotedQueries, RunningServer, running_server


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started


@pytest.fixture
def queries() -> NotedQueries:
    return NotedQueries()


@pytest.fixture
def server(broker: Broker, queries: NotedQueries) -> Iterator[RunningServer]:
    with running_server(ServerOptions(broker.bootstrap_servers, runner=queries)) as started:
        yield started
    broker.reset()
