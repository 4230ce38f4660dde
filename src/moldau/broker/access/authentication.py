"""How a client shows who it is: by SASL before its first request, by its certificate, or not at all.

Invariant: before a login nothing is answered but ApiVersions (once), SaslHandshake and SaslAuthenticate, and
no frame is larger than ``sasl.server.max.receive.size``. A failed login is answered late and ends the
connection. A session that is over takes no request but a new login of the same principal.
"""

import logging
import secrets
import struct
from collections.abc import Callable, Mapping
from typing import Any

from moldau.broker.access.delegation_tokens import secret_key, token_login
from moldau.broker.access.failed_logins import LONGEST_WAIT_SECONDS, FailedLogins
from moldau.broker.access.kerberos import gssapi_logins
from moldau.broker.apis import TABLE, unsupported_api_versions
from moldau.broker.bounds.flow_control import Limits
from moldau.broker.connection import Connection
from moldau.broker.context import CloseConnection, RequestContext, Services
from moldau.broker.dispatch import ELEMENTS_AT_ONCE, Dispatch, Route, encode_v0
from moldau.cluster.configs.listener_settings import ListenerSettings
from moldau.cluster.records import Endpoint
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.framing import skip_header_tags
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from moldau.protocol.messages.sasl_handshake import SaslHandshakeResponse
from moldau.protocol.primitives import MalformedMessage
from moldau.security import scram
from moldau.security.jaas import plain_users
from moldau.security.principals import (
    ANONYMOUS,
    Identity,
    Principal,
    PrincipalMapping,
    distinguished_name,
)
from moldau.security.sasl.client import MECHANISMS
from moldau.security.sasl.server import (
    AuthenticationFailed,
    Conversation,
    IllegalConversation,
    Plain,
    Scram,
)
from moldau.security.scram import ScramCredential, ScramMechanism

log = logging.getLogger("moldau.broker.access.authentication")

_HEADER = struct.Struct(">hhih")
_SIZE = struct.Struct(">i")
#: So long a client may take for its login.
_LOGIN_SECONDS = 30.0
#: A client may not log in again sooner than this.
_LEAST_SESSION_MS = 1000

#: Starts a conversation of one mechanism.
Begin = Callable[[], Conversation]


class Login:
    """Where a connection stands on its way in."""

    __slots__ = (
        "asked_versions",
        "authenticated_at_ms",
        "conversation",
        "ended",
        "mechanism",
        "raw",
        "since",
        "stood_in_line",
    )

    def __init__(self) -> None:
        self.asked_versions = False
        self.mechanism = ""
        self.conversation: Conversation | None = None
        #: Tokens come bare after SaslHandshake v0, and in SaslAuthenticate after v1.
        self.raw = False
        self.ended = False
        self.authenticated_at_ms = 0
        #: The identity before, when a client logs in again.
        self.since: Identity | None = None
        #: Whether it was counted among the tries of its address already.
        self.stood_in_line = False


class SaslListener:
    """One listener whose clients log in; ``frame`` takes what they send until they have."""

    def __init__(
        self,
        listener: Endpoint,
        settings: ListenerSettings,
        services: Services,
        dispatch: Dispatch,
        limits: Limits,
        conversations: Mapping[str, Begin],
    ) -> None:
        self._name = listener.name
        self._services = services
        self._dispatch = dispatch
        self._limits = limits
        self.first_limits = Limits(
            settings["sasl.server.max.receive.size"],
            limits.inflight_requests,
            limits.outbound_bytes,
            of_strangers=True,
        )
        self._conversations = conversations
        self._lifetime_ms: int = settings["connections.max.reauth.ms"]
        self._delay_seconds: float = settings["connection.failed.authentication.delay.ms"] / 1000
        self._logins: dict[Connection, Login] = {}
        self._failed = FailedLogins()
        #: By API key and version, as they are asked for; there are no more than the table has.
        self._routes: dict[tuple[int, int], Route] = {}

    # --- frames before the login ----------------------------------------------------------------

    def frame(self, frame: memoryview, connection: Connection) -> None:
        login = self._logins.get(connection)
        if login is None:
            login = self._logins[connection] = Login()
        if login.ended:
            return
        if login.conversation is not None:
            seconds = self._failed.seconds_to_wait(connection.host, self._services.clock.monotonic())
            if seconds > 0:
                self._later(bytes(frame), login, connection, seconds)
                return
        self._take(frame, login, connection)

    def _later(self, frame: bytes, login: Login, connection: Connection, seconds: float) -> None:
        """A try of an address that failed too often: it is looked at when its turn comes."""
        if seconds >= LONGEST_WAIT_SECONDS:
            login.ended = True
            connection.close(f"too many logins from {connection.host} have failed")
            return
        connection.mute()
        login.stood_in_line = True

        def look() -> None:
            if not connection.closing:
                self._take(memoryview(frame), login, connection)
                connection.unmute()

        self._services.timers.after(seconds, look)

    def _take(self, frame: memoryview, login: Login, connection: Connection) -> None:
        try:
            if login.raw and login.conversation is not None:
                self._raw_token(bytes(frame), login, connection)
            else:
                self._request(frame, login, connection)
        except (MalformedMessage, CloseConnection, IllegalConversation) as error:
            login.ended = True
            connection.close(f"before its login: {error}")

    def expect(self, connection: Connection) -> None:
        """A client that does not log in soon is gone, or wants to keep others out."""

        def late() -> None:
            if connection.identity.principal == ANONYMOUS and not connection.closing:
                connection.close(f"no login within {_LOGIN_SECONDS:.0f} seconds")

        self._services.timers.after(_LOGIN_SECONDS, late)

    def forget(self, connection: Connection) -> None:
        self._logins.pop(connection, None)

    def _request(self, frame: memoryview, login: Login, connection: Connection) -> None:
        try:
            key, version, correlation_id, size = _HEADER.unpack_from(frame)
        except struct.error:
            raise MalformedMessage(f"{len(frame)} bytes are too few for a header") from None
        api = TABLE.get(ApiKey(key)) if key in ApiKey._value2member_map_ else None
        if api is None:
            raise CloseConnection(f"API key {key} is not known here")
        api_key = ApiKey(key)
        begun = login.conversation is not None
        if not begun and api_key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            raise CloseConnection(f"{api_key.name} without a login")
        if not api.minimum <= version <= api.maximum:
            if api_key is not ApiKey.API_VERSIONS or begun:
                raise CloseConnection(f"{api_key.name} has no version {version} here")
            connection.send(encode_v0(correlation_id, unsupported_api_versions()))
            return
        route = self._routes.get((key, version))
        if route is None:
            route = self._routes[key, version] = Route(api, api_key, version, api.handle)
        position = _HEADER.size + max(size, 0)
        if route.flexible:
            position = skip_header_tags(frame, position)
        request, _ = route.read(frame, position, ELEMENTS_AT_ONCE)
        context = RequestContext(self._services, connection, key, version, correlation_id, None)
        answer = _Answer(route, context, connection)
        if api_key is ApiKey.SASL_AUTHENTICATE:
            self._token(bytes(request.auth_bytes), answer, login, connection)
        elif begun:
            message = f"Unexpected Kafka request of type {api_key.name} during SASL authentication."
            error = KafkaError(ErrorCode.ILLEGAL_SASL_STATE, message)
            self._refuse(answer, api.fail(request, error, context), login, connection, message)
        elif api_key is ApiKey.SASL_HANDSHAKE:
            self._handshake(request.mechanism, answer, login, connection)
        else:
            self._versions(request, api, answer, login)

    def _versions(self, request: Any, api: Any, answer: "_Answer", login: Login) -> None:
        if login.asked_versions:
            raise CloseConnection("ApiVersions for a second time")
        try:
            response = answer.route.handle(request, answer.context)
            login.asked_versions = True
        except KafkaError as error:
            response = api.fail(request, error, answer.context)
        answer.send(response)

    def _handshake(self, mechanism: str, answer: "_Answer", login: Login, connection: Connection) -> None:
        offered = list(self._conversations)
        begin = self._conversations.get(mechanism)
        if begin is None:
            refusal = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered)
            self._refuse(answer, refusal, login, connection, f"mechanism {mechanism!r} is not offered")
            return
        login.mechanism, login.conversation = mechanism, begin()
        login.raw = answer.context.api_version == 0
        answer.send(SaslHandshakeResponse(ErrorCode.NONE, offered))

    # --- tokens ---------------------------------------------------------------------------------

    def _token(self, token: bytes, answer: "_Answer", login: Login, connection: Connection) -> None:
        try:
            said = self._step(token, login)
        except AuthenticationFailed as error:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            refusal = SaslAuthenticateResponse(code, str(error), b"", 0)
            self._refuse(answer, refusal, login, connection, str(error))
            return
        lifetime_ms = self._complete(login, connection)
        answer.send(SaslAuthenticateResponse(ErrorCode.NONE, "", said, lifetime_ms))

    def _raw_token(self, token: bytes, login: Login, connection: Connection) -> None:
        try:
            said = self._step(token, login)
        except AuthenticationFailed as error:
            self._refuse(None, None, login, connection, str(error))
            return
        self._complete(login, connection)
        connection.send([bytearray(_SIZE.pack(len(said)) + said)])

    def _step(self, token: bytes, login: Login) -> bytes:
        assert login.conversation is not None
        said = login.conversation.step(token)
        identity, before = login.conversation.identity, login.since
        if identity is not None and before is not None and identity.principal != before.principal:
            raise AuthenticationFailed(
                "Cannot change principals during re-authentication from "
                f"{before.principal.type}.{before.principal.name}: "
                f"{identity.principal.type}.{identity.principal.name}"
            )
        return said

    def _complete(self, login: Login, connection: Connection) -> int:
        """Lets a client in whose conversation is over; returns how long its session lasts, 0 for ever."""
        assert login.conversation is not None
        identity = login.conversation.identity
        if identity is None:
            return 0
        self._services.logins[self._name, True] += 1
        now_ms = self._services.clock.now_ms()
        ends = [identity.expires_at_ms] if identity.expires_at_ms is not None else []
        if self._lifetime_ms > 0:
            ends.append(now_ms + self._lifetime_ms)
        expires_at_ms = min(ends, default=None)
        connection.identify(identity._replace(expires_at_ms=expires_at_ms))
        log.info("%s is logged in from %s with %s", identity.principal, connection.peer, login.mechanism)
        if expires_at_ms is None:
            self.forget(connection)
            connection.hand_over(self._dispatch.frame, self._limits)
            return 0
        login.conversation, login.raw, login.authenticated_at_ms = None, False, now_ms
        connection.hand_over(self._session_frame, self._limits)
        return max(0, expires_at_ms - now_ms)

    def _session_frame(self, frame: memoryview, connection: Connection) -> None:
        """Requests of a session that ends some time: a handshake begins the next one."""
        now_ms = self._services.clock.now_ms()
        if len(frame) >= 2 and frame[0] == 0 and frame[1] == ApiKey.SASL_HANDSHAKE:
            login = self._logins[connection]
            if now_ms - login.authenticated_at_ms >= _LEAST_SESSION_MS:
                login.since = connection.identity
                connection.hand_over(self.frame, self._limits)
                self.frame(frame, connection)
                return
        expires_at_ms = connection.identity.expires_at_ms
        if expires_at_ms is not None and now_ms >= expires_at_ms:
            connection.close("its session is over and it did not log in again")
        else:
            self._dispatch.frame(frame, connection)

    # --- refusals -------------------------------------------------------------------------------

    def _refuse(
        self, answer: "_Answer | None", response: Any, login: Login, connection: Connection, reason: str
    ) -> None:
        """Answers late, then closes: whoever guesses passwords waits for each of them."""
        login.ended = True
        self._services.logins[self._name, False] += 1
        if not login.stood_in_line:
            self._failed.failed(connection.host, self._services.clock.monotonic())
        log.info("login from %s on %s failed: %s", connection.peer, self._name, _printable(reason))
        if self._services.audit is not None:
            details = {"listener": self._name, "mechanism": login.mechanism, "reason": reason}
            self._services.audit.write("login failed", connection.principal, connection.host, **details)

        def end() -> None:
            if connection.closing:
                return
            if answer is not None:
                answer.send(response)
            connection.finish()

        self._services.timers.after(self._delay_seconds, end)


class _Answer:
    """Where the answer to a request goes."""

    __slots__ = ("connection", "context", "route")

    def __init__(self, route: Route, context: RequestContext, connection: Connection) -> None:
        self.route = route
        self.context = context
        self.connection = connection

    def send(self, response: Any) -> None:
        self.connection.send(self.route.encode(self.context.correlation_id, response))


# --- what a listener offers ----------------------------------------------------------------------------


def conversations(settings: ListenerSettings, services: Services) -> dict[str, Begin]:
    """The mechanisms of a listener; ValueError, with what to do, for what it cannot offer."""
    offered: dict[str, Begin] = {}
    for mechanism in settings["sasl.enabled.mechanisms"]:
        offered[mechanism] = _mechanism(mechanism, settings, services)
    if not offered:
        raise ValueError(f"{settings.prefix}sasl.enabled.mechanisms must name a mechanism")
    return offered


def _mechanism(mechanism: str, settings: ListenerSettings, services: Services) -> Begin:
    if mechanism == "PLAIN":
        text = settings.jaas(mechanism)
        users = plain_users(text) if text else {}
        if not users:
            raise ValueError(
                f"PLAIN has no users: set {settings.prefix}plain.sasl.jaas.config to a PlainLoginModule with "
                "user_<name>=<password>"
            )
        return _plain(text or "", users, settings.name, services)
    if mechanism in scram.MECHANISMS:
        return _scram(scram.MECHANISMS[mechanism], services, settings["moldau.scram.old.librdkafka.allow"])
    if mechanism == "OAUTHBEARER":
        # An HTTP client comes with it, which a broker without such logins has no use for.
        from moldau.broker.access.bearer_keys import BearerKeys

        return BearerKeys(settings, services).begin
    if mechanism == "GSSAPI":
        return gssapi_logins(settings)
    raise ValueError(
        f"sasl.enabled.mechanisms names {mechanism}, which this broker does not offer; set "
        f"{settings.prefix}sasl.enabled.mechanisms to one or more of {', '.join(MECHANISMS)}"
    )


def _plain(text: str, users: Mapping[str, str], listener_name: str, services: Services) -> Begin:
    """Users may change while the broker runs; a line without any is not taken over."""

    def begin() -> Conversation:
        nonlocal text, users
        now = ListenerSettings(services.settings.layers, listener_name).jaas("PLAIN")
        if now and now != text:
            text, users = now, plain_users(now) or users
        return Plain(users)

    return begin


def _scram(mechanism: ScramMechanism, services: Services, old_clients: bool) -> Begin:
    own = secrets.token_bytes(32)

    def look_up(user: str, by_token: bool) -> tuple[ScramCredential, Identity] | None:
        if by_token:
            return token_login(mechanism, user, services)
        identity = Identity(Principal(user))  # for unknown users too: it takes the same time
        known = services.image.security.credentials.get((user, mechanism))
        return None if known is None else (known, identity)

    def fake(user: str) -> ScramCredential:
        """The same at every broker and after a restart, as that of a user who is there."""
        credentials = services.image.security.credentials.items()
        like = next((each for (_, kind), each in credentials if kind == mechanism), None)
        shared = f"{secret_key(services)}".encode()
        secret = own if like is None else shared + like.stored_key
        return scram.fake_credential(mechanism, user, secret, like)

    return lambda: Scram(mechanism, look_up, fake, secrets.token_urlsafe(24), old_clients=old_clients)


def certificate_identity(certificate: Any, mapping: PrincipalMapping) -> Identity | None:
    """Whom a client's certificate names; None for a client without one."""
    if not certificate or not certificate.get("subject"):
        return None
    return Identity(Principal(mapping.name_of(distinguished_name(certificate["subject"]))))


def _printable(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode()
