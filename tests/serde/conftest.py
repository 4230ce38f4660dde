"""One broker and one `moldau registry` for a module; every test has subjects of its own."""

import re
import subprocess
import sys

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from moldau.client.registry.schema_registry import RegistryClient
from moldau.testing import Broker


@pytest.fixture(scope="module")
def serde_broker():
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture(scope="module")
def url(serde_broker):
    command = [sys.executable, "-m", "moldau", "registry", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--bootstrap-servers", serde_broker.bootstrap_servers], stdout=subprocess.PIPE, text=True
    )
    try:
        found = re.search(r"ready: (\S+)", process.stdout.readline())
        assert found is not None
        yield found[1]
    finally:
        process.terminate()
        process.communicate(timeout=30)


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
