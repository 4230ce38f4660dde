"""Every scenario with kafka-python, and every codec."""

from collections.abc import Iterator

import pytest

from moldau.testing import Broker
from tests.integration.client_kafka_python import KafkaPythonClient
from tests.integration.scenario_table import CODECS, Scenario, codecs_for, scenarios_for
from tests.integration.scenarios_records import compressed_round_trip, recompressed_by_the_broker

pytestmark = pytest.mark.slow


@pytest.fixture
def client(moldau_broker: Broker) -> Iterator[KafkaPythonClient]:
    client = KafkaPythonClient(moldau_broker.bootstrap_servers)
    yield client
    client.close()


@pytest.mark.parametrize("scenario", scenarios_for(KafkaPythonClient))
def test_scenario(scenario: Scenario, client: KafkaPythonClient, topic: str) -> None:
    scenario(client, topic)


@pytest.mark.parametrize("codec", codecs_for(KafkaPythonClient))
def test_compression(codec: str, client: KafkaPythonClient, moldau_broker: Broker, topic: str) -> None:
    compressed_round_trip(client, moldau_broker, topic, codec)


@pytest.mark.parametrize("codec", CODECS)
def test_recompression(codec: str, client: KafkaPythonClient, moldau_broker: Broker, topic: str) -> None:
    recompressed_by_the_broker(client, moldau_broker, topic, codec)
