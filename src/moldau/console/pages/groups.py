"""Consumer groups: the list, and one of them with its members, its lag over time, why it lags, and resets.

Invariant: offsets are changed only after the plan was shown.
"""

from typing import Any

from moldau.base.names import TopicPartition
from moldau.base.times import HOW_TO_WRITE
from moldau.client.admin.admin import raise_errors
from moldau.client.groups.descriptions import CommittedOffset, GroupListing
from moldau.client.groups.offset_resets import NewOffsets, NoCommittedOffset, Reset, ResetTo, new_offsets
from moldau.console.call import REFUSALS, ConsoleCall, Refused, WrongInput, changing, refused
from moldau.console.markup.html import Content, Markup, link, number_cell, number_head, p, query, table, tag
from moldau.console.markup.layout import (
    badge,
    card,
    figure,
    finding,
    heading,
    hidden,
    labelled,
    left_out,
    live,
    pager,
    refusal,
    search_form,
    select,
    text_input,
)
from moldau.console.markup.plots import sparkline, wide_plot
from moldau.console.markup.words import count, plural
from moldau.console.typed import digits, time_ms
from moldau.console.workspace import Workspace
from moldau.protocol.errors import KafkaError
from moldau.reports.findings import Severity
from moldau.reports.group_lag import GroupSnapshot, reasons, take_group_snapshot

PAGE = 50
_MOST_ROWS = 500
_MOST_FINDINGS = 50
#: Of one page of a group.
_PARTITIONS = 200
_LARGEST_PARTITION = (1 << 31) - 1
_STATES = {
    Severity.OK: "good",
    Severity.NOTE: "note",
    Severity.WARNING: "warn",
    Severity.PROBLEM: "bad",
}


async def groups(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    wanted = (call.text("q") or "").strip()
    state = call.text("state") or ""
    sort = call.choice("sort", ("name", "lag"))
    listed = await workspace.listed_groups()
    found = [
        each
        for each in listed
        if all(word in each.group_id.lower() for word in wanted.lower().split())
        and (not state or each.state == state)
    ]
    if sort == "lag":
        found.sort(key=lambda each: (-(workspace.history.lag(each.group_id) or 0), each.group_id))
    page = min(max(call.number("page", 0), 0), max(0, (len(found) - 1) // PAGE))
    shown = found[page * PAGE : (page + 1) * PAGE]
    rows = await _rows(call, workspace, shown)
    address = call.here("groups")
    keep: dict[str, str | int | bool | None] = {
        "q": wanted,
        "state": state,
        "sort": sort if sort != "name" else None,
    }
    states = sorted({each.state for each in listed if each.state})
    chips = [
        link(
            query(address, **{**keep, "state": None if each == state else each}),
            each,
            class_="button quiet" + (" here" if each == state else ""),
        )
        for each in states
    ]
    empty = (
        f"No group fits “{wanted}”."
        if wanted or state
        else "There is no group yet: consumers with a group.id make one."
    )
    return call.show(
        "Groups",
        heading("Groups", search_form(address, wanted, "Search groups"), chips if len(states) > 1 else None),
        live(
            "groups",
            p(plural(len(found), "group"), class_="note"),
            card("", table(_columns(address, keep, sort), rows, empty=empty)),
            pager(address, page, PAGE, len(found), **keep),
        ),
        active="groups",
    )


def _columns(address: str, keep: dict[str, str | int | bool | None], sort: str) -> list[Content]:
    def column(name: str, words: str) -> Markup:
        to = query(address, **{**keep, "sort": name if name != "name" else None})
        return link(to, words, class_="sorted" if name == sort else None)

    return [
        tag("th", column("name", "Group"), scope="col"),
        "State",
        "Type",
        number_head("Members"),
        "Last minutes",
        number_head(column("lag", "Behind")),
    ]


async def _rows(call: ConsoleCall, workspace: Workspace, shown: list[GroupListing]) -> list[list[Content]]:
    names = [each.group_id for each in shown]
    described = await (await workspace.groups()).describe(names)
    lags = await workspace.lags(names)
    rows: list[list[Content]] = []
    for each in shown:
        group = described[each.group_id]
        line = workspace.history.group_lags.get(each.group_id)
        rows.append(
            [
                link(
                    query(call.here("groups", "view"), group=each.group_id), each.group_id or "(empty name)"
                ),
                _state(each.state),
                each.group_type or each.protocol_type or "–",
                number_cell("–" if isinstance(group, KafkaError) else len(group.members)),
                sparkline(line.points, "lag") if line is not None else "",
                number_cell(count(lags[each.group_id]) if each.group_id in lags else "–"),
            ]
        )
    return rows


def _state(state: str) -> Markup:
    kinds = {"Stable": "good", "Empty": "", "Dead": "bad"}
    return badge(state or "unknown", kinds.get(state, "warn"))


# --- one group --------------------------------------------------------------------------------------


async def group_page(call: ConsoleCall) -> Any:
    return await _group_page(call, call.text("group") or "", call.number("page", 0), None)


async def _group_page(call: ConsoleCall, name: str, page: int, why: Refused | None) -> Any:
    workspace = await call.workspace()
    snapshot = await take_group_snapshot(await workspace.cluster(), name, workspace.clock.now_ms())
    workspace.history.take_lag(workspace.clock.now_ms(), name, snapshot.lag)
    before = workspace.group_snapshots.get(name)
    if before is None or snapshot.time_ms - before.time_ms > 120_000:
        before = None
    workspace.remember(name, snapshot)
    findings = (
        reasons(before, snapshot)
        if before is not None and before.time_ms < snapshot.time_ms
        else reasons(snapshot)
    )
    group = snapshot.group
    line = workspace.history.group_lags.get(name)
    return call.show(
        f"Group {name}",
        heading([link(call.here("groups"), "Groups", class_="trail"), " / ", name], _state(group.state)),
        refusal(why.words if why is not None else None),
        live(
            "group",
            tag(
                "div",
                figure("Behind", count(snapshot.lag), "records"),
                figure("Members", count(len(group.members))),
                figure("Partitions", count(len(snapshot.partitions))),
                figure("Type", group.group_type or "Classic", group.assignor or None),
                figure("Coordinator", group.coordinator.node_id, group.coordinator.address),
                class_="figures",
            ),
            card(
                "Why",
                tag(
                    "ul",
                    [
                        finding(_STATES[each.severity], each.subject, each.text, each.next_step)
                        for each in findings[:_MOST_FINDINGS]
                    ],
                    class_="findings",
                ),
                left_out(len(findings), _MOST_FINDINGS, "finding"),
            ),
            card(
                "Lag over time",
                wide_plot(line.points if line is not None else (), "Records behind"),
            ),
            card("Partitions", _partitions(call, snapshot, page)),
            card("Members", _members(snapshot)),
        ),
        None if call.read_only else _reset_form(call, snapshot, why),
        active="groups",
        status=why.status if why is not None else 200,
    )


def _partitions(call: ConsoleCall, snapshot: GroupSnapshot, page: int) -> Content:
    rows = []
    total = len(snapshot.partitions)
    page = min(max(page, 0), max(0, (total - 1) // _PARTITIONS))
    for partition, state in list(snapshot.partitions.items())[page * _PARTITIONS : (page + 1) * _PARTITIONS]:
        owner = snapshot.group.owner(partition)
        here = f"{call.here('topics', partition.topic)}/messages"
        unread = link(
            query(here, partition=str(partition.partition), unread_by=snapshot.group.group_id),
            "not read yet",
            class_="whole",
        )
        rows.append(
            [
                link(call.here("topics", partition.topic), partition.topic),
                number_cell(partition.partition),
                number_cell("–" if state.committed is None else count(state.committed)),
                number_cell(count(state.end)),
                number_cell(count(state.waiting) if state.committed is not None else "–"),
                owner.client_id
                if owner is not None
                else badge("nobody", "warn" if snapshot.group.members else ""),
                unread if state.waiting else "",
            ]
        )
    columns = [
        "Topic",
        number_head("Partition"),
        number_head("Committed"),
        number_head("End"),
        number_head("Behind"),
        "Read by",
        "",
    ]
    address = call.here("groups", "view")
    return [
        table(columns, rows, empty="It has committed nothing."),
        pager(address, page, _PARTITIONS, total, group=snapshot.group.group_id),
    ]


def _members(snapshot: GroupSnapshot) -> Content:
    rows = [
        [
            [
                each.client_id,
                " ",
                badge(each.group_instance_id) if each.group_instance_id else None,
                tag("small", f" {each.member_id}"),
            ],
            each.client_host.lstrip("/"),
            ", ".join(map(str, each.assignment[:20]))
            + (f" and {len(each.assignment) - 20} more" if len(each.assignment) > 20 else "")
            or "nothing",
        ]
        for each in snapshot.group.members[:_MOST_ROWS]
    ]
    return [
        table(["Member", "Host", "Reads"], rows, empty="It has no member."),
        left_out(len(snapshot.group.members), _MOST_ROWS, "member"),
    ]


# --- resets -----------------------------------------------------------------------------------------


def _reset_form(call: ConsoleCall, snapshot: GroupSnapshot, why: Refused | None) -> Markup:
    given = why.given if why is not None else {}
    topics = sorted({each.topic for each in snapshot.partitions})
    which = [("", "all of them"), *((each, each) for each in topics)]
    name = snapshot.group.group_id
    choices = [
        ("earliest", "the beginning"),
        ("latest", "the end"),
        ("timestamp", "a time"),
        ("offset", "an offset"),
        ("shift", "so many records on (+) or back (-)"),
    ]
    reset = tag(
        "form",
        call.token(),
        hidden("group", name),
        labelled("Topic", select("topic", which, given.get("topic", ""))),
        labelled("To", select("to", choices, given.get("to", ""))),
        labelled(
            "Time, offset or number",
            text_input("number", given.get("number", ""), placeholder="10m ago, 42, -100"),
            "Where one is needed.",
        ),
        tag("button", "Show the plan", class_="quiet"),
        method="post",
        action=call.here("groups", "reset"),
    )
    gone = tag(
        "form",
        call.token(),
        hidden("group", name),
        labelled("Type the group’s name to delete it", text_input("name", placeholder=name)),
        tag("button", "Delete the group", class_="danger"),
        method="post",
        action=call.here("groups", "delete"),
    )
    note = (
        p("A group with members keeps its offsets: stop its consumers first.", class_="note")
        if snapshot.group.members
        else None
    )
    return tag(
        "details",
        tag("summary", "Reset or delete this group"),
        note,
        tag("div", reset, gone, class_="columns three"),
        class_="card",
        open=why is not None,
    )


def _reset_of(given: dict[str, str], now_ms: int) -> Reset:
    to, number = given.get("to", ""), given.get("number", "").strip()
    try:
        if to == "timestamp":
            return Reset(ResetTo.TIMESTAMP, time_ms(number, now_ms))
        if to in ("offset", "shift"):
            return Reset(ResetTo(to), max(-(10**18), min(int(number), 10**18)))
        return Reset({"earliest": ResetTo.EARLIEST, "latest": ResetTo.LATEST}[to])
    except KeyError:
        raise WrongInput("Choose what to reset to.") from None
    except ValueError:
        wanted = HOW_TO_WRITE if to == "timestamp" else "a whole number"
        raise WrongInput(f"{number[:40]!r} cannot be used: give {wanted}.") from None


async def reset_group(call: ConsoleCall) -> Any:
    """Shows the plan first; with ``confirmed`` does what was shown."""
    given = await call.form()
    workspace = await call.workspace()
    name = given.get("group", "")
    try:
        if given.get("confirmed"):
            return await _apply(call, workspace, name, given["confirmed"])
        return await _plan(call, workspace, name, given)
    except REFUSALS as error:
        return await _group_page(call, name, 0, refused(given, error))


async def _plan(call: ConsoleCall, workspace: Workspace, name: str, given: dict[str, str]) -> Any:
    committed_now = await (await workspace.groups()).committed(name)
    committed = {tp: each for tp, each in committed_now.items() if isinstance(each, CommittedOffset)}
    partitions = [tp for tp in committed if not given.get("topic") or tp.topic == given["topic"]]
    if not partitions:
        raise WrongInput("The group has committed nothing there, so there is nothing to reset.")
    reset = _reset_of(given, workspace.clock.now_ms())
    try:
        plan = await new_offsets(await workspace.admin(), reset, partitions, committed)
    except NoCommittedOffset as error:
        raise WrongInput(f"The group has committed nothing for {error.partition}.") from None
    return _plan_page(call, name, plan, committed)


def _plan_page(
    call: ConsoleCall, name: str, plan: NewOffsets, committed: dict[TopicPartition, CommittedOffset]
) -> Any:
    planned = sorted(plan.offsets.items())
    rows = [
        [
            str(tp),
            number_cell(count(committed[tp].offset)),
            number_cell(count(offset)),
            number_cell(f"{offset - committed[tp].offset:+,}"),
        ]
        for tp, offset in planned
    ]
    remarks = [
        f"{each.partition}: {each.wanted} is outside of the partition, so {each.offset} is taken."
        for each in plan.moved[:20]
    ]
    remarks += [f"{each}: no record is that new, so its end is taken." for each in plan.without_record[:20]]
    columns = ["Partition", number_head("Now"), number_head("Then"), number_head("Change")]
    form = tag(
        "form",
        call.token(),
        hidden("group", name),
        hidden("confirmed", ";".join(f"{tp.topic}:{tp.partition}:{offset}" for tp, offset in planned)),
        tag("button", "Reset the offsets"),
        " ",
        link(query(call.here("groups", "view"), group=name), "Cancel", class_="button quiet"),
        method="post",
        action=call.here("groups", "reset"),
        class_="actions",
    )
    return call.show(
        f"Reset of {name}",
        heading(["Reset of ", name]),
        card(
            "The plan: nothing has changed yet",
            table(columns, rows, empty="Nothing."),
            [p(each, class_="note") for each in remarks],
        ),
        form,
        active="groups",
    )


async def _apply(call: ConsoleCall, workspace: Workspace, name: str, plan: str) -> Any:
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for part in plan.split(";"):
        topic, _, rest = part.partition(":")
        before, _, after = rest.partition(":")
        index, offset = digits(before), digits(after)
        if not topic or index is None or index > _LARGEST_PARTITION or offset is None:
            raise WrongInput("The plan cannot be read: make it again.")
        offsets[TopicPartition(topic, index)] = CommittedOffset(offset)
    asked = await workspace.groups()

    async def work() -> None:
        raise_errors(await asked.commit(name, offsets))

    await changing(call, "reset group", f"{name}: {plan}", work())
    return call.done(f"The offsets of {name} are reset.", query(call.here("groups", "view"), group=name))


async def delete_group(call: ConsoleCall) -> Any:
    given = await call.form()
    name = given.get("group", "")
    if given.get("name", "").strip() != name.strip():
        raise WrongInput(f"Nothing was deleted: the name that was typed is not {name!r}.")
    asked = await (await call.workspace()).groups()

    async def work() -> None:
        raise_errors(await asked.delete([name]))

    await changing(call, "delete group", name, work())
    return call.done(f"Group {name} is deleted.", call.here("groups"))
