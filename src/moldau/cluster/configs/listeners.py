"""The addresses of a broker: what ``listeners`` and its neighbours say, and whether they agree.

Invariant: texts in, listeners or a SettingError out; nothing is bound or looked up. Port 0 and an empty
host stay as they are: the server that binds them knows what became of them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moldau.base.settings import SettingError
from moldau.cluster.configs.broker_configs import SECURITY_PROTOCOLS

DEFAULT_PROTOCOLS = {protocol: protocol for protocol in SECURITY_PROTOCOLS}

#: The protocols that the server can speak today; a listener with another one must not open in plain text.
SPOKEN_PROTOCOLS = ("PLAINTEXT",)

_HOST_CHARACTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-%._:")


class Listener(NamedTuple):
    """One address, with its name and the security protocol that the name stands for."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Listeners(NamedTuple):
    """What to bind, what to tell clients, how other brokers come in; the controller's own are left out."""

    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker: Listener
    #: Names of listeners that were left out because ``controller.listener.names`` has them.
    left_out: tuple[str, ...]


def parse_listeners(text: str, protocols: Mapping[str, str] = DEFAULT_PROTOCOLS) -> list[Listener]:
    """The listeners of a text like ``PLAINTEXT://127.0.0.1:9092,INTERNAL://[::1]:9093``."""
    return _listeners("listeners", [item.strip() for item in text.split(",")], protocols)


def _listeners(setting: str, items: Iterable[str], protocols: Mapping[str, str]) -> list[Listener]:
    found = [_listener(setting, item, protocols) for item in items]
    if len({listener.name for listener in found}) < len(found):
        shown = ", ".join(map(str, found))
        raise SettingError(
            setting, f"{setting}: Each listener must have a different name, listeners: {shown}"
        )
    return found


def _listener(setting: str, text: str, protocols: Mapping[str, str]) -> Listener:
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
    return Listener(name, host, int(port), protocols[name])


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


def agree(values: Mapping[str, Any]) -> Listeners:
    """The listeners that the values of a broker's settings make together."""
    protocols = parse_protocol_map(values["listener.security.protocol.map"])
    controller = {name.upper() for name in values["controller.listener.names"] or ()}
    # A listener that is not opened needs no protocol.
    protocols = {**dict.fromkeys(controller, "PLAINTEXT"), **protocols}
    every = _listeners("listeners", values["listeners"], protocols)
    bound = [listener for listener in every if listener.name not in controller]
    if not bound:
        raise SettingError("listeners", "listeners must have at least one that is not for the controller")
    _check_ports(bound)
    for listener in bound:
        if listener.protocol not in SPOKEN_PROTOCOLS:
            spoken = ", ".join(SPOKEN_PROTOCOLS)
            reason = f"listeners: {listener} is for {listener.protocol}; this broker speaks {spoken} only"
            raise SettingError("listeners", reason)
    told = _listeners(
        "advertised.listeners", values["advertised.listeners"] or values["listeners"], protocols
    )
    advertised = tuple(listener for listener in told if listener.name not in controller)
    _check_advertised(bound, advertised)
    left_out = tuple(listener.name for listener in every if listener.name in controller)
    return Listeners(tuple(bound), advertised, _inter_broker(values, advertised), left_out)


def _check_ports(listeners: Iterable[Listener]) -> None:
    by_port: dict[int, list[Listener]] = {}
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


def _family(listener: Listener) -> int:
    """4 or 6 for an address, 0 for a name or no host."""
    if ":" in listener.host:
        return 6
    parts = listener.host.split(".")
    return 4 if len(parts) == 4 and all(part.isdecimal() for part in parts) else 0


def _check_advertised(bound: Iterable[Listener], advertised: Iterable[Listener]) -> None:
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


def _inter_broker(values: Mapping[str, Any], advertised: tuple[Listener, ...]) -> Listener:
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
