"""Names and addresses of this machine: whether an address is loopback, and whether a request to it was meant
for it.

A listener on the loopback address without a login trusts whoever reaches it, and a browser on this machine
reaches it too: a foreign page only needs a name that leads here (DNS rebinding). Such a request carries that
name in ``Host``, and no program of this machine has a reason to use it.
"""

import ipaddress
import platform
from functools import lru_cache
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@lru_cache(maxsize=128)
def is_own_name(host_header: str, names: tuple[str, ...] = ()) -> bool:
    """Whether a ``Host`` header has an address, or a name of this machine; old clients send none."""
    if not host_header:
        return True
    try:
        name = urlsplit(f"//{host_header}").hostname or ""
    except ValueError:
        return False
    own = ("localhost", platform.node().lower(), *names)
    return name in own or name.endswith(".localhost") or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
