"""The settings of a worker: how it reaches the cluster, its converters, where offsets are kept, where it
listens.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from moldau.connect.compatibility import Compatibility
from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.config.hosts import AllowedHosts
from moldau.connect.config.providers import AllowedPaths, ConfigProvider, providers_of, resolved
from moldau.connect.config.validators import OneOf, OneOfAnyCase, Range
from moldau.connect.errors import ConfigException
from moldau.connect.transforms.python import MODULES
from moldau.web.tls import TlsOptions

DEFAULT_PORT = 8083
_HIGH, _LOW = Importance.HIGH, Importance.LOW
_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

_COMMON = (
    ConfigKey("bootstrap.servers", ConfigType.STRING, "localhost:9092", _HIGH, "Brokers of the cluster."),
    ConfigKey("key.converter", ConfigType.CLASS, importance=_HIGH, doc="The converter of keys."),
    ConfigKey("value.converter", ConfigType.CLASS, importance=_HIGH, doc="The converter of values."),
    ConfigKey("header.converter", ConfigType.CLASS, _HEADERS, _LOW, "The converter of headers."),
    ConfigKey(
        "offset.flush.interval.ms",
        ConfigType.LONG,
        60_000,
        _LOW,
        "How often the places of sources are written.",
        Range(1),
    ),
    ConfigKey(
        "listeners", ConfigType.LIST, [f"http://127.0.0.1:{DEFAULT_PORT}"], _LOW, "Where REST listens."
    ),
    ConfigKey(
        "topic.tracking.enable",
        ConfigType.BOOLEAN,
        True,
        _LOW,
        "Whether the topics that connectors use are noted.",
    ),
    ConfigKey(
        "topic.tracking.allow.reset",
        ConfigType.BOOLEAN,
        True,
        _LOW,
        "Whether REST may be asked to forget them.",
    ),
    ConfigKey(
        "topic.creation.enable",
        ConfigType.BOOLEAN,
        True,
        _LOW,
        "Whether topics of sources are made as topic.creation.* of the connector says; brokers may make them "
        "otherwise.",
    ),
    ConfigKey(
        "compatibility",
        ConfigType.STRING,
        "strict",
        _LOW,
        "strict refuses records that do not fit, kafka bends them as Apache's classes do; a connector may "
        "say otherwise.",
        OneOf("strict", "kafka"),
    ),
    ConfigKey(
        "connectors.allowed.paths",
        ConfigType.STRING,
        None,
        _LOW,
        "Directories that connectors may read from and write to; all where it is left out.",
    ),
    ConfigKey(
        "connectors.allowed.hosts",
        ConfigType.LIST,
        [],
        _LOW,
        "Hosts, names with * and networks (10.1.0.0/16) that connectors may talk to; where it is left out, "
        "all but link-local addresses, where clouds keep secrets.",
    ),
)

STANDALONE = ConfigDef(
    *_COMMON,
    ConfigKey(
        "offset.storage.file.filename",
        ConfigType.STRING,
        importance=_HIGH,
        doc="The file that keeps the places of sources.",
    ),
)


def _topic(kind: str, doc: str) -> ConfigKey:
    return ConfigKey(f"{kind}.storage.topic", ConfigType.STRING, importance=_HIGH, doc=doc)


def _number(name: str, default: int, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, default, _LOW, doc)


DISTRIBUTED = ConfigDef(
    *_COMMON,
    ConfigKey(
        "group.id", ConfigType.STRING, importance=_HIGH, doc="The workers of one cluster have the same."
    ),
    _topic("config", "The topic of connectors and their tasks."),
    _topic("offset", "The topic of the places of sources."),
    _topic("status", "The topic of what connectors and tasks are doing."),
    _number("offset.storage.partitions", 25, "How many partitions the topic of places gets."),
    _number("status.storage.partitions", 5, "How many partitions the topic of statuses gets."),
    _number(
        "offset.storage.replication.factor", -1, "How many replicas it gets; -1 is the broker's default."
    ),
    _number(
        "status.storage.replication.factor", -1, "How many replicas it gets; -1 is the broker's default."
    ),
    ConfigKey(
        "exactly.once.source.support",
        ConfigType.STRING,
        "disabled",
        _HIGH,
        "enabled: every source writes its records and their places in one transaction.",
        OneOfAnyCase("DISABLED", "ENABLED", "PREPARING"),
    ),
    _number("session.timeout.ms", 10_000, "After how long a silent worker is taken for dead."),
    _number("heartbeat.interval.ms", 3_000, "How often a worker shows that it lives."),
    ConfigKey(
        "rest.advertised.host.name",
        ConfigType.STRING,
        None,
        _LOW,
        "How other workers reach this one, if not by the host of its listener.",
    ),
)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    bootstrap_servers: str
    #: All that was given, for converters (``value.converter.schemas.enable``) and clients.
    given: Mapping[str, str]
    #: Empty for a worker that keeps the places of sources in a topic.
    offset_file: str
    offset_flush_interval_ms: int
    host: str
    port: int
    compatibility: Compatibility
    allowed_paths: AllowedPaths
    allowed_hosts: AllowedHosts
    providers: Mapping[str, ConfigProvider] = field(repr=False)
    #: Whether sources write records and places in one transaction.
    exactly_once: bool = False
    #: Whether topics that connectors use are noted, and may be forgotten over REST.
    topic_tracking: bool = True
    topic_tracking_reset: bool = True
    #: Whether topics that a source writes to are made as its configuration says, or left to the brokers.
    topic_creation: bool = True
    #: Of REST.
    tls: TlsOptions | None = None

    @property
    def python_modules(self) -> list[str]:
        """Modules whose functions may be transforms."""
        return [each.strip() for each in self.given.get(MODULES, "").split(",") if each.strip()]

    @property
    def identity(self) -> str:
        """The name of the cluster of workers; for one that is alone, where it runs and keeps its places."""
        if not self.offset_file:
            return self.given.get("group.id", "")
        return f"{platform.node()}:{Path(self.offset_file).absolute()}"

    @property
    def converter_names(self) -> dict[str, str]:
        """The classes of the converters, by side."""
        return {side: self.converter(side)[0] for side in ("key", "value", "header")}

    def converter(self, side: str) -> tuple[str, dict[str, str]]:
        """Class and settings of the converter for a side: key, value or header."""
        return converter_of(self.given, side) or (_HEADERS, {})


def converter_of(given: Mapping[str, str], side: str) -> tuple[str, dict[str, str]] | None:
    """Class and settings of a converter that a configuration names, or None if it names none."""
    prefix = f"{side}.converter."
    name = given.get(f"{side}.converter")
    if not name:
        return None
    return name.strip(), {
        key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)
    }


def standalone_settings(given: Mapping[str, str]) -> WorkerSettings:
    return _worker(given, STANDALONE)[0]


@dataclass(frozen=True, slots=True)
class DistributedSettings:
    worker: WorkerSettings
    group_id: str
    config_topic: str
    offset_topic: str
    offset_partitions: int
    offset_replicas: int
    status_topic: str
    status_partitions: int
    status_replicas: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    advertised_host: str | None


def distributed_settings(given: Mapping[str, str]) -> DistributedSettings:
    worker, parsed = _worker(given, DISTRIBUTED)
    return DistributedSettings(
        worker,
        parsed["group.id"],
        parsed["config.storage.topic"],
        parsed["offset.storage.topic"],
        parsed["offset.storage.partitions"],
        parsed["offset.storage.replication.factor"],
        parsed["status.storage.topic"],
        parsed["status.storage.partitions"],
        parsed["status.storage.replication.factor"],
        parsed["session.timeout.ms"],
        parsed["heartbeat.interval.ms"],
        parsed["rest.advertised.host.name"],
    )


def _worker(given: Mapping[str, str], definition: ConfigDef) -> tuple[WorkerSettings, Settings]:
    providers = providers_of(given)
    given = resolved(given, providers)
    if given.get("rest.extension.classes", "").strip():
        # Most often a login, without which REST would be open.
        raise ConfigException(
            "rest.extension.classes are Java's and cannot be loaded. Next: leave it out; for logins start "
            "the worker with --user NAME:PASSWORD"
        )
    parsed = definition.parse(given)
    scheme, host, port = _listener(parsed["listeners"])
    worker = WorkerSettings(
        parsed["bootstrap.servers"],
        given,
        parsed.get("offset.storage.file.filename", ""),
        parsed["offset.flush.interval.ms"],
        host,
        port,
        Compatibility(parsed["compatibility"]),
        AllowedPaths(parsed["connectors.allowed.paths"]),
        AllowedHosts(parsed["connectors.allowed.hosts"]),
        providers,
        str(parsed.get("exactly.once.source.support", "")).lower() == "enabled",
        parsed["topic.tracking.enable"],
        parsed["topic.tracking.allow.reset"],
        parsed["topic.creation.enable"],
        _tls(given) if scheme == "https" else None,
    )
    return worker, parsed


def _listener(listeners: list[str]) -> tuple[str, str, int]:
    if not listeners:
        raise ConfigException.of("listeners", listeners, "At least one listener is needed")
    found = urlsplit(listeners[0].strip().lower())
    if found.scheme not in ("http", "https") or found.port is None:
        raise ConfigException.of("listeners", listeners, "A listener is written as http://host:port")
    return found.scheme, found.hostname or "0.0.0.0", found.port


def _tls(given: Mapping[str, str]) -> TlsOptions:
    """The certificate of REST, by Kafka's names or those of librdkafka; without it nothing listens. Files are
    PEM.
    """
    prefix = "listeners.https."
    known = dict(given) | {k.removeprefix(prefix): v for k, v in given.items() if k.startswith(prefix)}
    certificate = known.get("ssl.keystore.location") or known.get("ssl.certificate.location")
    if not certificate:
        raise ConfigException(
            f"A listener of https needs {prefix}ssl.keystore.location: a PEM file with a certificate and key"
        )
    for name in ("ssl.keystore.type", "ssl.truststore.type"):
        if known.get(name, "PEM").upper() != "PEM":
            raise ConfigException(f"A listener of https needs PEM files: {prefix}{name}=PEM")
    if known.get("ssl.key.password"):
        raise ConfigException("The key of a listener of https is a PEM file without a password")
    client_auth = known.get("ssl.client.auth", "none").lower()
    if client_auth not in ("none", "required"):
        raise ConfigException.of("ssl.client.auth", client_auth, "A listener of https has none or required")
    key = known.get("ssl.key.location")
    authorities = known.get("ssl.truststore.location") or known.get("ssl.ca.location")
    if client_auth == "none":
        authorities = None
    elif not authorities:
        raise ConfigException(f"ssl.client.auth=required needs {prefix}ssl.truststore.location: a PEM file")
    return TlsOptions(
        Path(certificate), Path(key) if key else None, Path(authorities) if authorities else None
    )
