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
#: Where clouds answer with credentials, beside link-local addresses.
_METADATA_ADDRESSES = frozenset(
    ipaddress.ip_address(each) for each in ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192")
)
#: IPv4 behind these prefixes: where a network translates, they lead to the address at their end.
_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("::/96"))


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
        hidden = name in _METADATA_NAMES or any(
            each.is_link_local or each in _METADATA_ADDRESSES for each in addresses
        )
        if self._names or self._networks or hidden:
            raise ConfigException(
                f"The host {host} is not permitted to be reached. Next: the worker's "
                "connectors.allowed.hosts has to list it"
            )


def _plain(text: str) -> Address:
    found = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        return found
    if any(found in each for each in _TRANSLATED) and int(found) > 1:  # ::1 is itself
        return ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    return found.ipv4_mapped or found
