"""Pipelines on Spark and streams applications: how each is doing, what it is made of, and what went wrong.

Invariant: the console only reads what they have written into the cluster, as whoever asks; what somebody
hides by a mask is hidden here as well. A look reads a bounded number of records, and says when there are
more.
"""

from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_UNCOMMITTED
from moldau.console.call import ConsoleCall
from moldau.console.markup.graphs import graph
from moldau.console.markup.html import (
    Content,
    code,
    div,
    joined,
    link,
    number_cell,
    number_head,
    p,
    query,
    span,
    table,
    tag,
)
from moldau.console.markup.layout import (
    badge,
    card,
    command,
    error_box,
    figure,
    heading,
    live,
    pager,
    search_form,
)
from moldau.console.markup.plots import line_plot, sparkline
from moldau.console.markup.words import count, duration, moment, plural, rate, size
from moldau.console.records import read_ranges
from moldau.console.seen.statuses import SPARK, STREAMS, TOPIC, Status, Told, parsed, plan_of
from moldau.console.workspace import Workspace

PAGE = 100
#: Records of the topic that one look reads; the next one goes on.
_AT_A_LOOK = 20_000
_STATES = {"running": "good", "starting": "warn", "failed": "bad", "stopped": ""}
_KINDS = {SPARK: "Spark query", STREAMS: "Streams application"}
_LONGEST_LINE = 160


async def _look(call: ConsoleCall, workspace: Workspace) -> int:
    """Reads what is new in the topic; how many records are left for the next look."""
    statuses = workspace.pipelines
    masks = call.console.masks.of(TOPIC)
    topic = (await workspace.snapshot()).topics.get(TOPIC)
    if topic is None or masks.hides_part("key"):  # without names there is nothing to tell them apart by
        statuses.begin(None)
        return 0
    async with workspace.reading_statuses:
        statuses.begin(topic.topic_id)
        partitions = [TopicPartition(TOPIC, each.index) for each in topic.partitions if each.leader_id >= 0]
        bounds = await workspace.bounds(partitions)
        ranges = {
            each: (max(begin, statuses.positions.get(each.partition, 0)), end)
            for each, (begin, end) in bounds.items()
            if max(begin, statuses.positions.get(each.partition, 0)) < end
        }
        records, reached, _ = await read_ranges(workspace, ranges, _AT_A_LOOK, READ_UNCOMMITTED)
        for record in records:
            key, value = bytes(record.key or b""), None if record.value is None else bytes(record.value)
            statuses.take(record.timestamp, key, masks.applied("value", parsed(value)))
        statuses.positions |= {each.partition: offset for each, offset in reached.items()}
        return sum(end - reached.get(each, end) for each, (_, end) in ranges.items())


async def pipelines(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    left = await _look(call, workspace)
    wanted = (call.text("q") or "").strip()
    found = sorted(
        (
            each
            for each in workspace.pipelines.queries.values()
            if wanted.lower() in f"{each.status.name} {each.status.pipeline}".lower()
        ),
        key=lambda each: each.status.name,
    )
    now = workspace.clock.now_ms()
    page = min(max(call.number("page", 0), 0), max(0, (len(found) - 1) // PAGE))
    shown = found[page * PAGE : (page + 1) * PAGE]
    address = call.here("pipelines")
    search = search_form(address, wanted, "Search pipelines") if workspace.pipelines.queries else None
    return call.show(
        "Pipelines",
        heading("Pipelines and streams", search),
        live(
            "pipelines",
            _still_reading(left),
            _figures(found, now) if found else None,
            [
                _table(call, kind, [each for each in shown if each.status.kind == kind], now)
                for kind in _KINDS
            ],
            None if found else _nothing(wanted),
            pager(address, page, PAGE, len(found), q=wanted),
        ),
        active="pipelines",
    )


def _still_reading(left: int) -> Content:
    return p(f"Reading on: {plural(left, 'older record')} to go.", class_="note") if left > 0 else None


def _nothing(wanted: str) -> Content:
    if wanted:
        return card("", p(f"No pipeline has {wanted!r} in its name.", class_="empty"))
    return card(
        "",
        p("Nothing has told this cluster of itself yet.", class_="empty"),
        p(
            "A pipeline or a streams application that is started on this cluster appears here by itself; a "
            "Spark program of your own does with one line, moldau.spark.listen(spark, …).",
            class_="note",
        ),
        p(
            command("moldau pipeline run FILE"),
            " ",
            command("moldau streams run FILE"),
        ),
    )


def _figures(found: list[Told], now: int) -> Content:
    running = sum(each.status.state == "running" and not each.status.silent_ms(now) for each in found)
    failed = sum(each.status.state == "failed" for each in found)
    silent = sum(bool(each.status.silent_ms(now)) for each in found)
    lags = [each.status.total_lag for each in found if each.status.total_lag is not None]
    return div(
        figure("Running", count(running), f"of {count(len(found))}"),
        figure("Failed", count(failed), state="bad" if failed else ""),
        figure(
            "Silent",
            count(silent),
            "told nothing for a minute" if silent else None,
            state="bad" if silent else "",
        ),
        figure("Records that wait", count(sum(lags)) if lags else "–"),
        class_="figures",
    )


def _table(call: ConsoleCall, kind: str, found: list[Told], now: int) -> Content:
    if not found:
        return None
    rows = [
        [
            joined(
                link(query(call.here("pipelines", "view"), name=each.status.name), each.status.name),
                div(each.status.pipeline, class_="note")
                if each.status.pipeline and not each.status.name.startswith(each.status.pipeline)
                else None,
                div(_first_line(each.status.error), class_="note error") if each.status.error else None,
            ),
            _state(each.status, now),
            number_cell(_lag(each.status)),
            sparkline(each.lag.points, "Lag"),
            number_cell(rate(_rate(each.status, now))),
            number_cell(_batch(each.status)),
            number_cell(f"{duration(max(0, now - each.status.time_ms))} ago"),
        ]
        for each in found
    ]
    columns = [
        "Name",
        "State",
        number_head("Lag"),
        tag("th", span("Lag before", class_="away"), scope="col"),
        number_head("Records"),
        number_head("Last batch"),
        number_head("Told"),
    ]
    return card("Spark queries" if kind == SPARK else "Streams applications", table(columns, rows, empty=""))


def _state(status: Status, now: int) -> Content:
    if status.silent_ms(now):
        return badge("silent", "bad")
    return badge(status.state, _STATES.get(status.state, ""))


def _rate(status: Status, now: int) -> float | None:
    """Of a query that has ended, or that nobody hears of, the last rate is no rate any more."""
    return status.rows_per_second if status.state == "running" and not status.silent_ms(now) else None


def _lag(status: Status) -> str:
    return "–" if status.total_lag is None else count(status.total_lag)


def _batch(status: Status) -> str:
    return "–" if status.batch_ms is None else duration(round(status.batch_ms))


def _first_line(words: str) -> str:
    first = words.strip().partition("\n")[0]
    return first if len(first) <= _LONGEST_LINE else first[: _LONGEST_LINE - 1] + "…"


async def query_page(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    left = await _look(call, workspace)
    name = call.text("name") or ""
    told = workspace.pipelines.queries.get(name)
    title = joined(
        link(call.here("pipelines"), "Pipelines", class_="trail"), span(" / ", class_="trail"), name or "?"
    )
    if told is None:
        words = "Nobody has told this cluster of a query or an application with this name."
        return call.show(
            name, heading(title), _still_reading(left), error_box(words, "See the list of those that did."),
            active="pipelines", status=404,
        )  # fmt: skip
    status, now = told.status, workspace.clock.now_ms()
    known = (await workspace.snapshot()).topics
    return call.show(
        name,
        heading(title, badge(_KINDS[status.kind])),
        live(
            "query",
            _still_reading(left),
            _trouble(status, now),
            _facts(status, now),
            div(
                card("Records that wait", line_plot(told.lag.points, "Lag")),
                card("Records a second", line_plot(told.rate.points, "Rate", unit="/s")),
                card("Duration of batches", line_plot(told.batch_ms.points, "Batch", unit="ms")),
                class_="columns thirds",
            ),
            _picture(call, status, known),
            div(_lags(call, status, known), _about(call, status), class_="columns thirds"),
        ),
        active="pipelines",
    )


def _trouble(status: Status, now: int) -> Content:
    silent = status.silent_ms(now)
    stop = "moldau streams" if status.kind == STREAMS else "moldau pipeline"
    name = status.name if status.kind == STREAMS else status.pipeline or status.name
    where = f" on {status.host}" if status.host else ""
    found: list[Content] = []
    if status.error:
        found.append(
            card(
                "What went wrong",
                tag("pre", status.error),
                p("Its log", where, " says more: ", command(f"{stop} logs {name}"), class_="note"),
                class_="trouble",
            )
        )
    if silent:
        found.append(
            card(
                "It has gone silent",
                p(
                    f"It has told nothing for {duration(silent)}, and did not say that it ends: its "
                    f"process{where} has died, has no way to this cluster, or works on one long batch."
                ),
                p("See how it is there: ", command(f"{stop} status {name}"), class_="note"),
                class_="trouble",
            )
        )
    return found


def _facts(status: Status, now: int) -> Content:
    keeps = None if status.state_bytes is None else size(status.state_bytes)
    return div(
        figure("State", _state(status, now), f"{duration(max(0, now - status.time_ms))} ago"),
        figure("Records that wait", _lag(status)),
        figure("Records a second", rate(_rate(status, now), "")),
        figure(
            "Last batch",
            _batch(status),
            None if status.batch_id is None else f"number {count(status.batch_id)}",
        ),
        figure("Records since its start", "–" if status.rows is None else count(status.rows)),
        figure("Rows of state", count(status.state_rows), keeps) if status.state_rows is not None else None,
        figure("Too late", count(status.late_rows)) if status.late_rows else None,
        class_="figures",
    )


def _picture(call: ConsoleCall, status: Status, known: Any) -> Content:
    nodes = plan_of(status)
    topics = {node.id: node.topic for node in nodes if node.topic in known}

    def address(id_: str) -> str | None:
        return call.here("topics", topics[id_]) if id_ in topics else None

    return card(
        "What it is made of",
        div(
            graph(nodes, f"The operators of {status.name} and the topics between them", address),
            class_="scroll picture",
            tabindex=0,
        ),
        p(
            span("topic that it reads", class_="mark source"),
            span("operator", class_="mark processor"),
            span("topic between", class_="mark internal")
            if any(n.kind == "internal" for n in nodes)
            else None,
            span("what it writes", class_="mark sink"),
            class_="note marks",
        ),
    )


def _lags(call: ConsoleCall, status: Status, known: Any) -> Content:
    rows = [
        [
            link(call.here("topics", topic), topic) if topic in known else code(topic),
            number_cell(count(number)),
        ]
        for topic, number in sorted((status.lag or {}).items())
    ]
    dropped = [[reason, number_cell(count(number))] for reason, number in sorted(status.dropped.items())]
    return joined(
        card("What waits", table(["Topic", number_head("Records")], rows, empty="It has not said yet.")),
        card("What it passed over", table(["Because", number_head("Records")], dropped, empty=""))
        if dropped
        else None,
    )


def _about(call: ConsoleCall, status: Status) -> Content:
    facts: list[tuple[str, Content]] = []
    if status.group:
        facts.append(
            ("Consumer group", link(query(call.here("groups", "view"), group=status.group), status.group))
        )
    facts += [
        (label, value)
        for label, value in (
            ("Pipeline", status.pipeline),
            ("Runs on", status.host),
            ("Writes to", status.output),
            ("Watermark", status.watermark),
            ("Last told", f"{moment(status.time_ms)} UTC"),
        )
        if value
    ]
    return card("About it", tag("dl", [[tag("dt", label), tag("dd", value)] for label, value in facts]))
