"""The layers that a config's value may come from, and the effective value.

Invariant: the first layer with a value wins: the topic's override, this broker's dynamic config, the default
of all brokers, the properties file, the built-in default.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from moldau.base.settings import SettingError, Value
from moldau.cluster.configs.broker_configs import BROKER_SETTINGS
from moldau.cluster.configs.topic_configs import TOPIC_SETTINGS

NO_CONFIGS: Mapping[str, str] = MappingProxyType({})


class ConfigLayers(NamedTuple):
    """A broker's configs: its properties file, the dynamic default of all brokers, its own dynamic ones."""

    static: Mapping[str, str] = NO_CONFIGS
    default_broker: Mapping[str, str] = NO_CONFIGS
    broker: Mapping[str, str] = NO_CONFIGS

    def __repr__(self) -> str:
        return "ConfigLayers(…)"  # there are passwords among them

    def value(self, name: str) -> Value:
        """The effective value of a setting in ``BROKER_SETTINGS``, typed."""
        setting = BROKER_SETTINGS[name]
        layers = (
            (self.static,) if setting.dynamic == "static" else (self.broker, self.default_broker, self.static)
        )
        for layer in layers:
            text = layer.get(name)
            if text is not None:
                try:
                    return setting.parse(text)
                except SettingError:
                    # It was valid when it was stored; a broker with the next layer's value can still start.
                    continue
        return setting.default

    def first_value(self, synonyms: tuple[tuple[str, int], ...]) -> Value:
        """The value of the first of these settings that has one, in the unit of the first."""
        for name, factor in synonyms:
            value = self.value(name)
            if value is not None:
                return value * factor if isinstance(value, int) and factor != 1 else value
        return None


#: A broker without a properties file and without dynamic configs.
NO_LAYERS = ConfigLayers()


def topic_defaults(layers: ConfigLayers) -> dict[str, Any]:
    """Typed values of a topic without configs of its own: the broker's settings in the topic's units."""
    values: dict[str, Any] = {}
    for name, setting in TOPIC_SETTINGS.items():
        value: Any = layers.first_value(setting.synonyms)
        values[name] = setting.default if value is None else value
    # -1 means "for ever" in hours and minutes too, and was multiplied.
    values["retention.ms"] = max(values["retention.ms"], -1)
    return values


def topic_values(layers: ConfigLayers, overrides: Mapping[str, str]) -> dict[str, Any]:
    """Effective values of a topic, typed, as its logs need them."""
    values = topic_defaults(layers)
    values.update(TOPIC_SETTINGS.parse(overrides))
    if values["internal.segment.bytes"] is not None:
        values["segment.bytes"] = values["internal.segment.bytes"]
    return values


def initial_default_broker_configs(layers: ConfigLayers) -> dict[str, str]:
    """What a new cluster stores for all its brokers: Kafka keeps min.insync.replicas there from the start."""
    return {"min.insync.replicas": str(layers.value("min.insync.replicas"))}
