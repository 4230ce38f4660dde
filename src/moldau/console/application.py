"""The console as an ASGI application: who asks, which page, and what the browser is forbidden.

Invariant: nothing but the login page and the console's own style and script is answered to somebody who has
not logged in, where a login is asked for. A request under a name that is not the console's is refused, so
that a foreign page whose name leads to this machine (DNS rebinding) sees nothing. Every answer forbids
scripts, styles, frames and addresses other than the console's own.
"""

import logging
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from moldau.base.clock import Clock, SystemClock
from moldau.base.escaping import escaped
from moldau.console.audit import Audit
from moldau.console.call import Console, ConsoleCall
from moldau.console.markup.html import link, query
from moldau.console.markup.layout import Frame, error_box, framed
from moldau.console.masks import Masks
from moldau.console.oidc.flow import LoginRefused
from moldau.console.oidc.provider import Provider, ProviderAway
from moldau.console.routes import ROUTES
from moldau.console.sessions import Session, Sessions
from moldau.console.settings import ConsoleSettings
from moldau.web.application import Application, Service
from moldau.web.authentication import ANONYMOUS, Principal
from moldau.web.openapi import Description
from moldau.web.pages import page, redirect
from moldau.web.problems import Problem, http_problem
from moldau.web.routes import RouteTable

log = logging.getLogger("moldau.console")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EVERY_ADDRESS = ("0.0.0.0", "::", "")
_OPEN_PATHS = ("/login", "/login/provider", "/login/callback", "/logged-out", "/healthz")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
BODY_TYPES = ("application/x-www-form-urlencoded",)


def application(
    settings: ConsoleSettings, *, clock: Clock | None = None, port: int = 0
) -> tuple[Application, Console]:
    clock = clock or SystemClock()
    console = Console(
        settings,
        clock,
        Sessions(settings, clock),
        Audit(clock, settings.audit_file),
        Masks(settings.masks),
        # Cookies know no ports: two consoles on one machine have two names.
        cookie=f"moldau-console-{port}",
        secure=settings.is_https,
        provider=None if settings.oidc is None else Provider(settings.oidc, clock),
    )
    service = Service(
        Description("Moldau console", "1"),
        RouteTable(ROUTES),
        media_types=(
            "text/html",
            "text/event-stream",
            "application/json",
            "text/css",
            "image/svg+xml",
            "image/*",
        ),
        body_types=BODY_TYPES,
        problem_page=_problem_page,
        headers=HEADERS,
    )
    made = Application(
        service, partial(ConsoleCall, console), authenticate=_Gate(console), limits=settings.limits
    )
    return made, console


class _Gate:
    """Finds the session of a request; the way to the login page where there is none."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._hosts = _hosts(console.settings)

    async def __call__(self, request: Any) -> Principal:
        self._check_host(request.headers.get("host", ""))
        name = request.scope["path"]
        session = self._console.sessions.find(_cookie(request, self._console.cookie))
        if session is not None and session.grant is not None:
            session = await self._renewed(session)
        if session is None or (self._console.settings.login and session.user is None):
            if self._console.settings.login and not name.startswith("/assets/") and name not in _OPEN_PATHS:
                raise Problem(401, 303, "Log in first", {"Location": _login_address(request)})
            # Style, script and probes need no session of their own.
            session = session or self._visitor(request)
        request.scope["console.session"] = session
        return Principal(session.user) if session.user is not None else ANONYMOUS

    async def _renewed(self, session: Session) -> Session | None:
        """A session lasts as long as the provider's word for it."""
        assert self._console.provider is not None
        try:
            return await self._console.sessions.renewed(session, self._console.provider.renewed)
        except (LoginRefused, ProviderAway) as error:
            log.info("the session of %s has ended: %s", escaped(session.user or ""), escaped(str(error)))
            self._console.sessions.end(session.id)
            return None

    def _visitor(self, request: Any) -> Session:
        if request.scope["path"].startswith(("/assets/", "/healthz")):
            return Session("")
        request.scope["console.new"] = True
        return self._console.sessions.begin()

    def _check_host(self, given: str) -> None:
        if self._hosts is None:
            return
        try:
            name = urlsplit(f"//{given}").hostname or ""
        except ValueError:
            name = ""
        if name not in self._hosts:
            raise http_problem(
                403,
                "The console is not known by that name: start it with --allowed-host to be asked for by it",
            )


def _hosts(settings: ConsoleSettings) -> frozenset[str] | None:
    """The names that the console goes by; None for all where it listens on every address, with a login."""
    host = settings.listener.host
    if host in _EVERY_ADDRESS and not settings.hosts:
        return None
    return frozenset({*_LOOPBACK, host, *settings.hosts})


def _cookie(request: Any, name: str) -> str | None:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def _login_address(request: Any) -> str:
    wanted = request.scope["path"]
    asked = request.url.query
    return query("/login", next=f"{wanted}?{asked}" if asked else wanted)


def _problem_page(request: Any, problem: Problem) -> Any:
    if problem.status == 303:
        return redirect(problem.headers["Location"])
    box = error_box(problem.message, "Go back, or begin again at the start page.")
    return page(framed(Frame(f"{problem.status}"), [box, link("/", "The start page")]), problem.status)
