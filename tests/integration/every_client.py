"""The three clients by name, for tests that run with each of them."""

from tests.integration.client_aiokafka import AiokafkaClient
from tests.integration.client_confluent import ConfluentClient
from tests.integration.client_contract import Client
from tests.integration.client_kafka_python import KafkaPythonClient

CLIENTS: dict[str, type[Client]] = {
    "confluent": ConfluentClient,
    "kafka_python": KafkaPythonClient,
    "aiokafka": AiokafkaClient,
}
