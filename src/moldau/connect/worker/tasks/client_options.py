"""Settings of the clients that tasks have: the worker's ``producer.*`` and ``consumer.*``, over which a
connector puts ``producer.override.*`` and ``consumer.override.*``.

Invariant: where clients connect and who they log in as is the worker's matter; a connector that says
otherwise is refused, and never runs with the worker's login by accident.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.client import java_settings
from moldau.client.producer.sender import ProducerOptions
from moldau.connect.errors import ConfigException
from moldau.connect.worker.settings import WorkerSettings

_ROLES = ("producer", "consumer", "admin")
_LOGIN = ("bootstrap.servers", "security.", "sasl.", "ssl.")
_POLICY = "connector.client.config.override.policy"
_PRINCIPAL = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
_GROUP = "consumer.override.group.id"
#: A sink reads all that is there, unless it is told otherwise.
_EARLIEST = {"auto.offset.reset": "earliest"}


@dataclass(frozen=True, slots=True)
class ClientOptions:
    #: Fields of ``ProducerOptions`` and ``ConsumerOptions``.
    producer: Mapping[str, Any] = field(default_factory=dict)
    consumer: Mapping[str, Any] = field(default_factory=lambda: java_settings.consumer_options(_EARLIEST))
    #: How many records a sink's task asks for at a time.
    max_poll_records: int = 500

    @classmethod
    def of(cls, config: Mapping[str, str], worker: WorkerSettings) -> "ClientOptions":
        consumer = _EARLIEST | _settings("consumer", config, worker)
        try:
            producer = java_settings.producer_options(_settings("producer", config, worker))
            ProducerOptions(**producer).check()
            most = java_settings.number({"max.poll.records": "500", **consumer}, "max.poll.records")
            return cls(producer, java_settings.consumer_options(consumer), most)
        except ValueError as error:
            raise ConfigException(str(error)) from error


def _settings(role: str, config: Mapping[str, str], worker: WorkerSettings) -> dict[str, str]:
    return _below(worker.given, f"{role}.") | _below(config, f"{role}.override.")


def _below(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}


def worker_clients(worker: WorkerSettings) -> dict[str, str]:
    """The worker's settings for clients as a connector would write them, for a process without a worker."""
    return {
        f"{role}.override.{name}": value
        for role in _ROLES
        for name, value in _below(worker.given, f"{role}.").items()
        if not name.startswith(_LOGIN)
    }


def group_of(connector: str, config: Mapping[str, str]) -> str:
    """The consumer group of a sink."""
    return config.get(_GROUP) or f"connect-{connector}"


def check_clients(config: Mapping[str, str], worker: WorkerSettings) -> None:
    """Raises ConfigException for what a connector may not say of its clients."""
    policy = worker.given.get(_POLICY, "All").rpartition(".")[2]
    policy = policy.removesuffix("ConnectorClientConfigOverridePolicy")
    for role in _ROLES:
        for name in _below(config, f"{role}.override."):
            if policy == "None" or (policy == "Principal" and name not in _PRINCIPAL):
                raise ConfigException(
                    f"The '{policy}' policy does not allow '{name}' to be overridden in the connector "
                    "configuration."
                )
            if name.startswith(_LOGIN):
                raise ConfigException(
                    f"The setting {role}.override.{name} is the worker's, not a connector's: all connectors "
                    "of a worker have its login"
                )
    ClientOptions.of(config, worker)
