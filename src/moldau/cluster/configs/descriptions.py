"""Configs of topics, brokers, groups, client metrics and loggers as DescribeConfigs shows them.

Invariant: sources, synonyms and their order are Kafka's.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from moldau.base.settings import Setting, SettingType, Value
from moldau.cluster.configs.broker_configs import BROKER_SETTINGS, broker_setting
from moldau.cluster.configs.layers import ConfigLayers, topic_defaults
from moldau.cluster.configs.topic_configs import (
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    log_level_name,
)


class ConfigSource(IntEnum):
    """The layer that a value comes from, with the numbers of DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One config as DescribeConfigs shows it."""

    name: str
    value: str | None
    source: ConfigSource
    type: SettingType = SettingType.UNKNOWN
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT_CONFIG


def describe_topic(
    layers: ConfigLayers, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """All configs of a topic, or those asked for."""
    values: dict[str, Any] = {**topic_defaults(layers), **TOPIC_SETTINGS.parse(overrides)}
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG
    return [
        _overridable(setting, values[name], name in overrides, own, _inherited(layers, setting))
        for name, setting in TOPIC_SETTINGS.items()
        if (not names or name in names) and (not setting.internal or name in overrides)
    ]


def describe_group(
    layers: ConfigLayers, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """All configs of a group, or those asked for."""
    entries = []
    own = GROUP_SETTINGS.parse(overrides)
    for name, setting in GROUP_SETTINGS.items():
        if names and name not in names:
            continue
        inherited = _inherited(layers, setting)
        value = own.get(name, layers.first_value(setting.synonyms))
        if not setting.synonyms:
            value = own.get(name, setting.default)
            inherited = [ConfigSynonym(name, setting.render(setting.default), ConfigSource.DEFAULT_CONFIG)]
        entries.append(_overridable(setting, value, name in own, ConfigSource.GROUP_CONFIG, inherited))
    return entries


def describe_client_metrics(
    overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """All configs of a subscription to client metrics, or those asked for."""
    values = CLIENT_METRICS_SETTINGS.parse(overrides)
    own = ConfigSource.CLIENT_METRICS_CONFIG
    return [
        _overridable(setting, values.get(name, setting.default), name in values, own, [])
        for name, setting in CLIENT_METRICS_SETTINGS.items()
        if not names or name in names
    ]


def describe_broker(layers: ConfigLayers, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """All settings of a broker, or those asked for; those without effect only where they are set."""
    described = dict.fromkeys(name for name, setting in BROKER_SETTINGS.items() if not setting.internal)
    for layer in layers:
        described.update(dict.fromkeys(layer))
    return [_broker_entry(layers, name) for name in described if not names or name in names]


def describe_default_broker(layers: ConfigLayers, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The dynamic default configs of all brokers."""
    only = ConfigLayers(default_broker=layers.default_broker)
    return [
        _broker_entry(only, name, with_defaults=False)
        for name in layers.default_broker
        if not names or name in names
    ]


def describe_broker_loggers(
    levels: Mapping[str, int], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The levels of loggers, given as Python's numbers."""
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        ConfigEntry(name, log_level_name(level), source)
        for name, level in levels.items()
        if not names or name in names
    ]


def _overridable(
    setting: Setting, value: Value, is_own: bool, own: ConfigSource, inherited: list[ConfigSynonym]
) -> ConfigEntry:
    text = setting.render(value)
    synonyms = [ConfigSynonym(setting.name, text, own), *inherited] if is_own else inherited
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(
        setting.name, text, source, setting.type, synonyms=tuple(synonyms), documentation=setting.doc
    )


def _inherited(layers: ConfigLayers, setting: Setting) -> list[ConfigSynonym]:
    names = [name for name, _ in setting.synonyms]
    return _synonyms(layers, names) if names else []


def _broker_entry(layers: ConfigLayers, name: str, *, with_defaults: bool = True) -> ConfigEntry:
    setting = broker_setting(name)
    # The value of an unknown setting may be a secret.
    sensitive = setting is None or setting.sensitive
    names = [other for other, _ in setting.synonyms] if setting and setting.synonyms else [name]
    synonyms = _synonyms(layers, names, name, with_defaults=with_defaults)
    if sensitive:
        text = None
        synonyms = [synonym._replace(value=None) for synonym in synonyms]
    elif not with_defaults or name not in BROKER_SETTINGS:
        text = synonyms[0].value
    else:
        text = BROKER_SETTINGS[name].render(layers.value(name))
    return ConfigEntry(
        name,
        text,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        setting.type if setting else SettingType.UNKNOWN,
        setting is None or setting.name != name or setting.dynamic == "static",
        sensitive,
        tuple(synonyms),
        setting.doc if setting else None,
    )


def _synonyms(
    layers: ConfigLayers, names: Sequence[str], wanted: str | None = None, *, with_defaults: bool = True
) -> list[ConfigSynonym]:
    """Every layer that sets one of these names, highest priority first.

    As in Kafka the list starts with the wanted name: a synonym of higher priority is not listed, although its
    value is the effective one.
    """
    wanted = wanted or names[0]
    found = []
    for layer, source in (
        (layers.broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (layers.default_broker, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (layers.static, ConfigSource.STATIC_BROKER_CONFIG),
    ):
        found += [ConfigSynonym(name, layer[name], source) for name in names if name in layer]
    if with_defaults:
        for name in names:
            setting = BROKER_SETTINGS.get(name)
            if setting is not None and setting.default is not None and not setting.internal:
                text = setting.render(setting.default)
                found.append(ConfigSynonym(name, text, ConfigSource.DEFAULT_CONFIG))
    first = next((index for index, synonym in enumerate(found) if synonym.name == wanted), len(found))
    return found[first:]
