import pytest

from moldau.cluster.configs.layers import ConfigLayers, topic_defaults, topic_values
from moldau.cluster.configs.topic_configs import TOPIC_SETTINGS


def test_a_topic_without_configs_has_the_defaults() -> None:
    values = topic_values(ConfigLayers(), {})
    assert values == {name: setting.default for name, setting in TOPIC_SETTINGS.items()}


@pytest.mark.parametrize(
    ("static", "name", "value"),
    [
        ({"log.retention.hours": "1"}, "retention.ms", 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, "retention.ms", 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "3"}, "retention.ms", 3),
        ({"log.retention.hours": "-1"}, "retention.ms", -1),
        ({"log.retention.ms": "-5"}, "retention.ms", -1),
        ({"log.roll.hours": "2"}, "segment.ms", 7_200_000),
        ({"log.roll.hours": "2", "log.roll.ms": "9"}, "segment.ms", 9),
        ({"log.roll.jitter.hours": "2"}, "segment.jitter.ms", 7_200_000),
        ({"log.flush.scheduler.interval.ms": "7"}, "flush.ms", 7),
        ({"log.flush.scheduler.interval.ms": "7", "log.flush.interval.ms": "8"}, "flush.ms", 8),
        ({"message.max.bytes": "5"}, "max.message.bytes", 5),
        ({"log.cleanup.policy": "compact,delete"}, "cleanup.policy", ("compact", "delete")),
        ({"log.preallocate": "true"}, "preallocate", True),
        ({"log.cleaner.min.cleanable.ratio": "0.25"}, "min.cleanable.dirty.ratio", 0.25),
    ],
)
def test_a_broker_gives_its_topics_their_defaults(static: dict[str, str], name: str, value: object) -> None:
    assert topic_defaults(ConfigLayers(static))[name] == value


def test_the_nearest_layer_counts() -> None:
    name = "log.retention.ms"
    static, default_broker, broker = {name: "1"}, {name: "2"}, {name: "3"}
    assert ConfigLayers(static).value(name) == 1
    assert ConfigLayers(static, default_broker).value(name) == 2
    assert ConfigLayers(static, default_broker, broker).value(name) == 3
    layers = ConfigLayers({"log.retention.hours": "1"}, default_broker, broker)
    assert topic_values(layers, {})["retention.ms"] == 3
    assert topic_values(layers, {"retention.ms": "4"})["retention.ms"] == 4


def test_a_stored_value_that_is_no_longer_valid_is_passed_over() -> None:
    layers = ConfigLayers({"log.retention.ms": "1"}, {"log.retention.ms": "2"}, {"log.retention.ms": "abc"})
    assert layers.value("log.retention.ms") == 2


def test_a_static_setting_has_no_dynamic_value() -> None:
    assert ConfigLayers({}, {"num.partitions": "5"}, {"num.partitions": "6"}).value("num.partitions") == 1


def test_small_segments_for_tests() -> None:
    values = topic_values(ConfigLayers(), {"internal.segment.bytes": "100", "segment.bytes": "2000000"})
    assert values["segment.bytes"] == 100
