"""The login page, the end of a session, and the list of what people did.

Invariant: a wrong password costs time, and too many of them from one address are not even tried; the page
after the login is one of the console's own.
"""

from typing import Any

from moldau.client.transport.authentication import AuthenticationFailed
from moldau.console.advice import in_words
from moldau.console.call import ConsoleCall, cookie
from moldau.console.markup.html import Content, p, table, tag
from moldau.console.markup.layout import card, heading, hidden, labelled, text_input
from moldau.console.pages.provider_login import provider_card
from moldau.protocol.errors import KafkaError
from moldau.web.pages import redirect
from moldau.web.problems import http_problem


async def login_page(call: ConsoleCall) -> Any:
    return _shown(call, call.text("next") or "/", None)


def _shown(call: ConsoleCall, target: str, problem: str | None, user: str = "") -> Any:
    if not call.console.settings.login:
        return redirect("/")
    if call.console.provider is not None:
        return provider_card(call, call.console.provider, target, problem)
    form = tag(
        "form",
        tag("h1", "Moldau"),
        p("Log in with your name and password of the cluster.", class_="note"),
        p(problem, class_="message bad", role="alert") if problem else None,
        call.token(),
        hidden("next", target),
        labelled("Name", text_input("user", user, required=True, autofocus=True)),
        labelled(
            "Password",
            tag("input", type="password", name="password", required=True, autocomplete="current-password"),
        ),
        tag("button", "Log in"),
        method="post",
        action="/login",
        class_="card form",
    )
    return call.show("Log in", form, status=401 if problem else 200)


async def log_in(call: ConsoleCall) -> Any:
    given = await call.form(changes=False)
    if call.console.provider is not None:
        raise http_problem(404)
    client = call.request.client
    address = "-" if client is None else client.host
    user, target = given.get("user", ""), given.get("next", "/")
    sessions = call.console.sessions
    if not sessions.may_try(address):
        return _shown(call, target, "Too many attempts: wait a minute.", user)
    try:
        session = await sessions.log_in(user, given.get("password", ""))
    except AuthenticationFailed:
        call.note("login", user, "refused")
        return _shown(call, target, "The name or the password is wrong.", user)
    except KafkaError as error:
        call.note("login", user, str(error))
        return _shown(call, target, in_words(error), user)
    sessions.forgive(address)
    sessions.end(call.session.id)
    call.console.audit.note(user=user, address=address, cluster="", action="login", subject=user)
    return redirect(call.own_page(target), {"Set-Cookie": cookie(call.console, session.id)})


async def log_out(call: ConsoleCall) -> Any:
    await call.form(changes=False)
    call.note("logout", call.session.user or "")
    call.console.sessions.end(call.session.id)
    await call.console.sessions.close_ended()
    return redirect("/login" if call.console.provider is None else "/logged-out")


async def audit_page(call: ConsoleCall) -> Any:
    await call.workspace()
    user = call.session.user
    entries = [
        each
        for each in call.console.audit.entries
        if each["cluster"] in (call.cluster_name, "") and (user is None or each["user"] == user)
    ]
    rows = [
        [
            each["time"],
            *(tag("td", each[name], class_="whole") for name in ("user", "address", "action")),
            each["subject"],
            each["outcome"],
        ]
        for each in entries
    ]
    words = (
        "What was done with this console since it was started, the last first."
        if user is None
        else "What you did with this console since it was started, the last first."
    )
    body: Content = card(
        "",
        table(["Time (UTC)", "Who", "From", "What", "To what", "How it ended"], rows, empty="Nothing yet."),
    )
    return call.show("Audit", heading("Audit"), p(words, class_="note"), body, active="audit")
