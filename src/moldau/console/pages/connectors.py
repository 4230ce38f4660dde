"""Connectors of Kafka Connect: their state, their tasks and what went wrong, and start and stop.

Invariant: passwords in configs are not shown.
"""

import re
from typing import Any

from moldau.console.call import ConsoleCall, WrongInput
from moldau.console.connect_client import ConnectClient, ConnectError
from moldau.console.markup.html import Content, code, link, p, query, table, tag
from moldau.console.markup.layout import badge, card, error_box, heading, hidden, left_out, live, pager
from moldau.console.markup.words import plural
from moldau.console.workspace import Workspace

_SECRET = re.compile(r"password|secret|token|key$|jaas|credential", re.IGNORECASE)
_STATES = {"RUNNING": "good", "FAILED": "bad", "PAUSED": "warn", "STOPPED": "warn"}
_ACTIONS = ("pause", "resume", "restart")
PAGE = 50
_MOST_TASKS = 200


async def connectors(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    url = workspace.settings.connect
    if url is None:
        words = (
            "This console knows no worker of Kafka Connect. Start it with --connect URL to see connectors."
        )
        return call.show(
            "Connectors", heading("Connectors"), card("", p(words, class_="empty")), active="connect"
        )
    try:
        found = await workspace.blocking(lambda: ConnectClient(url).connectors())
    except ConnectError as error:
        step = "See whether the worker runs, and whether its address is right."
        box = error_box(str(error), step, retried=True)
        return call.show("Connectors", heading("Connectors"), box, active="connect", status=502)
    page = min(max(call.number("page", 0), 0), max(0, (len(found) - 1) // PAGE))
    shown = sorted(found.items())[page * PAGE : (page + 1) * PAGE]
    parts = [_connector(call, workspace, name, each) for name, each in shown]
    empty = card("", p("There is no connector yet.", class_="empty"))
    return call.show(
        "Connectors",
        heading("Connectors"),
        live("connectors", parts or empty, pager(call.here("connect"), page, PAGE, len(found))),
        active="connect",
    )


def _connector(call: ConsoleCall, workspace: Workspace, name: str, found: dict[str, Any]) -> Content:
    status = found.get("status") or {}
    state = str((status.get("connector") or {}).get("state", "?"))
    tasks = status.get("tasks") or []
    rows = [
        [
            str(task.get("id")),
            badge(str(task.get("state")), _STATES.get(str(task.get("state")), "")),
            tag("td", str(task.get("worker_id", "")), class_="whole"),
            _trace(task),
        ]
        for task in tasks[:_MOST_TASKS]
    ]
    config = (found.get("info") or {}).get("config") or {}
    settings = [
        [tag("dt", code(key)), tag("dd", "•••" if _SECRET.search(key) else str(value))]
        for key, value in sorted(config.items())[:200]
    ]
    buttons = None
    if call.may_change_services:
        buttons = tag(
            "form",
            call.token(),
            hidden("name", name),
            [
                [tag("button", each.capitalize(), name="action", value=each, class_="quiet"), " "]
                for each in _ACTIONS
            ],
            method="post",
            action=call.here("connect"),
            class_="inline",
        )
    return card(
        [name, " ", badge(state, _STATES.get(state, ""))],
        _trace(status.get("connector") or {}),
        table(["Task", "State", "Worker", "What went wrong"], rows, empty="It has no task."),
        left_out(len(tasks), _MOST_TASKS, "task"),
        tag("details", tag("summary", "Config"), tag("dl", settings)),
        _group(call, workspace, found),
        _dead_letters(call, config),
        buttons,
    )


def _group(call: ConsoleCall, workspace: Workspace, found: dict[str, Any]) -> Content:
    """Where a sink's lag is to be seen: in the group that it reads as."""
    info = found.get("info") or {}
    if info.get("type") != "sink":
        return None
    config = info.get("config") or {}
    group = str(config.get("consumer.override.group.id") or f"connect-{info.get('name', '')}")
    lag = workspace.history.lag(group)
    behind = "" if lag is None else f", {plural(int(lag), 'record')} behind"
    return p("Reads as the group ", link(query(call.here("groups", "view"), group=group), group), behind)


def _dead_letters(call: ConsoleCall, config: dict[str, Any]) -> Content:
    topic = str(config.get("errors.deadletterqueue.topic.name") or "").strip()
    if not topic:
        return None
    return p("Dead letters: ", link(f"{call.here('topics', topic)}/dead-letters", topic))


def _trace(found: dict[str, Any]) -> Content:
    trace = found.get("trace")
    return (
        tag("details", tag("summary", str(trace).splitlines()[0][:200]), tag("pre", str(trace)[:20_000]))
        if trace
        else None
    )


async def act(call: ConsoleCall) -> Any:
    given = await call.form()
    call.check_services()
    workspace = await call.workspace()
    url = workspace.settings.connect
    name, action = given.get("name", ""), given.get("action", "")
    if url is None or action not in _ACTIONS:
        raise WrongInput("There is nothing to do.")
    try:
        await workspace.blocking(lambda: ConnectClient(url).act(name, action))
    except ConnectError as error:
        call.note(f"{action} connector", name, str(error))
        raise WrongInput(f"It did not work: {error}.") from None
    call.note(f"{action} connector", name)
    return call.done(f"{name}: {action} was asked for.", call.here("connect"))
