"""Who asks: a callable that turns a request into a principal, or raises a problem (401, 403).

    application = Application(…, authenticate=BasicAuthentication({"ann": "secret"}, "my realm"))

Invariant: no message contains a secret, and comparing takes as long for a wrong name as for a wrong password.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from starlette.requests import Request

from moldau.web.problems import Problem

#: A user in the words of Kafka's PlainLoginModule: user_ann="secret"
_JAAS_USER = re.compile(r"""user_([^=\s:]+)\s*=\s*("?)(.*?)\2\s*;?""")


@dataclass(frozen=True, slots=True)
class Principal:
    name: str
    #: False where whoever asks only says so, and somebody else will look.
    is_verified: bool = True


#: Where the server leaves the certificate of a connection's other side, in the scope's state.
PEER_CERTIFICATE = "peer_certificate"
#: The principal of requests without authentication; Kafka's name for it.
ANONYMOUS = Principal("ANONYMOUS")


class Authenticate(Protocol):
    async def __call__(self, request: Request) -> Principal: ...


async def anybody(request: Request) -> Principal:
    """No authentication: everybody may do everything."""
    return ANONYMOUS


class BasicAuthentication:
    """Names and passwords of HTTP's basic authentication."""

    def __init__(self, users: Mapping[str, str], realm: str) -> None:
        self._users = dict(users)
        self._challenge = {"WWW-Authenticate": f'Basic realm="{realm}"'}

    async def __call__(self, request: Request) -> Principal:
        name, password = credentials(request.headers.get("authorization", ""))
        expected = self._users.get(name)
        right = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not right:
            raise Problem(401, 401, "Unauthorized", self._challenge)
        return Principal(name)


@dataclass(frozen=True, slots=True)
class HttpLogin:
    """What a request brings to show who asks; fields that it does not bring are empty."""

    name: str = ""
    password: str = field(default="", repr=False)
    #: A bearer token.
    token: str = field(default="", repr=False)
    #: The subject of the client's certificate, as ``ssl`` gives it.
    subject: tuple[tuple[tuple[str, str], ...], ...] = ()


class MappedAuthentication:
    """Leaves to a function who a login is; None is nobody, which is refused."""

    def __init__(self, principal_of: Callable[[HttpLogin], Principal | None], realm: str) -> None:
        self._principal_of = principal_of
        self._challenge = {"WWW-Authenticate": f'Basic realm="{realm}"'}

    async def __call__(self, request: Request) -> Principal:
        found = self._principal_of(http_login(request))
        if found is None:
            raise Problem(401, 401, "Unauthorized", self._challenge)
        return found


def http_login(request: Request) -> HttpLogin:
    """The login of a request, believed in nothing so far but the certificate, which TLS has checked."""
    header = request.headers.get("authorization", "")
    scheme, _, rest = header.partition(" ")
    name, password = credentials(header)
    certificate = request.scope.get("state", {}).get(PEER_CERTIFICATE) or {}
    token = rest.strip() if scheme.lower() == "bearer" else ""
    return HttpLogin(name, password, token, certificate.get("subject", ()))


def credentials(header: str) -> tuple[str, str]:
    """Name and password of an Authorization header; both empty where it has none."""
    scheme, _, data = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(data.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def user_entries(text: str) -> list[str]:
    """The entries of a file of users; an empty line, or one that begins with #, is none."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def read_users(entries: Iterable[str]) -> dict[str, str]:
    """Users from entries ``NAME:PASSWORD``, or ``user_NAME="PASSWORD"`` as in a JAAS file of Kafka's.

    ValueError with the number of a wrong one.
    """
    found: dict[str, str] = {}
    for place, entry in enumerate(entries, 1):
        jaas = _JAAS_USER.fullmatch(entry)
        name, colon, password = (jaas[1], ":", jaas[3]) if jaas else entry.partition(":")
        if not colon or not name:
            # Not the text itself: it may be a password.
            raise ValueError(f"user number {place} has not the form NAME:PASSWORD")
        found[name] = password
    return found
