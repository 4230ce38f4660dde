"""The list of topics, with search, sorting and pages made here; the form for a new one.

Invariant: whatever the number of topics, a page asks only for what it shows.
"""

from collections.abc import Mapping
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import raise_errors
from moldau.client.admin.descriptions import NewTopic
from moldau.client.transport.cluster import Topic
from moldau.console.call import ConsoleCall, Refused, WrongInput, changing, refused
from moldau.console.markup.html import Content, Markup, link, number_cell, number_head, p, query, table, tag
from moldau.console.markup.layout import (
    badge,
    card,
    heading,
    labelled,
    live,
    pager,
    refusal,
    search_form,
    select,
    text_input,
)
from moldau.console.markup.plots import sparkline
from moldau.console.markup.words import count, plural, rate, size
from moldau.console.naming import name_problem
from moldau.console.typed import digits
from moldau.console.workspace import Workspace
from moldau.protocol.errors import KafkaError

PAGE = 50
#: Names of columns to sort by, and how each is called.
SORTS = ("name", "partitions", "size", "rate")


async def topics(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    snapshot = await workspace.snapshot()
    wanted = (call.text("q") or "").strip()
    with_internal = call.flag("internal")
    sort = call.choice("sort", SORTS)
    sizes = await workspace.sizes()
    totals: dict[str, int] = {}
    for partition, bytes_ in sizes.items():
        totals[partition.topic] = totals.get(partition.topic, 0) + bytes_
    found = [
        topic
        for topic in snapshot.topics.values()
        if (with_internal or not topic.is_internal)
        and all(word in topic.name.lower() for word in wanted.lower().split())
    ]
    _sort(found, sort, totals, workspace)
    page = min(max(call.number("page", 0), 0), max(0, (len(found) - 1) // PAGE))
    shown = found[page * PAGE : (page + 1) * PAGE]
    rows = await _rows(call, workspace, shown, totals)
    address = call.here("topics")
    keep: dict[str, str | int | bool | None] = {
        "q": wanted,
        "internal": with_internal,
        "sort": sort if sort != "name" else None,
    }

    def column(name: str, words: str) -> Markup:
        to = query(address, **{**keep, "sort": name if name != "name" else None})
        made = link(to, words, class_="sorted" if name == sort else None)
        return tag("th", made, scope="col") if name == "name" else number_head(made)

    columns: list[Content] = [
        column("name", "Topic"),
        column("partitions", "Partitions"),
        number_head("Replicas"),
        number_head("Records"),
        column("size", "Size"),
        "Last minutes",
        column("rate", "Rate"),
    ]
    switch = link(
        query(address, **{**keep, "internal": not with_internal}),
        "Hide internal" if with_internal else "Show internal",
        class_="button quiet",
    )
    new = None if call.read_only else link(call.here("new-topic"), "New topic", class_="button")
    nothing = "There is no topic yet" + (", or none that you may see." if call.session.user else ".")
    empty = f"No topic fits “{wanted}”." if wanted else nothing
    return call.show(
        "Topics",
        heading("Topics", search_form(address, wanted, "Search topics"), switch, new),
        live(
            "topics",
            p(plural(len(found), "topic"), class_="note"),
            card("", table(columns, rows, empty=empty)),
            pager(address, page, PAGE, len(found), **keep),
        ),
        active="topics",
    )


def _sort(found: list[Topic], sort: str, totals: dict[str, int], workspace: Workspace) -> None:
    if sort == "partitions":
        found.sort(key=lambda topic: (-len(topic.partitions), topic.name))
    elif sort == "size":
        found.sort(key=lambda topic: (-totals.get(topic.name, 0), topic.name))
    elif sort == "rate":
        found.sort(key=lambda topic: (-(workspace.history.rate(topic.name) or 0), topic.name))


async def _rows(
    call: ConsoleCall, workspace: Workspace, shown: list[Topic], totals: dict[str, int]
) -> list[list[Content]]:
    partitions = [TopicPartition(topic.name, each.index) for topic in shown for each in topic.partitions]
    bounds = await workspace.bounds(partitions)
    rows: list[list[Content]] = []
    for topic in shown:
        records = sum(
            end - begin
            for each in topic.partitions
            for begin, end in [bounds.get(TopicPartition(topic.name, each.index), (0, 0))]
        )
        line = workspace.history.topic_rates.get(topic.name)
        rows.append(
            [
                [link(call.here("topics", topic.name), topic.name), " ", *_badges(topic)],
                number_cell(len(topic.partitions)),
                number_cell(len(topic.partitions[0].replicas) if topic.partitions else 0),
                number_cell(count(records)),
                number_cell(size(totals.get(topic.name, -1))),
                sparkline(line.points, f"records a second of {topic.name}") if line is not None else "",
                number_cell(rate(workspace.history.rate(topic.name))),
            ]
        )
    return rows


def _badges(topic: Topic) -> list[Markup]:
    found = []
    if topic.is_internal:
        found.append(badge("internal"))
    if any(each.leader_id < 0 for each in topic.partitions):
        found.append(badge("without a leader", "bad"))
    elif any(len(each.isr) < len(each.replicas) for each in topic.partitions):
        found.append(badge("under-replicated", "warn"))
    return found


# --- a new topic ------------------------------------------------------------------------------------


async def new_topic(call: ConsoleCall) -> Any:
    return call.show("New topic", heading("New topic"), _form(call, {}, None), active="topics")


def _form(call: ConsoleCall, given: Mapping[str, str], problem: str | None) -> Markup:
    settings = call.console.settings
    rule = "Letters, digits, dots, dashes and underscores; no dot and underscore that differ only in that."
    if settings.topic_pattern is not None:
        rule += f" Here names {settings.topic_rule or 'match ' + settings.topic_pattern}."
    cleanup = [
        ("", "the cluster's default"),
        ("delete", "delete after the retention"),
        ("compact", "keep the last of each key"),
        ("compact,delete", "both"),
    ]
    return tag(
        "form",
        call.token(),
        refusal(problem),
        labelled(
            "Name",
            text_input("name", given.get("name", ""), required=True, maxlength=249, autofocus=True),
            rule,
        ),
        labelled(
            "Partitions",
            text_input("partitions", given.get("partitions", ""), inputmode="numeric", placeholder="default"),
            "How many consumers of a group can read at the same time. The number can only grow.",
        ),
        labelled(
            "Replicas",
            text_input("replicas", given.get("replicas", ""), inputmode="numeric", placeholder="default"),
            "On how many brokers each record is kept.",
        ),
        labelled("What happens to old records", select("cleanup", cleanup, given.get("cleanup", ""))),
        labelled(
            "Retention in hours",
            text_input("retention", given.get("retention", ""), inputmode="numeric", placeholder="default"),
            "Records older than this are deleted; -1 keeps them for ever.",
        ),
        labelled(
            "Other configs",
            tag(
                "textarea",
                given.get("configs", ""),
                name="configs",
                rows=3,
                placeholder="max.message.bytes=2000000",
                spellcheck="false",
            ),
            "One name=value in a line.",
        ),
        tag(
            "div",
            tag("button", "Create the topic"),
            " ",
            link(call.here("topics"), "Cancel", class_="button quiet"),
            class_="actions",
        ),
        method="post",
        action=call.here("new-topic"),
        class_="card form",
    )


async def create_topic(call: ConsoleCall) -> Any:
    given = await call.form()
    workspace = await call.workspace()
    snapshot = await workspace.snapshot(fresh=True)
    settings = call.console.settings
    try:
        name = given.get("name", "").strip()
        problem = name_problem(name, snapshot.topics, settings.topic_pattern, settings.topic_rule)
        if problem is not None:
            raise WrongInput(problem)
        made = NewTopic(
            name,
            whole_number(given.get("partitions", ""), "The number of partitions"),
            whole_number(given.get("replicas", ""), "The number of replicas"),
            configs=_configs(given),
        )
    except WrongInput as error:
        call.note("create topic", given.get("name", ""), str(error))
        return _not_taken(call, refused(given, error))
    admin = await workspace.admin()

    async def work() -> None:
        raise_errors(await admin.create_topics([made]))

    try:
        await changing(call, "create topic", name, work())
    except KafkaError as error:
        return _not_taken(call, refused(given, error))
    return call.done(f"Topic {name} is there.", call.here("topics", name))


def _not_taken(call: ConsoleCall, why: Refused) -> Any:
    page = [heading("New topic"), _form(call, why.given, why.words)]
    return call.show("New topic", *page, active="topics", status=why.status)


def whole_number(
    text: str, what: str, *, default: int = -1, least: int = 1, most: int = 2_000_000_000
) -> int:
    given = text.strip()
    if not given:
        return default
    number = digits(given)
    if number is None or not least <= number <= most:
        raise WrongInput(f"{what} is a whole number, at least {least}, not {given[:40]!r}.")
    return number


def _configs(given: dict[str, str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    if given.get("cleanup"):
        found["cleanup.policy"] = given["cleanup"]
    retention = given.get("retention", "").strip()
    if retention:
        try:
            hours = float(retention)
        except ValueError:
            raise WrongInput(f"The retention is a number of hours, not {retention!r}.") from None
        if not -1 <= hours <= 1e9:
            raise WrongInput("The retention is a number of hours, or -1 for ever.")
        found["retention.ms"] = "-1" if hours < 0 else str(round(hours * 3_600_000))
    for line in given.get("configs", "").splitlines():
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise WrongInput(f"A config has the form name=value: {line!r}.")
        found[name.strip()] = value.strip()
    return found
