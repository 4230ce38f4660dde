"""The broker's side of SASL: PLAIN, SCRAM and OAUTHBEARER as conversations without sockets.

    conversation = Scram(ScramMechanism.SHA_256, look_up, nonce)
    challenge = conversation.step(token)        # goes to the client; its next token comes back
    conversation.identity                       # who it is, once the conversation is over

Invariant: ``identity`` is set by a proof and nothing else. A refusal is ``AuthenticationFailed``, in Kafka's
words and without a secret; a user that does not exist and a wrong password look the same from outside: the
same number of messages, the same cost, the same words.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Protocol

from moldau.security import scram
from moldau.security.principals import Identity, Principal
from moldau.security.scram import ScramCredential, ScramMechanism


class AuthenticationFailed(Exception):
    """The client is refused; the message is for it."""


class IllegalConversation(Exception):
    """What came is no message of this conversation at all: the connection is closed without an answer."""


class Conversation(Protocol):
    #: None until the conversation is over.
    identity: Identity | None

    def step(self, token: bytes) -> bytes: ...


def _refused(mechanism: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        f"{mechanism}"
    )


# --- PLAIN (RFC 4616) ----------------------------------------------------------------------------------


class Plain:
    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.identity: Identity | None = None

    def step(self, token: bytes) -> bytes:
        fields = token.decode("utf-8", "replace").split("\0", 3)
        if len(fields) != 3:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(fields)}")
        authorization_id, user, password = fields
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        known = self._passwords.get(user)
        # A user that is not there is compared too: the time tells nothing.
        same = hmac.compare_digest(password.encode(), (known or "").encode())
        if known is None or not same:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        _check_authorization_id(authorization_id, user)
        self.identity = Identity(Principal(user))
        return b""


def _check_authorization_id(authorization_id: str, user: str) -> None:
    if authorization_id not in ("", user):
        raise AuthenticationFailed(
            "Authentication failed: Client requested an authorization id that is different from username"
        )


# --- SCRAM (RFC 5802) ----------------------------------------------------------------------------------

_SASL_NAME = r"(?:[^,=\0]|=2C|=3D)+"
_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_SASL_NAME}))?,)"
    rf"(?P<bare>(?:m=[^,]*,)?n=(?P<name>{_SASL_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?P<extensions>(?:,[A-Za-z]+=[^,\0]+)*))"
)
_LAST = re.compile(
    r"(?P<unsigned>c=(?P<binding>[A-Za-z0-9/+=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?:,[A-Za-z]=[^,\0]+)*),p=(?P<proof>[A-Za-z0-9/+=]+)"
)

#: The credential of a user; the flag tells that the name is the id of a delegation token. The identity is
#: whom a success makes of the connection.
LookUp = Callable[[str, bool], tuple[ScramCredential, Identity] | None]


class Scram:
    """``fake`` stands in for users that do not exist, and ``nonce`` is this conversation's own.

    With ``old_clients`` librdkafka up to 2.6.0 is understood, which writes its own nonce in front of the
    whole one once more (github.com/confluentinc/librdkafka/pull/4895); Kafka 4 refuses it, as RFC 5802 asks.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        look_up: LookUp,
        fake: Callable[[str], ScramCredential],
        nonce: str,
        *,
        old_clients: bool = False,
    ) -> None:
        self._old_clients = old_clients
        self._mechanism = mechanism
        self._look_up = look_up
        self._fake = fake
        self._server_nonce = nonce
        self._known: ScramCredential | None = None
        self._candidate: Identity | None = None
        self._gs2 = self._nonce = self._doubled = self._said = ""
        self.identity: Identity | None = None

    def step(self, token: bytes) -> bytes:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise self._refused() from None
        return self._first(text) if self._known is None else self._last(self._known, text)

    def _first(self, text: str) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise self._refused()
        user = _unescaped(found["name"])
        _check_authorization_id(_unescaped(found["authzid"] or ""), user)
        extensions = dict(item.split("=", 1) for item in found["extensions"].split(",") if item)
        by_token = extensions.get("tokenauth", "").lower() == "true"
        # Made in any case: that a name is known must not be told by the time it takes.
        fake = self._fake(user)
        known = self._look_up(user, by_token)
        self._known, self._candidate = (fake, None) if known is None else known
        self._gs2, self._nonce = found["gs2"], found["nonce"] + self._server_nonce
        self._doubled = found["nonce"] + self._nonce
        salt = base64.b64encode(self._known.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._known.iterations}"
        self._said = f"{found['bare']},{answer}"
        return answer.encode()

    def _last(self, known: ScramCredential, text: str) -> bytes:
        found = _LAST.fullmatch(text)
        if found is None:
            raise self._refused()
        signed = f"{self._said},{found['unsigned']}".encode()
        proven = scram.proves(known, _decoded(found["proof"]), signed)
        bound = _decoded(found["binding"]) == self._gs2.encode()
        ours = hmac.compare_digest(found["nonce"], self._nonce)
        if self._old_clients:
            ours |= hmac.compare_digest(found["nonce"], self._doubled)
        if not (proven and bound and ours and self._candidate is not None):
            raise self._refused()
        self.identity = self._candidate
        signature = scram.server_signature(self._mechanism.algorithm, known.server_key, signed)
        return b"v=" + base64.b64encode(signature)

    def _refused(self) -> AuthenticationFailed:
        return _refused(self._mechanism.title)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


# --- OAUTHBEARER (RFC 7628) ----------------------------------------------------------------------------

_BEARER = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01"
    r"auth=(?P<scheme>[A-Za-z]+) +(?P<token>[-A-Za-z0-9._~+/]+=*)\x01"
    r"(?P<extensions>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_ACKNOWLEDGED = b"\x01"


class InvalidToken(Exception):
    """A bearer token that is not accepted; ``status`` is what RFC 7628 has the client told."""

    def __init__(self, status: str, scope: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.scope = scope

    def as_json(self) -> str:
        scope = f', "scope":"{self.scope}"' if self.scope else ""
        return f'{{"status":"{self.status}"{scope}}}'


class OAuthBearer:
    """``accept`` checks a token and tells who it speaks for; it raises ``InvalidToken``."""

    def __init__(self, accept: Callable[[str], Identity]) -> None:
        self._accept = accept
        self._refusal = ""
        self.identity: Identity | None = None

    def step(self, token: bytes) -> bytes:
        if self._refusal:
            if token == _ACKNOWLEDGED:
                raise AuthenticationFailed(self._refusal)
            raise _refused("OAUTHBEARER")
        found = _BEARER.fullmatch(token.decode("utf-8", "replace"))
        if found is None:
            raise _refused("OAUTHBEARER")
        if found["scheme"].lower() != "bearer":
            raise IllegalConversation("OAUTHBEARER with another scheme than Bearer")
        if any(item.startswith("auth=") for item in found["extensions"].split("\x01")):
            raise _refused("OAUTHBEARER")
        try:
            identity = self._accept(found["token"])
        except InvalidToken as error:
            self._refusal = error.as_json()
            return self._refusal.encode()
        authorization_id, name = _unescaped(found["authzid"] or ""), identity.principal.name
        if authorization_id not in ("", name):
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is "
                f"different from the token's principal name ({name})"
            )
        self.identity = identity
        return b""
