"""``mm2.properties``: the clusters and the flows between them, with MirrorMaker 2's names and defaults.

    clusters = A, B
    A.bootstrap.servers = a:9092
    B.bootstrap.servers = b:9092
    A->B.enabled = true
    A->B.topics = orders.*

A name may stand alone, for all flows, or behind ``A->B.``; clients' settings behind a cluster's alias, and
behind ``A->B.consumer.`` and the like. Names of our own begin with ``moldau.``.

Invariant: pure. A value that means nothing is a ValueError that names it; a name that nothing here reads is
reported, so that a slip of the pen is seen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.mirror.rules.filters import (
    CONFIGS_EXCLUDE,
    GROUPS_EXCLUDE,
    TOPICS_EXCLUDE,
    NameFilter,
    name_filter,
)
from moldau.mirror.rules.policies import DEFAULT, ReplicationPolicy, policy_named

EXACT, TRANSLATED, AUTO = "exact", "translated", "auto"
MODES = (AUTO, EXACT, TRANSLATED)
RECREATED = ("stop", "replace")
_EVERYTHING = ".*"

#: What MirrorMaker 2 knows and has no meaning here: there are no Connect workers under this mirror.
_WITHOUT_EFFECT = (
    "admin.timeout.ms",
    "config.storage.",
    "connector.",
    "consumer.poll.timeout.ms",
    "dedicated.mode.enable.internal.rest",
    "forwarding.admin.class",
    "group.filter.class",
    "config.property.filter.class",
    "topic.filter.class",
    "listeners",
    "metric.",
    "name",
    "offset.lag.max",
    "offset.storage.",
    "rest.",
    "status.storage.",
    "tasks.max",
    "exactly.once.source.support",
)
_CLIENT_ROLES = ("consumer.", "producer.", "admin.")


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """A schema registry, by the names that Confluent's clients have for its settings."""

    url: str
    #: ``name:password``.
    user_info: str | None = field(default=None, repr=False)
    ca_location: str | None = None


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """One direction between two clusters."""

    source: str
    target: str
    policy: ReplicationPolicy
    topics: NameFilter
    groups: NameFilter
    configs_exclude: NameFilter
    #: ``exact`` keeps offsets and needs a Moldau target, ``translated`` works as MirrorMaker 2 does.
    mode: str = AUTO
    enabled: bool = True
    replication_factor: int = -1
    isolation_level: str = "read_committed"
    #: Where a topic is begun that was never copied; only without the same offsets ``latest`` makes sense.
    start: str = "earliest"
    refresh_topics_seconds: float = 600
    sync_configs: bool = True
    sync_configs_seconds: float = 600
    sync_acls: bool = True
    sync_acls_seconds: float = 600
    sync_groups: bool = False
    sync_groups_seconds: float = 60
    emit_checkpoints: bool = True
    emit_checkpoints_seconds: float = 60
    emit_heartbeats: bool = True
    emit_heartbeats_seconds: float = 1
    replicate_heartbeats: bool = True
    emit_offset_syncs: bool = True
    #: Where the offset-syncs topic is: ``source`` or ``target``.
    offset_syncs_location: str = "source"
    heartbeats_replication_factor: int = -1
    checkpoints_replication_factor: int = -1
    offset_syncs_replication_factor: int = -1
    #: Of our own: what MirrorMaker 2 does not do.
    sync_deletes: bool = False
    #: Where schemas are carried from and to, ``A.schema.registry.url``; None where they are not.
    registries: tuple[RegistryAddress, RegistryAddress] | None = None
    sync_schemas_seconds: float = 60
    on_recreated: str = "stop"
    throttle_bytes: float | None = None
    #: ``module:function`` or ``file.py:function`` that gets every record and returns one, several or None.
    function: str | None = None
    transaction_ms: int = 500
    #: Silence after which another process takes over the partitions of this one.
    session_ms: int = 10_000

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    #: For each alias the settings of its clients, ``bootstrap.servers`` among them.
    clusters: Mapping[str, Mapping[str, str]]
    flows: tuple[FlowSettings, ...]
    #: Names that nothing reads.
    unknown: tuple[str, ...] = ()
    #: Settings of the clients of one flow, over those of its clusters: flow -> role -> settings.
    client_overrides: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)


class _Reader:
    """The settings of one flow: behind its name first, then alone."""

    def __init__(self, properties: Mapping[str, str], flow: str, used: set[str]) -> None:
        self._properties = properties
        self._flow = flow
        self._used = used

    def text(self, name: str, default: str | None = None) -> str | None:
        found = default
        for key in (name, f"{self._flow}.{name}"):
            if key in self._properties:
                self._used.add(key)
                found = self._properties[key].strip()
        return found

    def choice(self, name: str, default: str, *among: str) -> str:
        found = self.text(name, default) or default
        if found not in among:
            raise ValueError(f"{name}={found}: it is {', '.join(among[:-1])} or {among[-1]}")
        return found

    def flag(self, name: str, default: bool) -> bool:
        found = (self.text(name) or str(default)).lower()
        if found not in ("true", "false"):
            raise ValueError(f"{name}={found}: it is true or false")
        return found == "true"

    def number(self, name: str, default: float, *, least: float = 0) -> float:
        found = self.text(name)
        if found is None:
            return default
        try:
            value = float(found)
        except ValueError:
            raise ValueError(f"{name}={found} is not a number") from None
        if value < least:
            raise ValueError(f"{name}={found} is less than {least:g}")
        return value

    def names(self, name: str, default: Iterable[str], *aliases: str) -> list[str]:
        for alias in (name, *aliases):
            found = self.text(alias)
            if found is not None:
                return [part.strip() for part in found.split(",") if part.strip()]
        return list(default)


def read_settings(properties: Mapping[str, str]) -> MirrorSettings:
    """ValueError when a cluster has no address, a value is wrong, or there is no flow."""
    used = {"clusters"}
    aliases = [part.strip() for part in properties.get("clusters", "").split(",") if part.strip()]
    if not aliases:
        raise ValueError("clusters= is missing: it names the clusters, such as clusters = A, B")
    if len(set(aliases)) != len(aliases):
        raise ValueError(f"clusters={properties['clusters']}: an alias is there twice")
    clusters = {alias: _client_settings(properties, alias, used) for alias in aliases}
    for alias, settings in clusters.items():
        if not settings.get("bootstrap.servers"):
            raise ValueError(f"{alias}.bootstrap.servers is missing")
    flows = []
    overrides: dict[str, dict[str, dict[str, str]]] = {}
    for source in aliases:
        for target in aliases:
            if source == target:
                continue
            flow = _flow(properties, source, target, used)
            roles = _flow_clients(properties, flow.name, used)
            if flow.enabled:
                flows.append(flow)
                if roles:
                    overrides[flow.name] = roles
    return MirrorSettings(clusters, tuple(flows), tuple(_unknown(properties, aliases, used)), overrides)


def _client_settings(properties: Mapping[str, str], alias: str, used: set[str]) -> dict[str, str]:
    """``security.protocol`` and the like alone, for all clusters; behind the alias, for one."""
    settings: dict[str, str] = {}
    for key, value in properties.items():
        if key.startswith(("security.", "ssl.", "sasl.")):
            settings[key] = value
            used.add(key)
    for key, value in properties.items():
        if key.startswith(f"{alias}.") and "->" not in key:
            name = key[len(alias) + 1 :]
            for role in _CLIENT_ROLES:
                name = name.removeprefix(role)
            settings[name] = value
            used.add(key)
    return settings


def _flow_clients(properties: Mapping[str, str], flow: str, used: set[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for key, value in properties.items():
        for role in _CLIENT_ROLES:
            if key.startswith(f"{flow}.{role}"):
                found.setdefault(role[:-1], {})[key[len(flow) + 1 + len(role) :]] = value
                used.add(key)
    return found


def _flow(properties: Mapping[str, str], source: str, target: str, used: set[str]) -> FlowSettings:
    name = f"{source}->{target}"
    reader = _Reader(properties, name, used)
    policy = policy_named(
        reader.text("replication.policy.class", DEFAULT) or DEFAULT,
        source,
        reader.text("replication.policy.separator", ".") or ".",
        internal_separator_enabled=reader.flag("replication.policy.internal.topic.separator.enabled", True),
    )
    # Known, and of no effect here: read so that they are not reported as slips.
    reader.number("refresh.groups.interval.seconds", 600)
    reader.flag("refresh.groups.enabled", True)
    return FlowSettings(
        source,
        target,
        policy,
        name_filter(
            reader.names("topics", [_EVERYTHING], "topics.whitelist"),
            reader.names("topics.exclude", TOPICS_EXCLUDE, "topics.blacklist"),
        ),
        name_filter(
            reader.names("groups", [_EVERYTHING], "groups.whitelist"),
            reader.names("groups.exclude", GROUPS_EXCLUDE, "groups.blacklist"),
        ),
        name_filter(
            reader.names("config.properties.exclude", CONFIGS_EXCLUDE, "config.properties.blacklist")
        ),
        isolation_level=_of_consumer(
            properties, source, name, "isolation.level", "read_committed", "read_uncommitted"
        ),
        start=_of_consumer(properties, source, name, "auto.offset.reset", "earliest", "latest"),
        registries=_registries(properties, source, target)
        if reader.flag("moldau.sync.schemas.enabled", False)
        else None,
        **_synced(reader),
        **_own(reader),
    )


def _registries(
    properties: Mapping[str, str], source: str, target: str
) -> tuple[RegistryAddress, RegistryAddress]:
    def address(alias: str) -> RegistryAddress:
        url = properties.get(f"{alias}.schema.registry.url")
        if not url:
            raise ValueError(f"{alias}.schema.registry.url is missing: schemas are to be carried over")
        return RegistryAddress(
            url,
            properties.get(f"{alias}.basic.auth.user.info"),
            properties.get(f"{alias}.schema.registry.ssl.ca.location"),
        )

    return address(source), address(target)


def _of_consumer(properties: Mapping[str, str], source: str, flow: str, name: str, *among: str) -> str:
    """A setting of the consumer at the source; the first of those allowed is the default."""
    value = properties.get(f"{source}.consumer.{name}", among[0])
    value = properties.get(f"{flow}.consumer.{name}", value)
    if value not in among:
        raise ValueError(f"{name}={value}: it is {' or '.join(among)}")
    return value


def _synced(reader: _Reader) -> dict[str, Any]:
    """What MirrorMaker 2 keeps in step beside records, and how often."""
    return {
        # MirrorMaker 2 runs a flow that is not enabled for its heartbeats alone; here it does nothing.
        "enabled": reader.flag("enabled", False),
        "replication_factor": int(reader.number("replication.factor", -1, least=-1)),
        "refresh_topics_seconds": _interval(reader, "refresh.topics", 600),
        "sync_configs": reader.flag("sync.topic.configs.enabled", True),
        "sync_configs_seconds": reader.number("sync.topic.configs.interval.seconds", 600),
        "sync_acls": reader.flag("sync.topic.acls.enabled", True),
        "sync_acls_seconds": reader.number("sync.topic.acls.interval.seconds", 600),
        "sync_groups": reader.flag("sync.group.offsets.enabled", False),
        "sync_groups_seconds": reader.number("sync.group.offsets.interval.seconds", 60),
        "emit_checkpoints": reader.flag("emit.checkpoints.enabled", True),
        "emit_checkpoints_seconds": reader.number("emit.checkpoints.interval.seconds", 60),
        "emit_heartbeats": reader.flag("emit.heartbeats.enabled", True),
        "emit_heartbeats_seconds": reader.number("emit.heartbeats.interval.seconds", 1),
        "replicate_heartbeats": reader.flag("heartbeats.replication.enabled", True),
        "emit_offset_syncs": reader.flag("emit.offset-syncs.enabled", True),
        "offset_syncs_location": reader.choice("offset-syncs.topic.location", "source", "source", "target"),
        "heartbeats_replication_factor": _factor(reader, "heartbeats"),
        "checkpoints_replication_factor": _factor(reader, "checkpoints"),
        "offset_syncs_replication_factor": _factor(reader, "offset-syncs"),
    }


def _own(reader: _Reader) -> dict[str, Any]:
    """What only this mirror has."""
    rate = reader.number("moldau.throttle.bytes.per.second", -1, least=1)
    return {
        "mode": reader.choice("moldau.mode", AUTO, *MODES),
        "sync_deletes": reader.flag("moldau.sync.topic.deletes.enabled", False),
        "sync_schemas_seconds": reader.number("moldau.sync.schemas.interval.seconds", 60),
        "on_recreated": reader.choice("moldau.on.recreated", "stop", *RECREATED),
        "throttle_bytes": None if rate < 0 else rate,
        "function": reader.text("moldau.function"),
        "transaction_ms": int(reader.number("moldau.transaction.ms", 500, least=1)),
        "session_ms": int(reader.number("moldau.session.timeout.ms", 10_000, least=100)),
    }


def _interval(reader: _Reader, name: str, default: float) -> float:
    """Seconds; 0 where ``….enabled`` is false."""
    seconds = reader.number(f"{name}.interval.seconds", default)
    return seconds if reader.flag(f"{name}.enabled", True) else 0


def _factor(reader: _Reader, topic: str) -> int:
    return int(reader.number(f"{topic}.topic.replication.factor", -1, least=-1))


def _unknown(properties: Mapping[str, str], aliases: list[str], used: set[str]) -> list[str]:
    flows = [f"{source}->{target}." for source in aliases for target in aliases if source != target]
    unknown = []
    for key in properties:
        plain = key
        for flow in flows:
            plain = plain.removeprefix(flow)
        if key not in used and not plain.startswith(_WITHOUT_EFFECT):
            unknown.append(key)
    return sorted(unknown)
