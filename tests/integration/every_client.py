"""The three clients by name, for tests that run with each of them."""

from client_aiokafka import AiokafkaClient
from client_confluent import ConfluentClient
from client_contract import Client
from client_kafka_python import KafkaPythonClient

CLIENTS: dict[str, type[Client]] = {
    "confluent": ConfluentClient,
    "kafka_python": KafkaPythonClient,
    "aiokafka": AiokafkaClient,
}
