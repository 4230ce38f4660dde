"""One broker and one `moldau registry` for a module; every test has subjects of its own."""

import re

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from moldau.client.registry.schema_registry import RegistryClient
from moldau.testing import Broker
from tests.shared.services import service_process


@pytest.fixture(scope="module")
def serde_broker():
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture(scope="module")
def url(serde_broker):
    with service_process("registry", "--port", "0", "-b", serde_broker.bootstrap_servers) as (_, url):
        yield url


@pytest.fixture(scope="module")
def registry(url):
    with RegistryClient(url) as client:
        yield client


@pytest.fixture(scope="module")
def confluent(url):
    return SchemaRegistryClient({"url": url})


@pytest.fixture
def topic(request):
    """A topic for this test alone, and so its subjects."""
    return re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)
