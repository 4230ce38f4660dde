"""Who sits in front of the console: sessions, logins with users of the cluster, and tokens for forms.

Without a login there is one workspace for each cluster and everybody uses it; a session is then a number in a
cookie and nothing is kept of it but the messages that it has not seen. With a login the session has its own
workspaces, which know the user's password or token and nobody else's.

Invariant: a session ends after eight hours without use, and with its access token where it has one that
cannot be renewed. There are at most so many of them, and the one that
was not used for the longest time makes room. A form is taken only with the token of its session.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from moldau.base.clock import Clock
from moldau.console.oidc.flow import PendingLogins
from moldau.console.oidc.provider import Grant, ProviderAway
from moldau.console.settings import ConsoleSettings
from moldau.console.workspace import Workspace

MAX_SESSIONS = 1_000
IDLE_SECONDS = 8 * 3600.0
_MAX_MESSAGES = 5
#: Failed logins that one address may try within a minute.
MAX_ATTEMPTS = 10
_ATTEMPT_SECONDS = 60.0
#: An access token is renewed so long before it ends.
_EARLY_SECONDS = 60.0
#: A console whose users have gone stops looking at their clusters.
_SAMPLING_IDLE_SECONDS = 900.0


@dataclass(slots=True)
class Session:
    id: str
    user: str | None = None
    used: float = 0.0
    #: What to tell on the next page: kind (``good``, ``bad``) and words.
    messages: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=_MAX_MESSAGES))
    #: Those of a user who logged in, by cluster.
    workspaces: dict[str, Workspace] = field(default_factory=dict)
    #: Whether the user's role lets them look and no more.
    read_only: bool = False
    #: Logins at a provider that were begun here.
    pending_logins: PendingLogins = field(default_factory=PendingLogins)
    #: What the provider gave for the login.
    grant: Grant | None = None
    renewing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Sessions:
    def __init__(self, settings: ConsoleSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._shared: dict[str, Workspace] = {}
        self._attempts: OrderedDict[str, deque[float]] = OrderedDict()
        self._ended: list[Workspace] = []

    def find(self, session_id: str | None) -> Session | None:
        if session_id is None:
            return None
        found = self._sessions.get(session_id)
        if found is None:
            return None
        if self._clock.monotonic() - found.used > IDLE_SECONDS:
            self.end(session_id)
            return None
        found.used = self._clock.monotonic()
        self._sessions.move_to_end(session_id)
        return found

    def begin(self, user: str | None = None) -> Session:
        """A new session, with a new number: one that was known before the login is worth nothing after."""
        session = Session(secrets.token_urlsafe(24), user, self._clock.monotonic())
        self._sessions[session.id] = session
        while len(self._sessions) > MAX_SESSIONS:
            # Those who only look at the login page make room before those who are at work.
            visitors = (each for each, found in self._sessions.items() if found.user is None)
            self.end(next(visitors, next(iter(self._sessions))))
        return session

    def end(self, session_id: str) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._ended += session.workspaces.values()

    def token(self, session: Session) -> str:
        """What a form of this session carries."""
        return hmac.new(self._secret, session.id.encode(), hashlib.sha256).hexdigest()

    def is_token(self, session: Session, given: str) -> bool:
        return hmac.compare_digest(self.token(session).encode(), given.encode("utf-8", "replace"))

    # --- logins ---------------------------------------------------------------------------------

    def may_try(self, address: str) -> bool:
        """Whether an address may try to log in once more; counts the attempt."""
        now = self._clock.monotonic()
        tried = self._attempts.setdefault(address, deque())
        self._attempts.move_to_end(address)
        while len(self._attempts) > MAX_SESSIONS:
            self._attempts.popitem(last=False)
        while tried and now - tried[0] > _ATTEMPT_SECONDS:
            tried.popleft()
        if len(tried) >= MAX_ATTEMPTS:
            return False
        tried.append(now)
        return True

    def forgive(self, address: str) -> None:
        self._attempts.pop(address, None)

    async def log_in(self, user: str, password: str) -> Session:
        """A session of a user whom the cluster lets in; the ``KafkaError`` of the cluster otherwise."""
        workspaces = {
            each.name: Workspace(each, each.security(user, password), user, self._clock)
            for each in self._settings.clusters
        }
        return await self._begin_with(user, workspaces)

    async def _begin_with(self, user: str, workspaces: dict[str, Workspace]) -> Session:
        try:
            await workspaces[self._settings.clusters[0].name].cluster()
        except BaseException:
            for each in workspaces.values():
                await each.close()
            raise
        session = self.begin(user)
        session.workspaces = workspaces
        return session

    async def log_in_with(self, grant: Grant) -> Session:
        """A session of a person whom the provider vouches for, if the first cluster lets the token in."""
        workspaces = {
            each.name: Workspace(
                each, each.security_of_token(grant.access_token), grant.person.name, self._clock
            )
            for each in self._settings.clusters
        }
        session = await self._begin_with(grant.person.name, workspaces)
        session.grant, session.read_only = grant, grant.person.read_only
        return session

    async def renewed(self, session: Session, renew: Callable[[Grant], Awaitable[Grant]]) -> Session | None:
        """The session with an access token that still counts; None for one that has ended."""
        async with session.renewing:
            grant = session.grant
            assert grant is not None
            left = grant.ends_at - self._clock.monotonic()
            if left > (_EARLY_SECONDS if grant.refresh_token else 0):
                return session
            if not grant.refresh_token:
                self.end(session.id)
                return None
            try:
                session.grant = grant = await renew(grant)
            except ProviderAway:
                if left > 0:
                    return session
                raise
            session.user, session.read_only = grant.person.name, grant.person.read_only
            for each in session.workspaces.values():
                await each.log_in_again(each.settings.security_of_token(grant.access_token))
            return session

    # --- workspaces -----------------------------------------------------------------------------

    async def workspace(self, session: Session, name: str) -> Workspace | None:
        await self.close_ended()
        if self._settings.login:
            found = session.workspaces.get(name)
            if found is not None:
                found.start_sampling(self._settings.sample_seconds, _SAMPLING_IDLE_SECONDS)
            return found
        if name not in self._shared:
            settings = self._settings.cluster(name)
            if settings is None:
                return None
            self._shared[name] = Workspace(settings, settings.security(), None, self._clock)
        found = self._shared[name]
        found.start_sampling(self._settings.sample_seconds, None)
        return found

    async def close_ended(self) -> None:
        while self._ended:
            await self._ended.pop().close()

    async def close(self) -> None:
        for session_id in list(self._sessions):
            self.end(session_id)
        await self.close_ended()
        for each in self._shared.values():
            await each.close()
