"""Which hosts connectors may talk to.

A connector with a URL makes the worker open connections from where the worker stands, which may be a network
that the writer of the configuration cannot reach. Names are resolved when a connector is made.

Invariant: every form of an address (``0x7f.1``, ``2130706433``, ``::ffff:…``) is judged as the address that
it is; the link-local ones, where clouds answer with credentials, are refused unless they are listed.
"""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from moldau.connect.errors import ConfigException

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str], Sequence[str]]


def resolve_host(name: str) -> list[str]:
    """The addresses of a name; none if nobody knows it."""
    try:
        return [str(each[4][0]) for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []


_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "instance-data"})


class AllowedHosts:
    def __init__(self, allowed: Sequence[str] = (), resolve: Resolve = resolve_host) -> None:
        self._names: list[str] = []
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._resolve = resolve
        for each in (part.strip().lower() for part in allowed):
            try:
                self._networks.append(ipaddress.ip_network(each, strict=False))
            except ValueError:
                self._names.append(each)

    def check(self, host: str) -> None:
        """Raises ConfigException for a host that connectors may not talk to."""
        name = host.strip().strip("[]").rstrip(".").lower()
        if not name:
            raise ConfigException("A host is missing")
        if any(fnmatchcase(name, pattern) for pattern in self._names):
            return
        addresses = [_plain(each) for each in self._resolve(name)]
        if addresses and all(any(each in net for net in self._networks) for each in addresses):
            return
        hidden = name in _METADATA_NAMES or any(each.is_link_local for each in addresses)
        if self._names or self._networks or hidden:
            raise ConfigException(
                f"The host {host} is not permitted to be reached. Next: the worker's "
                "connectors.allowed.hosts has to list it"
            )


def _plain(text: str) -> Address:
    found = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return found if mapped is None else mapped
