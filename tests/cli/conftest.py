"""The command line against a real broker in the same process."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from moldau.cli.main import cli
from moldau.testing import Broker


@pytest.fixture(scope="session")
def running_broker() -> Iterator[Broker]:
    settings = {
        "num.partitions": "1",
        "auto.create.topics.enable": "true",
        "group.initial.rebalance.delay.ms": "0",
    }
    with Broker(settings) as broker:
        yield broker


@pytest.fixture
def broker(running_broker: Broker) -> Broker:
    """An empty broker."""
    running_broker.reset()
    return running_broker


@pytest.fixture
def moldau(broker: Broker) -> Callable[..., Result]:
    """Runs ``moldau`` with these arguments against the broker; fails unless it ends with ``code``."""

    def run(*arguments: str, input: str | bytes | None = None, code: int = 0) -> Result:
        environment = {"MOLDAU_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
        result = CliRunner().invoke(cli, arguments, input=input, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def moldau_json(moldau: Callable[..., Result]) -> Callable[..., Any]:
    """The same with ``--json``, decoded."""
    return lambda *arguments, **options: json.loads(moldau(*arguments, "--json", **options).stdout)
