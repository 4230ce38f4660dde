"""Brokers that reach each other by a listener with logins."""

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing import Broker
from tests.shared.waiting import wait_until

LOGINS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="s" user_broker="s" user_ada="a";'
)


def test_two_brokers_log_in_to_each_other(tmp_path: Path) -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGINS,
        "moldau.metadata.dir": str(tmp_path / "metadata"),
    }
    brokers = [Broker({**settings, "node.id": number}, data_dir=tmp_path / str(number)) for number in (1, 2)]
    try:
        for broker in brokers:
            broker.start()
        client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        login = {"sasl.username": "ada", "sasl.password": "a"}
        admin = AdminClient({"bootstrap.servers": brokers[1].bootstrap_servers, **client, **login})
        admin.create_topics([NewTopic("t", 2, 2)])["t"].result(30)
        # Registered at the controller, fetching from the leaders, and asking for other in-sync replicas.
        metadata = brokers[1].node.metadata
        wait_until(lambda: "t" in metadata.image.topics_by_name)
        wait_until(lambda: all(len(each.isr) == 2 for each in metadata.image.topics_by_name["t"].partitions))
    finally:
        for broker in brokers:
            broker.stop()
