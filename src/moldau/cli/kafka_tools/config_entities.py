"""What ``kafka-configs`` is about: entities (a topic, a broker, …) and the changes to their configs.

Pure. The checks, their messages and their order are those of Kafka's ConfigCommand.
"""

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from moldau.cli.kafka_tools.framework.exceptions import illegal_argument
from moldau.cli.kafka_tools.framework.options import Given, OptionError, refuse_with
from moldau.client.admin.descriptions import ConfigSource, ResourceType

#: Options that give type and name at once -> type; the second of each pair means the default of all.
FLAGS = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
DEFAULT_FLAGS = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
ENTITY_TYPES = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
#: Types that have a default for all entities.
_WITH_DEFAULT = ("users", "clients", "brokers", "ips")
#: Types that are not kept as configs but as quotas and credentials.
QUOTA_TYPES = ("users", "clients", "ips")

RESOURCE_TYPES = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "client-metrics": ResourceType.CLIENT_METRICS,
    "groups": ResourceType.GROUP,
}

_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"


@dataclass(frozen=True, slots=True)
class Entity:
    """A type and a name: "" is the default of all entities of the type, None is each of them."""

    type: str
    name: str | None

    @property
    def kind(self) -> str:
        """The type in the singular, as the tool prints it."""
        return self.type[:-1]

    @property
    def source(self) -> ConfigSource | None:
        """The source of configs that were set for this entity; None where the protocol has none."""
        if self.type == "brokers":
            return (
                ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
                if self.name == ""
                else ConfigSource.DYNAMIC_BROKER_CONFIG
            )
        return {
            "topics": ConfigSource.DYNAMIC_TOPIC_CONFIG,
            "client-metrics": ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
            "groups": ConfigSource.DYNAMIC_GROUP_CONFIG,
        }.get(self.type)


def parse_entity(given: Given) -> Entity:
    """Checks all options, and returns the entity that they name."""
    if sum(given.has(action) for action in ("alter", "describe")) != 1:
        raise OptionError("Command must include exactly one action: --describe, --alter")
    refuse_with(given, "describe", ("add-config", "delete-config"))
    types = entity_types(given)
    _check_types(given, types)
    names = entity_names(given)
    _check_names(given, types, names)
    if given.has("alter"):
        _check_alter(given, types, names)
    return Entity(types[0], names[0] if names else None)


def entity_types(given: Given) -> list[str]:
    flags = {**FLAGS, **DEFAULT_FLAGS}
    return given.values("entity-type") + [kind for flag, kind in flags.items() if given.has(flag)]


def entity_names(given: Given) -> list[str]:
    """Names in the order of the types; "" for a default."""
    named = iter(given.values("entity-name"))
    both = [option for option in given.order if option in ("entity-name", "entity-default")]
    names = ["" if option == "entity-default" else next(named, "") for option in both]
    names += [name for flag in FLAGS for name in given.values(flag)]
    return names + [""] * sum(given.has(flag) for flag in DEFAULT_FLAGS)


def _check_types(given: Given, types: list[str]) -> None:
    twice = list(dict.fromkeys(kind for kind in types if types.count(kind) > 1))
    if twice:
        raise illegal_argument(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if not given.has("bootstrap-server") and not given.has("bootstrap-controller"):
        raise illegal_argument("Either --bootstrap-server or --bootstrap-controller must be specified.")
    for kind in types:
        if kind not in ENTITY_TYPES:
            raise illegal_argument(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(ENTITY_TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise illegal_argument("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise illegal_argument("Only 'users' and 'clients' entity types may be specified together")
    general = any(given.has(name) for name in ("entity-type", "entity-name", "entity-default"))
    if general and any(given.has(flag) for flag in (*FLAGS, *DEFAULT_FLAGS)):
        raise illegal_argument(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    if given.has("bootstrap-server") and given.has("bootstrap-controller"):
        raise illegal_argument("Only one of --bootstrap-server or --bootstrap-controller can be specified")


def _check_names(given: Given, types: list[str], names: list[str]) -> None:
    kind = types[0]
    if kind in ("brokers", "broker-loggers"):
        for name in names:
            if name and re.fullmatch(r"[+-]?\d+", name) is None:
                raise illegal_argument(
                    f"The entity name for {kind} must be a valid integer broker id, but it is: {name}"
                )
    if kind == "ips":
        for name in filter(None, names):
            if not _is_resolvable(name):
                raise illegal_argument(
                    f"The entity name for {kind} must be a valid IP or resolvable host, but it is: {name}"
                )
    if len(names) > len(types):
        raise illegal_argument("An entity name must be specified for every entity type")
    if given.has("describe"):
        if "" in names and kind not in _WITH_DEFAULT:
            raise illegal_argument(f"--entity-default must not be specified with --describe of {kind}")
        if kind == "broker-loggers" and not names:
            raise illegal_argument(f"An entity name must be specified with --describe of {kind}")


def _is_resolvable(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False


def _check_alter(given: Given, types: list[str], names: list[str]) -> None:
    if any(kind in _WITH_DEFAULT for kind in types):
        if not names:
            raise illegal_argument(
                "An entity-name or default entity must be specified "
                "with --alter of users, clients, brokers or ips"
            )
    elif not any(names):
        raise illegal_argument(f"An entity name must be specified with --alter of {','.join(types)}")
    if given.has("add-config") and given.has("add-config-file"):
        raise illegal_argument("Only one of --add-config or --add-config-file must be specified")
    if not any(given.has(name) for name in ("add-config", "add-config-file", "delete-config")):
        raise illegal_argument(
            "At least one of --add-config, --add-config-file, or --delete-config "
            "must be specified with --alter"
        )


def parse_added(text: str) -> dict[str, str]:
    """Reads ``k1=v1,k2=[v1,v2]``: commas and "=" within brackets belong to the value."""
    found: dict[str, str] = {}
    for pair in re.split("," + _OUTSIDE_BRACKETS, text):
        parts = re.split(r"\s*=\s*" + _OUTSIDE_BRACKETS, pair)
        if len(parts) != 2:
            raise illegal_argument(
                "requirement failed: Invalid entity config: all configs to be added must be in the format "
                '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
            )
        found[parts[0].strip()] = re.sub(r"[\[\]]", "", parts[1]).strip()
    return found


def parse_deleted(words: Iterable[str]) -> list[str]:
    """Reads ``k1,k2``, which may be given several times."""
    return [name.strip() for word in words for name in word.split(",")]
