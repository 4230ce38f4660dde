"""How a broker logs in to another one: its own settings for the listener of brokers, as a client's settings.

Pure. Invariant: settings of the listener (``listener.name.<name>.…``) win over those of all listeners, as in
Kafka; a listener that asks for a login that this broker does not have is an error, never a try without one.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from moldau.base.settings import SettingError
from moldau.cluster.records import Endpoint

if TYPE_CHECKING:
    from moldau.client.transport.security import Security

#: Settings of a broker that mean the same to a client.
_SAME = (
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "ssl.keystore.location",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
_MECHANISM = "sasl.mechanism.inter.broker.protocol"


def peer_security(static: Mapping[str, str]) -> "Callable[[Endpoint], Security]":
    """How a broker with these settings reaches an endpoint of another one."""

    def security_of(endpoint: Endpoint) -> "Security":
        from moldau.client.transport.security import Security

        return Security.of(peer_client_settings(static, endpoint.name, endpoint.security_protocol))

    return security_of


def peer_client_settings(static: Mapping[str, str], listener: str, protocol: str) -> dict[str, str]:
    """Settings of Kafka's clients for a connection to that listener of another broker."""
    prefix = f"listener.name.{listener.lower()}."

    def value(name: str) -> str | None:
        return static.get(f"{prefix}{name}", static.get(name))

    settings = {"security.protocol": protocol}
    if protocol in ("SSL", "SASL_SSL"):
        settings |= {name: text for name in _SAME if (text := value(name)) is not None}
    if protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        mechanism = static.get(_MECHANISM)
        if mechanism is None:
            raise SettingError(
                _MECHANISM,
                f"{_MECHANISM} must be set: brokers reach each other by the listener {listener}, which asks "
                "for a login",
            )
        own = f"{mechanism.lower()}.sasl.jaas.config"
        names = (prefix + own, f"{prefix}sasl.jaas.config", own, "sasl.jaas.config")
        login = next((static[name] for name in names if name in static), None)
        if login is None:
            name = names[0]
            raise SettingError(
                name, f"{name} must be set: it has the username and password of this broker for the others"
            )
        settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
        if (service := value("sasl.kerberos.service.name")) is not None:
            settings["sasl.kerberos.service.name"] = service
    return settings
