"""What a console is told: which clusters there are, who may log in, what is hidden.

    [[cluster]]                             # a file for --clusters, in TOML
    name = "production"
    bootstrap_servers = "kafka1:9092,kafka2:9092"
    schema_registry = "http://registry:8081"
    connect = "http://connect:8083"
    client = { "security.protocol" = "SASL_SSL", "sasl.mechanism" = "SCRAM-SHA-512" }

Invariant: values only; what cannot be used is a ``ValueError`` that says where it stands.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from moldau.base.host_names import is_loopback
from moldau.client.transport.security import Security
from moldau.console.masks import Mask, parse_mask
from moldau.console.oidc.settings import OidcSettings
from moldau.web.limits import Limits
from moldau.web.server import ListenerOptions

DEFAULT_NAME = "local"
_LEGAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    name: str
    bootstrap_servers: str
    #: Settings of Kafka's clients.
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema_registry: str | None = None
    #: NAME:PASSWORD for the registry.
    schema_registry_user: str | None = field(default=None, repr=False)
    connect: str | None = None

    def __post_init__(self) -> None:
        if _LEGAL_NAME.fullmatch(self.name) is None:
            raise ValueError(
                f"the name of a cluster is made of letters, digits, . _ and -, not {self.name!r}"
            )
        if not self.bootstrap_servers.strip():
            raise ValueError(f"cluster {self.name}: bootstrap_servers is missing")

    def security(self, user: str | None = None, password: str | None = None) -> Security:
        """With a user, the same way to the cluster with that user's name and password."""
        if user is None:
            return Security.of(self.client)
        own = {name: value for name, value in self.client.items() if name != "sasl.jaas.config"}
        return Security.of(own | {"sasl.username": user, "sasl.password": password or ""})

    def security_of_token(self, token: str) -> Security:
        """The same way to the cluster with a person's bearer token, and with no account of the console's."""
        own = {
            name: value
            for name, value in self.client.items()
            if name != "sasl.jaas.config" and not name.startswith("sasl.oauthbearer.")
        }
        return Security.of(own | {"sasl.oauthbearer.token": token})

    @property
    def takes_tokens(self) -> bool:
        """Whether its listener asks who one is by a bearer token."""
        mechanism = self.client.get("sasl.mechanism") or self.client.get("sasl.mechanisms") or ""
        return self.knows_users and mechanism.strip().upper() == "OAUTHBEARER"

    @property
    def knows_users(self) -> bool:
        """Whether its listener asks who one is by a name and a password."""
        return self.client.get("security.protocol", "").strip().upper().startswith("SASL")


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    clusters: tuple[ClusterSettings, ...]
    listener: ListenerOptions = field(default_factory=ListenerOptions)
    #: Everybody logs in, and acts as that user alone: with a name and a password of the cluster …
    login: bool = False
    read_only: bool = False
    masks: tuple[Mask, ...] = ()
    #: A regular expression that the names of new topics have to match, and what to tell those who miss it.
    topic_pattern: str | None = None
    topic_rule: str = ""
    audit_file: str | None = None
    #: Names by which the console may be asked for, beside the address that it listens on.
    allowed_hosts: tuple[str, ...] = ()
    limits: Limits = field(
        default_factory=lambda: Limits(request_timeout_ms=60_000, max_concurrent_requests=200)
    )
    #: How often the console looks at rates and lags.
    sample_seconds: float = 5.0
    #: … or at a provider of OpenID Connect, whose access tokens are passed on to the cluster.
    oidc: OidcSettings | None = None
    #: Registry and Connect know the console alone: with a login, whether people may change things there.
    shared_services: bool = False

    def __post_init__(self) -> None:
        names = [each.name for each in self.clusters]
        if len(set(names)) != len(names) or not names:
            raise ValueError("every cluster has a name of its own, and there is at least one")
        if self.topic_pattern is not None:
            try:
                re.compile(self.topic_pattern)
            except re.error as error:
                raise ValueError(
                    f"the pattern for names of topics is no regular expression: {error}"
                ) from None
        if self.oidc is not None:
            self._check_oidc()
        elif self.login:
            for each in self.clusters:
                if not each.knows_users:
                    raise ValueError(
                        f"cluster {each.name} asks nobody who they are: a login needs security.protocol "
                        "SASL_PLAINTEXT or SASL_SSL, and sasl.mechanism, among its client settings"
                    )

    def _check_oidc(self) -> None:
        if not self.login:
            raise ValueError("a provider of OpenID Connect belongs to a login")
        assert self.oidc is not None
        for each in self.clusters:
            if not each.takes_tokens:
                raise ValueError(
                    f"cluster {each.name} takes no bearer tokens: a login by OpenID Connect needs "
                    "sasl.mechanism=OAUTHBEARER among its client settings, so that people act as themselves"
                )
        if not self.oidc.public_url and not is_loopback(self.listener.host):
            raise ValueError("a login by OpenID Connect on the network needs the console's public address")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names by which the console may be asked for."""
        public = urlsplit(self.oidc.public_url).hostname if self.oidc is not None else None
        return (*self.allowed_hosts, *((public,) if public else ()))

    @property
    def is_https(self) -> bool:
        """Whether browsers reach it by https: by its own, or by that of whoever stands before it."""
        return self.listener.tls is not None or (
            self.oidc is not None and self.oidc.public_url.startswith("https:")
        )

    def cluster(self, name: str) -> ClusterSettings | None:
        return next((each for each in self.clusters if each.name == name), None)


def read_clusters(text: str) -> tuple[tuple[ClusterSettings, ...], tuple[Mask, ...]]:
    """Clusters and masks from a TOML file."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is no TOML: {error}") from None
    unknown = document.keys() - {"cluster", "mask"}
    if unknown:
        raise ValueError(f'unknown: {", ".join(sorted(unknown))}; there are [[cluster]] and mask = ["…"]')
    entries = document.get("cluster", [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ValueError("clusters are written as [[cluster]]")
    masks = document.get("mask", [])
    if not isinstance(masks, list):
        raise ValueError("mask is a list of texts")
    return tuple(_cluster(each) for each in entries), tuple(parse_mask(str(each)) for each in masks)


def _cluster(entry: dict[str, Any]) -> ClusterSettings:
    name = str(entry.get("name", DEFAULT_NAME))
    known = {"name", "bootstrap_servers", "client", "schema_registry", "schema_registry_user", "connect"}
    unknown = entry.keys() - known
    if unknown:
        raise ValueError(
            f"cluster {name}: unknown: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}"
        )
    client = entry.get("client", {})
    if not isinstance(client, dict):
        raise ValueError(f"cluster {name}: client is a table of settings of Kafka's clients")
    return ClusterSettings(
        name,
        str(entry.get("bootstrap_servers", "")),
        {key: str(value) for key, value in _flat(client)},
        _text(entry.get("schema_registry")),
        _text(entry.get("schema_registry_user")),
        _text(entry.get("connect")),
    )


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """TOML takes a dot in a name without quotes for a table within: security.protocol is meant."""
    found: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
