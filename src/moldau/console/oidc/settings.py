"""What a console is told of its OpenID Connect provider.

    issuer = "https://login.example.com/realms/shop"       # a file for --oidc, in TOML
    client_id = "moldau-console"
    client_secret_file = "console.secret"
    public_url = "https://console.example.com"
    parameters = { audience = "kafka" }
    role_claim = "realm_access.roles"
    viewers = ["kafka-viewer"]
    editors = ["kafka-editor"]

Invariant: values only; what cannot be used, or would not be safe, is a ``ValueError`` in words. Roles only
take away: whatever a role says, the cluster decides with the person's own token.
"""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_LOCAL = ("localhost", "127.0.0.1", "::1")
#: What the console says itself in a request to the provider.
RESERVED = frozenset(
    {"client_id", "client_secret", "code", "code_challenge", "code_challenge_method", "code_verifier"}
    | {"grant_type", "nonce", "redirect_uri", "refresh_token", "request", "request_uri"}
    | {"response_mode", "response_type", "scope", "state"}
)
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")


@dataclass(frozen=True, slots=True)
class OidcSettings:
    issuer: str
    client_id: str
    #: Empty for a client without one, which PKCE keeps safe.
    client_secret: str = field(default="", repr=False)
    scope: str = "openid profile"
    #: More of the request, such as ``resource`` or ``audience``: what the access token is to be for.
    parameters: tuple[tuple[str, str], ...] = ()
    #: The claim that people are called by.
    user_claim: str = "sub"
    #: Where roles stand in the id token, with dots into objects; empty where roles play no part.
    role_claim: str = ""
    #: Roles that may look, and roles that may change things as well.
    viewers: tuple[str, ...] = ()
    editors: tuple[str, ...] = ()
    #: How browsers reach the console; empty for this machine alone.
    public_url: str = ""

    def __post_init__(self) -> None:
        check_endpoint(self.issuer, "the issuer")
        if not self.client_id:
            raise ValueError("a login by OpenID Connect needs a client id")
        if "openid" not in self.scope.split() or _SCOPE.fullmatch(self.scope) is None:
            raise ValueError(f"the scope is a list with openid in it, not {self.scope!r}")
        for name, _ in self.parameters:
            if not name or name in RESERVED:
                raise ValueError(f"the parameter {name!r} is the console's own")
        if bool(self.role_claim) != bool(self.viewers or self.editors):
            raise ValueError("roles need both: the claim that they stand in, and which of them may do what")
        if self.public_url:
            check_endpoint(self.public_url, "the public address")
            if urlsplit(self.public_url).path.strip("/") or urlsplit(self.public_url).query:
                raise ValueError("the public address has no path: the console stands at the root of its name")

    @property
    def discovery_url(self) -> str:
        return self.issuer.rstrip("/") + "/.well-known/openid-configuration"


def read_oidc(file: Path) -> OidcSettings:
    """The settings in a TOML file; other files that it names are found beside it."""
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no TOML: {error}") from None
    unknown = document.keys() - _KINDS.keys()
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(sorted(_KINDS))}")
    for name, kind in _KINDS.items():
        if not isinstance(document.get(name, kind()), kind):
            raise ValueError(f"{name} is {_WORDS[kind]}")
    given: dict[str, Any] = dict(document)
    for name in ("viewers", "editors"):
        given[name] = tuple(str(each) for each in given.get(name, ()))
    given["parameters"] = tuple((name, str(value)) for name, value in given.get("parameters", {}).items())
    secret = given.pop("client_secret_file", None)
    if secret is not None:
        given["client_secret"] = (file.parent / secret).read_text("utf-8").strip()
    missing = {"issuer", "client_id"} - given.keys()
    if missing:
        raise ValueError(f"missing: {', '.join(sorted(missing))}")
    return OidcSettings(**given)


_KINDS: dict[str, type] = {
    **dict.fromkeys(("issuer", "client_id", "client_secret", "client_secret_file", "scope"), str),
    **dict.fromkeys(("user_claim", "role_claim", "public_url"), str),
    **dict.fromkeys(("viewers", "editors"), list),
    "parameters": dict,
}
_WORDS: dict[type, str] = {str: "a text", list: "a list of texts", dict: "a table of texts"}


def check_endpoint(address: str, what: str) -> None:
    """ValueError for an address that tokens and secrets must not go to."""
    try:
        url = urlsplit(address)
        local = url.scheme == "http" and url.hostname in _LOCAL
    except ValueError:
        raise ValueError(f"{what} is no address") from None
    if not url.hostname or not (url.scheme == "https" or local) or url.username is not None or url.fragment:
        raise ValueError(f"{what} must be an https:// address (http:// on this machine alone)")
