"""The start page of a cluster: its brokers, rates and lag, what is wrong and what to do about it.

Invariant: shows and changes nothing; a part that cannot be asked for (a permission is missing) is left out, with
a word about it.
"""

from typing import Any

from moldau.cli.reports.cluster_why import Reason, reasons
from moldau.client.admin.descriptions import PartitionDescription, TopicDescription
from moldau.client.groups.descriptions import GroupListing
from moldau.client.transport.cluster import Topic
from moldau.console.advice import in_words
from moldau.console.call import ConsoleCall
from moldau.console.html import Content, Markup, link, number_cell, number_head, p, query, table, tag
from moldau.console.layout import badge, card, figure, finding, heading, live
from moldau.console.plots import line_plot, sparkline
from moldau.console.words import count, rate, size
from moldau.console.workspace import Snapshot, Workspace
from moldau.protocol.errors import KafkaError
from moldau.web.pages import redirect

_SHOWN = 8
_MANY = 3


async def start(call: ConsoleCall) -> Any:
    """``/`` leads to the first cluster."""
    first = call.console.settings.clusters[0].name
    return redirect(f"/c/{first}", call._cookie())


async def overview(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    snapshot = await workspace.snapshot()
    groups: list[GroupListing] | KafkaError
    try:
        groups = await workspace.listed_groups()
    except KafkaError as error:
        groups = error
    content = live(
        "overview",
        _figures(workspace, snapshot, groups),
        card("What is wrong, and what to do", _findings(call, workspace, snapshot, groups)),
        tag(
            "div",
            card("Records in", line_plot(workspace.history.total_rate.points, "Records a second", unit="/s")),
            card("Lag of all groups", line_plot(workspace.history.total_lag.points, "Records behind")),
            class_="columns",
        ),
        tag(
            "div",
            card("Busiest topics", _busiest(call, workspace)),
            card("Groups furthest behind", _furthest(call, workspace)),
            class_="columns",
        ),
    )
    beside = badge(f"Cluster id {snapshot.cluster.cluster_id}")
    return call.show("Overview", heading("Overview", beside), content, active="overview")


def descriptions(topics: dict[str, Topic]) -> list[TopicDescription]:
    """Topics as the reports know them."""
    return [
        TopicDescription(
            topic.name,
            topic.topic_id,
            topic.is_internal,
            tuple(
                PartitionDescription(
                    each.index,
                    each.leader_id,
                    each.leader_epoch,
                    each.replicas,
                    each.isr,
                    offline_replicas=each.offline_replicas,
                )
                for each in topic.partitions
                if each.replicas
            ),
        )
        for topic in topics.values()
    ]


def _figures(workspace: Workspace, snapshot: Snapshot, groups: list[GroupListing] | KafkaError) -> Markup:
    partitions = [each for topic in snapshot.topics.values() for each in topic.partitions]
    under = sum(1 for each in partitions if each.leader_id >= 0 and len(each.isr) < len(each.replicas))
    offline = sum(1 for each in partitions if each.leader_id < 0)
    own = [topic for topic in snapshot.topics.values() if not topic.is_internal]
    live_brokers = len(snapshot.cluster.brokers) - len(snapshot.cluster.fenced)
    lag = workspace.history.total_lag.last
    return tag(
        "div",
        figure("Brokers", count(live_brokers), f"controller {snapshot.cluster.controller_id}"),
        figure("Topics", count(len(own)), f"{count(len(partitions))} partitions"),
        figure("Records in", rate(workspace.history.total_rate.last), "over the last look"),
        figure(
            "Groups",
            "–" if isinstance(groups, KafkaError) else count(len(groups)),
            "not to be seen" if isinstance(groups, KafkaError) else None,
        ),
        figure("Lag", "–" if lag is None else count(lag), "records behind, all groups"),
        figure(
            "Under-replicated",
            count(under),
            "partitions",
            state="bad" if under else "good",
        ),
        figure("Without a leader", count(offline), "partitions", state="bad" if offline else "good"),
        class_="figures",
    )


def _findings(
    call: ConsoleCall, workspace: Workspace, snapshot: Snapshot, groups: list[GroupListing] | KafkaError
) -> Markup:
    found: list[Markup] = []
    if workspace.history.problem is not None:
        found.append(
            finding("bad", "The last look failed:", workspace.history.problem, "It is tried again by itself.")
        )
    for reason in reasons(snapshot.cluster, descriptions(snapshot.topics)):
        found.append(finding("bad", None, reason.what, [_some(reason), reason.next_step]))
    if isinstance(groups, KafkaError):
        found.append(finding("note", "Groups cannot be shown:", in_words(groups)))
    else:
        found += _idle_groups(call, workspace, groups)
    if not found:
        found.append(
            finding(
                "good", None, "All partitions have their leaders and replicas, and no group is left alone."
            )
        )
    return tag("ul", found, class_="findings")


def _some(reason: Reason) -> str:
    names = reason.partitions[:5]
    more = len(reason.partitions) - len(names)
    return f"{', '.join(names)}{f' and {more} more' if more > 0 else ''}. " if names else ""


def _idle_groups(call: ConsoleCall, workspace: Workspace, groups: list[GroupListing]) -> list[Markup]:
    """Groups with records to read and nobody who reads them."""
    alone = [
        (lag, each)
        for each in groups
        if each.state == "Empty" and (lag := workspace.history.lag(each.group_id) or 0) > 0
    ]
    alone.sort(key=lambda pair: -pair[0])
    found = [
        finding(
            "warn",
            link(query(call.here("groups", "view"), group=each.group_id), each.group_id),
            f"has no member, and {count(lag)} records wait for it.",
            "Start its consumer, or delete the group if nobody needs it.",
        )
        for lag, each in alone[:_MANY]
    ]
    if len(alone) > _MANY:
        rest = link(query(call.here("groups"), state="Empty"), f"{len(alone) - _MANY} more groups")
        found.append(finding("warn", rest, "have no member and records that wait."))
    return found


def _busiest(call: ConsoleCall, workspace: Workspace) -> Content:
    lines = sorted(
        ((line.last or 0, topic, line) for topic, line in workspace.history.topic_rates.items()),
        key=lambda each: -each[0],
    )
    rows = [
        [
            link(call.here("topics", topic), topic),
            sparkline(line.points, f"records a second of {topic}"),
            number_cell(rate(now)),
        ]
        for now, topic, line in lines[:_SHOWN]
        if now > 0
    ]
    return table(
        ["Topic", "Last minutes", number_head("Records")], rows, empty="Nothing is written at the moment."
    )


def _furthest(call: ConsoleCall, workspace: Workspace) -> Content:
    lines = sorted(
        ((line.last or 0, group, line) for group, line in workspace.history.group_lags.items()),
        key=lambda each: -each[0],
    )
    rows = [
        [
            link(query(call.here("groups", "view"), group=group), group),
            sparkline(line.points, f"lag of {group}"),
            number_cell(count(now)),
        ]
        for now, group, line in lines[:_SHOWN]
        if now > 0
    ]
    return table(["Group", "Last minutes", number_head("Behind")], rows, empty="No group is behind.")


async def brokers(call: ConsoleCall) -> Any:
    """Brokers, what they lead and hold, and moves that are under way."""
    workspace = await call.workspace()
    snapshot = await workspace.snapshot()
    admin = await workspace.admin()
    directories = await admin.describe_log_dirs()
    partitions = [(topic.name, each) for topic in snapshot.topics.values() for each in topic.partitions]
    rows = []
    for broker in sorted(snapshot.cluster.brokers, key=lambda each: each.node_id):
        leads = sum(1 for _, each in partitions if each.leader_id == broker.node_id)
        holds = sum(1 for _, each in partitions if broker.node_id in each.replicas)
        preferred = sum(1 for _, each in partitions if each.replicas and each.replicas[0] == broker.node_id)
        behind = sum(
            1 for _, each in partitions if broker.node_id in each.replicas and broker.node_id not in each.isr
        )
        found = directories.get(broker.node_id)
        held = total = usable = 0
        if found is not None and not isinstance(found, KafkaError):
            held = sum(replica.size for directory in found for replica in directory.replicas.values())
            total = sum(max(0, directory.total_bytes) for directory in found)
            usable = sum(max(0, directory.usable_bytes) for directory in found)
        rows.append(
            [
                [
                    tag("b", broker.node_id),
                    " ",
                    badge("controller", "good") if broker.node_id == snapshot.cluster.controller_id else None,
                    badge("fenced", "bad") if broker.node_id in snapshot.cluster.fenced else None,
                ],
                broker.address,
                broker.rack or "–",
                number_cell([count(leads), tag("small", f" of {count(preferred)} preferred")]),
                number_cell(count(holds)),
                number_cell(badge(count(behind), "bad") if behind else "0"),
                number_cell(size(held)),
                number_cell(f"{size(usable)} of {size(total)}" if total else "–"),
            ]
        )
    columns = [
        "Broker",
        "Address",
        "Rack",
        number_head("Leads"),
        number_head("Replicas"),
        number_head("Not in sync"),
        number_head("Data"),
        number_head("Disk free"),
    ]
    return call.show(
        "Brokers",
        heading("Brokers"),
        live(
            "brokers",
            card("", table(columns, rows, empty="No broker is there.")),
            await _moves(call, workspace),
        ),
        card("Balance", _balance(call, snapshot)),
        active="brokers",
    )


async def _moves(call: ConsoleCall, workspace: Workspace) -> Content:
    from moldau.client.admin.replicas import ongoing_moves

    try:
        moves = await ongoing_moves(await workspace.cluster())
    except KafkaError as error:
        return card("Moves", p(in_words(error), class_="note"))
    snapshot = await workspace.snapshot()
    rows = []
    for partition, move in sorted(moves.items())[:200]:
        topic = snapshot.topics.get(partition.topic)
        isr = topic.partitions[partition.partition].isr if topic is not None else ()
        arrived = [each for each in move.adding if each in isr]
        rows.append(
            [
                link(call.here("topics", partition.topic), str(partition)),
                _ids(move.replicas),
                _ids(move.adding),
                _ids(move.removing),
                f"{len(arrived)} of {len(move.adding)} in sync",
            ]
        )
    columns = ["Partition", "Replicas", "Coming", "Going", "Progress"]
    return card("Moves", table(columns, rows, empty="No replica is being moved."))


def _balance(call: ConsoleCall, snapshot: Snapshot) -> Content:
    away = [
        f"{topic.name}-{each.index}"
        for topic in snapshot.topics.values()
        for each in topic.partitions
        if each.replicas
        and each.leader_id >= 0
        and each.leader_id != each.replicas[0]
        and each.replicas[0] in each.isr
    ]
    if not away:
        return p("Every partition is led by its preferred replica.", class_="note")
    button = None
    if not call.read_only:
        button = tag(
            "form",
            call.token(),
            tag("button", "Let preferred replicas lead"),
            method="post",
            action=call.here("brokers", "elect"),
        )
    return [
        p(
            f"{count(len(away))} partitions are led by another than their preferred replica: {', '.join(away[:10])}"
        ),
        button,
    ]


async def elect(call: ConsoleCall) -> Any:
    from moldau.client.admin.replicas import PREFERRED, elect_leaders
    from moldau.console.call import changing

    await call.form()
    workspace = await call.workspace()
    await changing(
        call, "elect preferred leaders", "all", elect_leaders(await workspace.cluster(), PREFERRED, None)
    )
    return call.done("The preferred replicas lead now.", call.here("brokers"))


def _ids(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids)) or "–"
