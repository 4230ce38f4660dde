"""Parses ``listeners``, ``advertised.listeners`` and related settings, and checks them against each other.

Nothing is bound or resolved here: port 0 and an empty host stay as they are until the server binds them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moldau.base.settings import SettingError
from moldau.cluster.configs.broker_configs import SECURITY_PROTOCOLS
from moldau.cluster.records import Endpoint

DEFAULT_PROTOCOLS = {protocol: protocol for protocol in SECURITY_PROTOCOLS}

_HOST_CHARACTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-%._:")


class Listeners(NamedTuple):
    """The endpoints to bind, to advertise, and for other brokers; those of the controller are left out."""

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker: Endpoint
    #: Names of listeners that were left out because ``controller.listener.names`` has them.
    left_out: tuple[str, ...]


def parse_listeners(text: str, protocols: Mapping[str, str] = DEFAULT_PROTOCOLS) -> list[Endpoint]:
    """The listeners of a text like ``PLAINTEXT://127.0.0.1:9092,INTERNAL://[::1]:9093``."""
    return _listeners("listeners", [item.strip() for item in text.split(",")], protocols)


def _listeners(setting: str, items: Iterable[str], protocols: Mapping[str, str]) -> list[Endpoint]:
    found = [_listener(setting, item, protocols) for item in items]
    if len({listener.name for listener in found}) < len(found):
        shown = ", ".join(map(str, found))
        raise SettingError(
            setting, f"{setting}: Each listener must have a different name, listeners: {shown}"
        )
    return found


def _listener(setting: str, text: str, protocols: Mapping[str, str]) -> Endpoint:
    name, colon, address = text.partition("://")
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not (name and colon and port.isdecimal() and port.isascii() and set(host) <= _HOST_CHARACTERS):
        reason = f"{setting}: Unable to parse {text} to a broker endpoint; NAME://host:port is what it takes"
        raise SettingError(setting, reason)
    if len(port) > 5 or int(port) > 65535:
        raise SettingError(setting, f"{setting}: The port of {text} must be between 0 and 65535")
    name = name.upper()
    if name not in protocols:
        reason = (
            f"{setting}: No security protocol defined for listener {name} in listener.security.protocol.map"
        )
        raise SettingError(setting, reason)
    return Endpoint(name, host, int(port), protocols[name])


def parse_protocol_map(text: str) -> dict[str, str]:
    """Listener names and their protocols, from a text like ``INTERNAL:PLAINTEXT,PUBLIC:SASL_SSL``."""
    setting = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, _, protocol = (part.strip().upper() for part in item.rpartition(":"))
        if not name or protocol not in SECURITY_PROTOCOLS:
            allowed = ", ".join(SECURITY_PROTOCOLS)
            reason = (
                f"Invalid security protocol `{protocol}` defined in {setting}: {item} must be NAME:protocol"
            )
            raise SettingError(setting, f"{reason}, with one of {allowed}")
        protocols[name] = protocol
    return protocols


def broker_listeners(values: Mapping[str, Any]) -> Listeners:
    """The listeners of a broker with these settings; SettingError when they contradict each other."""
    protocols = parse_protocol_map(values["listener.security.protocol.map"])
    controller = {name.upper() for name in values["controller.listener.names"] or ()}
    # A listener that is not opened needs no protocol.
    protocols = {**dict.fromkeys(controller, "PLAINTEXT"), **protocols}
    every = _listeners("listeners", values["listeners"], protocols)
    bound = [listener for listener in every if listener.name not in controller]
    if not bound:
        raise SettingError("listeners", "listeners must have at least one that is not for the controller")
    _check_ports(bound)
    named = _listeners(
        "advertised.listeners", values["advertised.listeners"] or values["listeners"], protocols
    )
    advertised = tuple(listener for listener in named if listener.name not in controller)
    _check_advertised(bound, advertised)
    left_out = tuple(listener.name for listener in every if listener.name in controller)
    return Listeners(tuple(bound), advertised, _inter_broker(values, advertised), left_out)


def _check_ports(listeners: Iterable[Endpoint]) -> None:
    by_port: dict[int, list[Endpoint]] = {}
    for listener in listeners:
        by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        families = sorted(map(_family, sharing))
        if port and len(sharing) > 1 and families != [4, 6]:
            reason = (
                "listeners: Each listener must have a different port unless exactly one listener has an IPv4 "
                f"address and the other IPv6 address, listeners: {', '.join(map(str, sharing))}"
            )
            raise SettingError("listeners", reason)


def _family(listener: Endpoint) -> int:
    """4 or 6 for an IP address, 0 for a host name or no host."""
    if ":" in listener.host:
        return 6
    parts = listener.host.split(".")
    return 4 if len(parts) == 4 and all(part.isdecimal() for part in parts) else 0


def _check_advertised(bound: Iterable[Endpoint], advertised: Iterable[Endpoint]) -> None:
    setting = "advertised.listeners"
    names = [listener.name for listener in bound]
    advertised = list(advertised)
    for listener in advertised:
        if listener.name not in names:
            reason = (
                f"{setting} listener names must be equal to or a subset of the ones defined in listeners. "
                f"Found {listener.name}. The valid options based on the current configuration are "
                f"{','.join(names)}"
            )
            raise SettingError(setting, reason)
        if listener.host == "0.0.0.0":
            reason = f"{setting} cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
            raise SettingError(setting, reason)
    if not advertised:
        raise SettingError(setting, f"{setting} must have at least one of {','.join(names)}")


def _inter_broker(values: Mapping[str, Any], advertised: tuple[Endpoint, ...]) -> Endpoint:
    setting = "inter.broker.listener.name"
    name = values[setting]
    for listener in advertised:
        if listener.name == (name or values["security.inter.broker.protocol"]).upper():
            return listener
    if name is not None:
        reason = (
            f"{setting} must be a listener name defined in advertised.listeners. The valid options based on "
            f"currently configured listeners are {','.join(listener.name for listener in advertised)}"
        )
        raise SettingError(setting, reason)
    return advertised[0]
