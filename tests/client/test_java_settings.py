"""What the settings of Kafka's Java clients mean for ours; the tools' tests go through all of them."""

import pytest

from moldau.client.consumer.consumer import BEGINNING, END, ConsumerOptions
from moldau.client.java_settings import consumer_options, number, producer_options
from moldau.client.producer.sender import ProducerOptions
from moldau.protocol.compression import Compression


def test_settings_become_options_and_others_are_passed_over() -> None:
    given = {"compression.type": "lz4", "compression.zstd.level": "3", "linger.ms": " 7 ", "client.id": "x"}
    assert ProducerOptions(**producer_options(given)) == ProducerOptions(
        compression=Compression.LZ4, linger_ms=7
    )
    assert ConsumerOptions(**consumer_options({})).offset_reset == END
    found = consumer_options({"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    assert (found["offset_reset"], found["isolation_level"]) == (BEGINNING, 1)


def test_what_java_refuses_is_refused_with_its_words() -> None:
    with pytest.raises(
        ValueError, match=r"^Invalid value x for configuration linger.ms: Not a number of type LONG$"
    ):
        number({"linger.ms": "x"}, "linger.ms")
    with pytest.raises(ValueError, match=r"acks: String must be one of: all, -1, 0, 1$"):
        producer_options({"acks": "2"})
