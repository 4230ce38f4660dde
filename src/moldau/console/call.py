"""One request to the console as its pages see it: the session, the cluster, forms, and the page around.

Invariant: a form changes something only with the token of its session, and never where the console is read-
only; what it did, or did not, is in the audit. What a person typed wrong is a ``WrongInput``, shown in words.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from moldau.base.clock import Clock
from moldau.client.registry.schema_registry import RegistryError
from moldau.console.advice import in_words, next_step, registry_step
from moldau.console.audit import Audit
from moldau.console.markup.html import Content, Markup, check_address, joined, path, tag
from moldau.console.markup.layout import Frame, error_box, framed
from moldau.console.masks import Masks
from moldau.console.oidc.provider import Provider
from moldau.console.sessions import Session, Sessions
from moldau.console.settings import ConsoleSettings
from moldau.console.workspace import Workspace
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.web.call import Asked, Call
from moldau.web.pages import page, redirect
from moldau.web.problems import http_problem

#: Streams (live tails and searches) that may run at the same time.
MAX_STREAMS = 64
#: The header of a page that asks for itself again.
REFRESH = "x-moldau-refresh"
_MAX_FIELDS = 200
_NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)


class WrongInput(Exception):
    """What a person typed that cannot be used, in words."""


class Refused(NamedTuple):
    """A form that was not taken: it is shown again with what was typed, and with why."""

    given: Mapping[str, str]
    words: str
    status: int
    #: Which form of its page, where there are several.
    form: str = ""


#: What makes a form come again.
REFUSALS = (WrongInput, KafkaError)


def refused(given: Mapping[str, str], error: WrongInput | KafkaError, form: str = "") -> Refused:
    if isinstance(error, WrongInput):
        return Refused(given, str(error), 400, form)
    return Refused(given, f"{in_words(error)}. {next_step(error)}", 502, form)


@dataclass(slots=True)
class Console:
    """The state that all requests share."""

    settings: ConsoleSettings
    clock: Clock
    sessions: Sessions
    audit: Audit
    masks: Masks
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0
    #: Queries of SQL that may run at the same time; each has a thread.
    queries: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    #: Downloads that may be made at the same time; each keeps its records until it is whole.
    downloads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))
    cookie: str = "moldau-console"
    secure: bool = False
    #: Whom people log in with, where that is not the cluster itself.
    provider: Provider | None = None


class ConsoleCall(Call):
    def __init__(self, console: Console, asked: Asked) -> None:
        super().__init__(asked)
        self.console = console
        self.session: Session = asked.request.scope["console.session"]
        self._is_new: bool = asked.request.scope.get("console.new", False)
        self._workspace: Workspace | None = None

    # --- where ----------------------------------------------------------------------------------

    @property
    def cluster_name(self) -> str:
        return self.parameters.get("cluster", "")

    async def workspace(self) -> Workspace:
        if self._workspace is None:
            self._workspace = await self.console.sessions.workspace(self.session, self.cluster_name)
            if self._workspace is None:
                raise http_problem(404, f"There is no cluster {self.cluster_name!r} here")
        return self._workspace

    def here(self, *segments: str) -> str:
        """An address within the same cluster."""
        return path("c", self.cluster_name, *segments)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """A parameter that is one of a few; the first one where it is something else."""
        given = self.text(name)
        return given if given in choices else choices[0]

    # --- forms ----------------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        return self.console.settings.read_only or self.session.read_only

    @property
    def may_change_services(self) -> bool:
        """Whether whoever asks may change something at the registry or at Connect.

        These know the console and not the person: with a login somebody has to say that this is meant, by
        an option or by a role.
        """
        settings = self.console.settings
        has_role = settings.oidc is not None and bool(settings.oidc.role_claim)
        return not self.read_only and (not settings.login or settings.shared_services or has_role)

    def check_services(self) -> None:
        if not self.may_change_services:
            raise http_problem(
                403,
                "Registry and Connect know this console and not you: it changes nothing there for people who "
                "log in, unless it was started with --shared-services",
            )

    def token(self) -> Markup:
        """The hidden field that every form has."""
        return tag("input", type="hidden", name="token", value=self.console.sessions.token(self.session))

    async def form(self, *, changes: bool = True) -> dict[str, str]:
        """The fields of a form that was sent; refuses one that another page has made."""
        body = (await self.raw_body()).decode("utf-8", "replace")
        try:
            sent = parse_qsl(body, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        except ValueError:
            raise http_problem(400, "The form has too many fields") from None
        # Browsers send the ends of lines as the two characters that no one typed.
        fields = {name: value.replace("\r\n", "\n") for name, value in sent}
        if not self.console.sessions.is_token(self.session, fields.get("token", "")):
            raise http_problem(403, "The form is too old, or comes from another page: load it again")
        if changes and self.read_only:
            raise http_problem(403, "This console is read-only: nothing can be changed with it")
        return fields

    def note(self, action: str, subject: str, outcome: str = "done") -> None:
        """For the audit."""
        client = self.request.client
        self.console.audit.note(
            user=self.principal.name,
            address="-" if client is None else client.host,
            cluster=self.cluster_name,
            action=action,
            subject=subject,
            outcome=outcome,
        )

    def done(self, message: str, location: str) -> Any:
        """Says on the next page that it worked."""
        self.session.messages.append(("good", message))
        return redirect(location, self.new_cookie())

    # --- answers --------------------------------------------------------------------------------

    def show(self, title: str, *content: Content, active: str = "", status: int = 200) -> Any:
        messages: list[tuple[str, str]] = []
        if REFRESH not in self.request.headers:
            # A page that refreshes itself has no place for them: the one that the form leads to shows them.
            messages = list(self.session.messages)
            self.session.messages.clear()
        frame = Frame(
            title=title,
            active=active,
            cluster=self.cluster_name,
            clusters=tuple(each.name for each in self.console.settings.clusters),
            user=self.session.user,
            read_only=self.read_only,
            messages=messages,
            token=self.token(),
        )
        return page(framed(frame, joined(*content)), status, self.new_cookie())

    @staticmethod
    def own_page(address: str) -> str:
        """The address where it is one of the console's own, and the start page otherwise."""
        try:
            check_address(address)
        except ValueError:
            return "/"
        return address if address.startswith("/") else "/"

    def new_cookie(self) -> dict[str, str]:
        if not self._is_new:
            return {}
        return {"Set-Cookie": cookie(self.console, self.session.id)}


def cookie(console: Console, session_id: str) -> str:
    secure = "; Secure" if console.secure else ""
    return f"{console.cookie}={session_id}; Path=/; HttpOnly; SameSite=Lax{secure}"


Handler: TypeAlias = Callable[[ConsoleCall], Awaitable[Any]]


def guarded(handler: Handler) -> Handler:
    """What goes wrong with the cluster or with what was typed is a page in words, within the frame."""

    @wraps(handler)
    async def handle(call: ConsoleCall) -> Any:
        try:
            return await handle_refusals(call)
        except KafkaError as error:
            if error.code in _NOT_THERE:
                return call.show("Not there", error_box(in_words(error), next_step(error)), status=404)
            box = error_box(in_words(error), next_step(error), retried=call.request.method == "GET")
        except RegistryError as error:
            if error.status == 404:
                box = error_box(error.message, "It was deleted, or was never registered: see the list.")
                return call.show("Not there", box, status=404)
            is_away = error.status == 0 or error.status >= 500
            retried = is_away and call.request.method == "GET"
            box = error_box(error.message, registry_step(error), retried=retried)
        return call.show("Not now", box, status=502)

    async def handle_refusals(call: ConsoleCall) -> Any:
        try:
            return await handler(call)
        except WrongInput as error:
            return call.show(
                "That cannot be used", error_box(str(error), "Go back, correct it and try again."), status=400
            )

    return handle


async def changing(call: ConsoleCall, action: str, subject: str, work: Awaitable[Any]) -> Any:
    """Runs a change and notes in the audit how it ended."""
    try:
        found = await work
    except (KafkaError, RegistryError) as error:
        call.note(action, subject, str(error))
        raise
    call.note(action, subject)
    (await call.workspace()).forget()
    return found
