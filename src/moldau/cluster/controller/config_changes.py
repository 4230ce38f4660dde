"""AlterConfigs and IncrementalAlterConfigs: from the stored configs and a request to the configs to store.

Invariant: what Kafka refuses is refused with its error code and message. Every check sees all configs that
would result, not the change alone. Nothing is stored here.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from moldau.base.settings import LIST, Setting, SettingError, SettingsTable, Value
from moldau.cluster.configs.broker_configs import BROKER_SETTINGS, broker_setting
from moldau.cluster.configs.broker_settings import RESTART_ONLY, broken_rules
from moldau.cluster.configs.layers import NO_LAYERS, ConfigLayers, topic_defaults
from moldau.cluster.configs.listener_settings import PER_LISTENER_SETTINGS
from moldau.cluster.configs.topic_configs import (
    BROKER_LOGGERS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    LOG_LEVELS,
    TOPIC_SETTINGS,
    check_client_metrics_values,
    check_group_values,
    check_topic_values,
)
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.security.jaas import check_login_module

_MIN_ISR = "min.insync.replicas"
_LONGEST_VALUE = 32767

#: Thread counts that may at most double or halve in one change.
_THREADS = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
#: Listener configs that may be set for all brokers at once.
_FOR_ALL_LISTENERS = ("max.connections", "max.connection.creation.rate", "num.network.threads")


class AlterOperation(IntEnum):
    """What IncrementalAlterConfigs may do to a config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    name: str
    operation: int
    value: str | None = None


#: All configs of an AlterConfigs request, in its order.
Pairs = Iterable[tuple[str, str | None]]


def alter_topic(
    layers: ConfigLayers, current: Mapping[str, str], changes: Sequence[ConfigChange]
) -> dict[str, str]:
    """A topic's configs after these changes; KafkaError when they are invalid."""
    configs = _changed(current, changes, TOPIC_SETTINGS)
    validate_topic_overrides(configs, layers)
    return configs


def replace_topic(layers: ConfigLayers, configs: Pairs) -> dict[str, str]:
    """A topic's configs when these replace all it had."""
    return alter_topic(layers, {}, _settings_of(configs))


def validate_topic_overrides(overrides: Mapping[str, str], layers: ConfigLayers = NO_LAYERS) -> None:
    """KafkaError when these configs are not valid for a topic."""
    for name in overrides:
        if name not in TOPIC_SETTINGS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    values = _parsed(TOPIC_SETTINGS, overrides)
    check_topic_values({**topic_defaults(layers), **values})


def alter_group(
    layers: ConfigLayers, current: Mapping[str, str], changes: Sequence[ConfigChange]
) -> dict[str, str]:
    """A group's configs after these changes; KafkaError when they are invalid."""
    configs = _changed(current, changes, GROUP_SETTINGS)
    _validate_group(layers, configs)
    return configs


def replace_group(layers: ConfigLayers, configs: Pairs) -> dict[str, str]:
    """A group's configs when these replace all it had."""
    return alter_group(layers, {}, _settings_of(configs))


def _validate_group(layers: ConfigLayers, configs: Mapping[str, str]) -> None:
    for name in configs:
        if name not in GROUP_SETTINGS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")

    def bound(name: str) -> Value:
        return layers.value(name) if name in BROKER_SETTINGS else None

    check_group_values(_parsed(GROUP_SETTINGS, configs), bound)


def alter_client_metrics(current: Mapping[str, str], changes: Sequence[ConfigChange]) -> dict[str, str]:
    """The configs of a subscription to client metrics after these changes."""
    configs = _changed(current, changes, CLIENT_METRICS_SETTINGS)
    _validate_client_metrics(configs)
    return configs


def replace_client_metrics(configs: Pairs) -> dict[str, str]:
    """The configs of a subscription to client metrics when these replace all it had."""
    return alter_client_metrics({}, _settings_of(configs))


def _validate_client_metrics(configs: Mapping[str, str]) -> None:
    for name in configs:
        if name not in CLIENT_METRICS_SETTINGS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    check_client_metrics_values(_parsed(CLIENT_METRICS_SETTINGS, configs))


def alter_broker_loggers(
    changes: Iterable[ConfigChange], loggers: Collection[str] = BROKER_LOGGERS
) -> dict[str, int | None]:
    """Python's log levels by logger; None resets a logger to the level of its parent."""
    levels: dict[str, int | None] = {}
    for name, operation, value in changes:
        if operation not in (AlterOperation.SET, AlterOperation.DELETE):
            word = _operation(operation).name
            message = f"{word} operation is not allowed for the BROKER_LOGGER resource"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if name not in loggers:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if operation == AlterOperation.DELETE:
            if name == "root":
                message = "Removing the log level of the root logger is not allowed"
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            levels[name] = None
        elif value in LOG_LEVELS:
            levels[name] = LOG_LEVELS[value]
        else:
            message = (
                f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(LOG_LEVELS))}"
            )
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    return levels


# -------------------------------------------------------------------------------------------------- brokers


def alter_broker(layers: ConfigLayers, changes: Sequence[ConfigChange]) -> dict[str, str]:
    """The dynamic configs of this broker after these changes; KafkaError when they are invalid."""
    configs = _changed(layers.broker, changes, BROKER_SETTINGS, _not_a_list_of_the_broker)
    _validate_broker(layers, layers._replace(broker=configs), configs, per_broker=True)
    if any(change.name == _MIN_ISR for change in changes):
        raise _broker_min_isr()
    return configs


def replace_broker(layers: ConfigLayers, configs: Pairs) -> dict[str, str]:
    """The dynamic configs of this broker when these replace all it had."""
    replaced = _replaced(configs)
    _validate_broker(layers, layers._replace(broker=replaced), replaced, per_broker=True)
    if _MIN_ISR in replaced or _MIN_ISR in layers.broker:
        raise _broker_min_isr()
    return replaced


def alter_default_broker(layers: ConfigLayers, changes: Sequence[ConfigChange]) -> dict[str, str]:
    """The default configs of all brokers after these changes; KafkaError when they are invalid."""
    configs = _changed(layers.default_broker, changes, BROKER_SETTINGS, _not_a_list_of_the_broker)
    _validate_broker(layers, layers._replace(default_broker=configs), configs, per_broker=False)
    if any(change.name == _MIN_ISR and change.operation == AlterOperation.DELETE for change in changes):
        raise _cluster_min_isr()
    return configs


def replace_default_broker(layers: ConfigLayers, configs: Pairs) -> dict[str, str]:
    """The default configs of all brokers when these replace all there were."""
    replaced = _replaced(configs)
    _validate_broker(layers, layers._replace(default_broker=replaced), replaced, per_broker=False)
    if _MIN_ISR in layers.default_broker and _MIN_ISR not in replaced:
        raise _cluster_min_isr()
    return replaced


def _broker_min_isr() -> KafkaError:
    message = f"Broker-level {_MIN_ISR} cannot be altered while ELR is enabled."
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def _cluster_min_isr() -> KafkaError:
    message = f"Cluster-level {_MIN_ISR} cannot be removed while ELR is enabled."
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def _validate_broker(
    before: ConfigLayers, after: ConfigLayers, configs: Mapping[str, str], *, per_broker: bool
) -> None:
    """KafkaError(INVALID_REQUEST) when a broker may not get these dynamic configs while it runs."""
    _refuse_names("Cannot update these configs dynamically", filter(_is_static, configs))
    _refuse_names(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        filter(PER_LISTENER_SETTINGS.__contains__, configs),
    )
    for name, text in configs.items():
        setting = broker_setting(name)
        if setting is not None:
            try:
                setting.parse(text)
            except SettingError as error:
                raise _refused(str(error)) from None
    if not per_broker:
        _refuse_names(
            "Cannot update these configs at default cluster level, broker id must be specified",
            filter(_is_per_broker, configs),
        )
    _check_logins(configs)
    for rule in broken_rules(after):
        raise _refused(rule if rule.startswith("group.") else f"requirement failed: {rule}")
    _check_threads(before, after)
    stored = before.broker if per_broker else before.default_broker
    for name in RESTART_ONLY:
        if name in configs and configs[name] != stored.get(name):
            raise _refused(
                f"{name} cannot change while the broker runs: set it in its file and start it again"
            )
    if "metric.reporters" in configs and "metric.reporters" not in stored:
        raise _refused("metric.reporters names Java classes, which this broker cannot load")


def _check_logins(configs: Mapping[str, str]) -> None:
    """A line that nobody could log in by is not stored. Kafka stores it, and finds out later."""
    for name, text in configs.items():
        if name.endswith("sasl.jaas.config"):
            try:
                check_login_module(text)
            except ValueError as error:
                raise _refused(f"{name} is not stored: {error}") from None


def _is_static(name: str) -> bool:
    if name.startswith("listener.name."):
        return False
    setting = broker_setting(name)
    return setting is not None and setting.dynamic == "static"


def _is_per_broker(name: str) -> bool:
    if name.startswith("listener.name."):
        return name.split(".", 3)[-1] not in _FOR_ALL_LISTENERS
    setting = broker_setting(name)
    return setting is not None and setting.dynamic == "per-broker"


def _check_threads(before: ConfigLayers, after: ConfigLayers) -> None:
    for name in (*_THREADS, "log.cleaner.threads"):
        old: Any = before.value(name)
        new: Any = after.value(name)
        if old // 2 <= new <= old * 2 and new > 0:
            continue
        if name == "log.cleaner.threads":
            reason = f"Log cleaner threads cannot be increased to more than double the current value {old}"
            if new < 1:
                reason = "Log cleaner threads should be at least 1"
            elif new < old:
                reason = f"Log cleaner threads cannot be reduced to less than half the current value {old}"
        else:
            bound = "not be greater than double" if new > old else "be at least half"
            reason = (
                f"Dynamic thread count update validation failed for {name}={new}, "
                f"value should {bound} the current value {old}"
            )
        error = f"org.apache.kafka.common.config.ConfigException: {reason}"
        raise _refused(f"Invalid value {error} for configuration Invalid dynamic configuration")


def _refuse_names(reason: str, names: Iterable[str]) -> None:
    named = ", ".join(names)
    if named:
        raise _refused(f"{reason}: [{named}]")


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


# ---------------------------------------------------------------------------------- what all have in common


def check_asked(changes: Sequence[ConfigChange]) -> None:
    """What Kafka refuses of any resource, before it looks whether there is such a one."""
    names = [change.name for change in changes]
    if len(set(names)) < len(names):
        raise _refused("Error due to duplicate config keys")
    missing = [
        name for name, operation, value in changes if value is None and operation != AlterOperation.DELETE
    ]
    if missing:
        raise _refused(f"Null value not supported for : {', '.join(missing)}")


def _changed(
    current: Mapping[str, str],
    changes: Sequence[ConfigChange],
    table: Mapping[str, Setting],
    not_a_list: Callable[[str, AlterOperation], str] | None = None,
) -> dict[str, str]:
    """The stored texts with these changes made; their values are not validated yet."""
    check_asked(changes)
    configs = dict(current)
    for name, number, value in changes:
        operation = _operation(number)
        if operation == AlterOperation.DELETE:
            configs.pop(name, None)
            continue
        text = value or ""
        if operation != AlterOperation.SET:
            setting = table.get(name)
            if setting is None or setting.type != LIST:
                message = (not_a_list or _not_a_list)(name, operation)
                raise KafkaError(ErrorCode.INVALID_CONFIG, message)
            before = configs.get(name, setting.render(setting.default) or "")
            text = _edited_list(before, operation, text)
        configs[name] = _bounded(text)
    return configs


def _settings_of(configs: Pairs) -> list[ConfigChange]:
    return [ConfigChange(name, AlterOperation.SET, value) for name, value in configs]


def _replaced(configs: Pairs) -> dict[str, str]:
    return _changed({}, _settings_of(configs), {})


def _operation(number: int) -> AlterOperation:
    try:
        return AlterOperation(number)
    except ValueError:
        raise _refused(f"Unknown operations type {number}") from None


def _not_a_list(name: str, operation: AlterOperation) -> str:
    return f"Can't {operation.name} to key {name} because its type is not LIST."


def _not_a_list_of_the_broker(name: str, operation: AlterOperation) -> str:
    if broker_setting(name) is None:
        return f"Unknown config name: {name}"
    return f"Config value {operation.name.lower()} is not allowed for config key: {name}"


def _edited_list(before: str, operation: AlterOperation, text: str) -> str:
    items = [item for item in before.split(",") if item]
    for item in _items(text):
        if operation == AlterOperation.APPEND:
            if item not in items:
                items.append(item)
        elif item in items:
            items.remove(item)
    return ",".join(items)


def _items(text: str) -> list[str]:
    """Splits as Java does: empty items at the end are dropped."""
    items = text.split(",")
    while len(items) > 1 and not items[-1]:
        items.pop()
    return items


def _bounded(text: str) -> str:
    if len(text) > _LONGEST_VALUE:
        message = (
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{_LONGEST_VALUE} bytes."
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    return text


def _parsed(table: SettingsTable, configs: Mapping[str, str]) -> dict[str, Value]:
    try:
        return table.parse(configs)
    except SettingError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
