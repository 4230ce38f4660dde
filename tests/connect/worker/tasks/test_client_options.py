"""What the worker and a connector say of their producers and consumers."""

import pytest

from moldau.client.consumer.consumer import BEGINNING, END, ConsumerOptions
from moldau.client.producer.sender import ProducerOptions
from moldau.connect.errors import ConfigException
from moldau.connect.worker.settings import WorkerSettings, standalone_settings
from moldau.connect.worker.tasks.client_options import (
    ClientOptions,
    check_clients,
    group_of,
    worker_clients,
)
from moldau.protocol.compression import Compression


def worker(**given: str) -> WorkerSettings:
    needed = {"key.converter": "-", "value.converter": "-", "offset.storage.file.filename": "-"}
    return standalone_settings({**needed, **{name.replace("_", "."): value for name, value in given.items()}})


def test_a_connector_comes_before_its_worker() -> None:
    ours = worker(
        producer_linger_ms="7", producer_compression_type="gzip", consumer_isolation_level="read_committed"
    )
    config = {
        "producer.override.compression.type": "zstd",
        "consumer.override.auto.offset.reset": "latest",
        "consumer.override.max.poll.records": "9",
        "consumer.override.no.such.setting": "x",
    }
    found = ClientOptions.of(config, ours)
    made = ProducerOptions(**found.producer)
    assert (made.linger_ms, made.compression) == (7, Compression.ZSTD)
    reading = ConsumerOptions(**found.consumer)
    assert (reading.isolation_level, reading.offset_reset, found.max_poll_records) == (1, END, 9)
    alone = {**config, **worker_clients(ours)}
    assert ClientOptions.of(alone, worker()).producer["linger_ms"] == 7


def test_a_sink_reads_all_unless_it_is_told_otherwise() -> None:
    assert ConsumerOptions(**ClientOptions().consumer).offset_reset == BEGINNING
    assert ConsumerOptions(**ClientOptions.of({}, worker()).consumer).offset_reset == BEGINNING
    assert group_of("x", {}) == "connect-x"
    assert group_of("x", {"consumer.override.group.id": "mine"}) == "mine"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("producer.override.acks", "7", "Invalid value 7 for configuration acks: String must be one of"),
        ("producer.override.linger.ms", "x", "Invalid value x for configuration linger.ms: Not a number"),
        ("consumer.override.auto.offset.reset", "x", "Invalid value x for configuration auto.offset.reset"),
        ("consumer.override.max.poll.records", "x", "Invalid value x for configuration max.poll.records"),
        ("producer.override.sasl.jaas.config", "x", "is the worker's, not a connector's"),
        ("consumer.override.bootstrap.servers", "x:1", "is the worker's, not a connector's"),
        ("admin.override.ssl.truststore.location", "x", "is the worker's, not a connector's"),
    ],
)
def test_what_is_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigException, match=said):
        check_clients({name: value}, worker())


def test_a_worker_may_forbid_it() -> None:
    policy = "org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy"
    for written in ("None", policy):
        strict = worker(connector_client_config_override_policy=written)
        with pytest.raises(ConfigException, match=r"^The 'None' policy does not allow 'linger.ms' to be"):
            check_clients({"producer.override.linger.ms": "1"}, strict)
        check_clients({}, strict)
