"""The login at a provider of OpenID Connect: the way there, the way back, and the way out.

Invariant: the way back counts only in the session that went there, once; the session after it has a new
number. The page after the login is one of the console's own.
"""

from typing import Any
from urllib.parse import urlsplit

from moldau.client.transport.authentication import AuthenticationFailed
from moldau.console.advice import in_words
from moldau.console.call import ConsoleCall, cookie
from moldau.console.markup.html import Content, div, link, p, query, tag
from moldau.console.oidc.flow import LoginRefused
from moldau.console.oidc.provider import Provider, ProviderAway, random_text
from moldau.protocol.errors import KafkaError
from moldau.web.pages import redirect
from moldau.web.problems import http_problem

_ANSWER = ("code", "state", "iss", "error", "error_description")
_CALLBACK = "/login/callback"
_MOST_TARGET = 2_000


def provider_card(call: ConsoleCall, provider: Provider, target: str, problem: str | None) -> Any:
    """The login page where the provider asks who one is."""
    name = urlsplit(provider.settings.issuer).netloc
    way = link(query("/login/provider", next=target), "Log in", class_="button")
    words = f"You log in at {name}. Here you may do what the cluster lets you do."
    return _page(call, problem, p(words, class_="note"), way, status=401 if problem else 200)


def _page(call: ConsoleCall, problem: str | None, *content: Content, status: int = 200) -> Any:
    told = p(problem, class_="message bad", role="alert") if problem else None
    body = div(tag("h1", "Moldau"), told, *content, class_="card form")
    return call.show("Log in", body, status=status)


def _provider(call: ConsoleCall) -> Provider:
    if call.console.provider is None:
        raise http_problem(404)
    return call.console.provider


def _own_address(call: ConsoleCall, path: str) -> str:
    """An address of the console as browsers know it; without a public one the name was checked before."""
    settings = call.console.settings
    assert settings.oidc is not None
    if settings.oidc.public_url:
        return settings.oidc.public_url.rstrip("/") + path
    return f"{'https' if settings.is_https else 'http'}://{call.request.headers.get('host', '')}{path}"


async def go(call: ConsoleCall) -> Any:
    """Sends the browser to the provider."""
    provider = _provider(call)
    target = call.text("next") or "/"
    target = target if len(target) <= _MOST_TARGET else "/"
    now = call.console.clock.monotonic()
    pending = call.session.pending_logins.begin(random_text, target, _own_address(call, _CALLBACK), now)
    try:
        address = await provider.login_address(pending)
    except ProviderAway as error:
        return _away(call, error)
    return redirect(address, call.new_cookie())


def _away(call: ConsoleCall, error: ProviderAway) -> Any:
    call.note("login", "", str(error))
    words = f"The provider cannot be used: {error}."
    return _page(call, words, p("Try again, or tell whoever runs this console.", class_="note"), status=502)


async def come_back(call: ConsoleCall) -> Any:
    """Where the provider sends the browser after the login."""
    provider, sessions = _provider(call), call.console.sessions
    answer = {name: value for name in _ANSWER if (value := call.text(name))}
    client = call.request.client
    address = "-" if client is None else client.host
    try:
        pending = call.session.pending_logins.end(answer.get("state", ""), call.console.clock.monotonic())
        grant = await provider.logged_in(answer, pending)
    except LoginRefused as error:
        call.note("login", "", str(error))
        return provider_card(call, provider, "/", str(error))
    except ProviderAway as error:
        return _away(call, error)
    try:
        session = await sessions.log_in_with(grant)
    except AuthenticationFailed:
        call.note("login", grant.person.name, "refused by the cluster")
        words = "The provider knows you, but the cluster does not take its token."
        return provider_card(call, provider, pending.target, words)
    except KafkaError as error:
        call.note("login", grant.person.name, str(error))
        return provider_card(call, provider, pending.target, in_words(error))
    sessions.end(call.session.id)
    name = grant.person.name
    call.console.audit.note(user=name, address=address, cluster="", action="login", subject=name)
    return redirect(call.own_page(pending.target), {"Set-Cookie": cookie(call.console, session.id)})


async def logged_out(call: ConsoleCall) -> Any:
    """After the session's end. The provider still knows the person, which is theirs to end or to keep."""
    if call.console.provider is None:
        return redirect("/login")
    return _page(
        call,
        None,
        p("You are logged out of this console.", class_="note"),
        link("/login", "Log in again", class_="button"),
        p(link("/logged-out?everywhere=true", "Log out of the provider as well")),
    )


async def log_out_everywhere(call: ConsoleCall) -> Any:
    if not call.flag("everywhere"):
        return await logged_out(call)
    try:
        address = await _provider(call).logout_address(_own_address(call, "/login"))
    except ProviderAway as error:
        return _away(call, error)
    if address is None:
        return _page(call, "The provider has no page to log out with.", link("/login", "Log in again"))
    return redirect(address)
