"""Both sides of GSSAPI (RFC 4752): Kerberos tokens, then an agreement that no layer follows.

Kerberos itself is behind ``Context``, so that this file knows no library and no key table.

Invariant: a client agrees to nothing before the broker has proved to be what its name says, and to no layer
but none. ``identity`` is set when the context is complete and the client has agreed, and is the name of the
ticket; what the client asks to be called is compared with it and never used instead.
"""

from collections.abc import Callable
from typing import Protocol

from moldau.security.principals import Identity, Principal
from moldau.security.sasl.client import SaslFailed
from moldau.security.sasl.server import AuthenticationFailed

#: "No security layer", with no buffer for one: TLS is what protects a connection here.
_OFFER = b"\x01\x00\x00\x00"
#: A ticket with the groups of a large directory has some tens of kilobytes.
_MOST_BYTES = 256 * 1024
#: More than any conversation of Kerberos has.
_MOST_STEPS = 10


class Context(Protocol):
    """One conversation of Kerberos; every method raises ``ValueError`` for a token that is none."""

    @property
    def complete(self) -> bool: ...

    @property
    def initiator(self) -> str:
        """Whose ticket it is: ``ann@EXAMPLE.COM``."""

    def step(self, token: bytes) -> bytes: ...

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


class Gssapi:
    """``name_of`` makes a user's name of a Kerberos name; ValueError where no rule fits."""

    def __init__(self, context: Context, name_of: Callable[[str], str]) -> None:
        self._context = context
        self._name_of = name_of
        self._offered = False
        self._steps = 0
        self.identity: Identity | None = None

    def step(self, token: bytes) -> bytes:
        self._steps += 1
        if len(token) > _MOST_BYTES or self._steps > _MOST_STEPS:
            raise _refused()
        try:
            return self._answer(token)
        except ValueError:
            raise _refused() from None

    def _answer(self, token: bytes) -> bytes:
        if self._offered:
            return self._agree(token)
        if not self._context.complete:
            answer = self._context.step(token)
            # With a proof of the broker's own the client says one empty word before it is offered anything.
            if answer or not self._context.complete:
                return answer
        elif token:
            raise ValueError("an empty message was expected")
        self._offered = True
        return self._context.wrap(_OFFER)

    def _agree(self, token: bytes) -> bytes:
        chosen = self._context.unwrap(token)
        if len(chosen) < 4 or chosen[0] != _OFFER[0]:
            raise ValueError("another security layer was chosen")
        name = self._context.initiator
        user = self._name_of(name)
        if chosen[4:].decode("utf-8") not in ("", name, user):
            raise ValueError("another authorization id")
        self.identity = Identity(Principal(user))
        return b""


def _refused() -> AuthenticationFailed:
    return AuthenticationFailed(
        "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
    )


# --- the client's side --------------------------------------------------------------------------------------


class ClientContext(Protocol):
    """The client's part of a conversation; every method raises ``ValueError`` for what it does not take."""

    @property
    def complete(self) -> bool: ...

    def step(self, token: bytes | None) -> bytes: ...

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


class GssapiClient:
    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._agreed = False

    def first(self) -> bytes:
        return self._asked(lambda: self._context.step(None))

    def answer(self, challenge: bytes) -> bytes | None:
        """The next token; None when nothing is left to say."""
        if self._agreed:
            return None
        return self._asked(lambda: self._next(challenge))

    def _next(self, challenge: bytes) -> bytes:
        if not self._context.complete:
            return self._context.step(challenge)  # empty once both sides are sure of each other
        offer = self._context.unwrap(challenge)
        if len(offer) != 4 or not offer[0] & _OFFER[0]:
            raise ValueError("it asks for a security layer; use SASL_SSL instead")
        self._agreed = True
        return self._context.wrap(_OFFER)

    def _asked(self, question: Callable[[], bytes]) -> bytes:
        try:
            return question()
        except ValueError as error:
            raise SaslFailed(f"Kerberos: {error}") from None
