"""The start page of a cluster: its brokers, rates and lag, what is wrong and what to do about it.

Invariant: shows and changes nothing; a part that cannot be asked for (a permission is missing) is left out,
with a word about it.
"""

from typing import Any

from moldau.client.admin.descriptions import PartitionDescription, TopicDescription
from moldau.client.groups.descriptions import GroupListing
from moldau.client.transport.cluster import Topic
from moldau.console.advice import in_words
from moldau.console.call import ConsoleCall
from moldau.console.markup.html import Content, Markup, link, number_cell, number_head, query, table, tag
from moldau.console.markup.layout import badge, card, figure, finding, heading, live
from moldau.console.markup.plots import line_plot, sparkline
from moldau.console.markup.words import count, rate
from moldau.console.workspace import Snapshot, Workspace
from moldau.protocol.errors import KafkaError
from moldau.reports.cluster_why import Reason, reasons
from moldau.web.pages import redirect

_SHOWN = 8
_NOT_YET = "the first look at the groups is not over"
_MANY = 3


async def start(call: ConsoleCall) -> Any:
    """``/`` leads to the first cluster."""
    first = call.console.settings.clusters[0].name
    return redirect(f"/c/{first}", call.new_cookie())


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
    bad = [f"{count(under)} under-replicated"] if under else []
    bad += [f"{count(offline)} without a leader"] if offline else []
    number = None if isinstance(groups, KafkaError) else count(len(groups))
    return tag(
        "div",
        figure("Brokers", count(live_brokers), f"controller {snapshot.cluster.controller_id}"),
        figure("Topics", count(len(own)), "without internal ones"),
        figure(
            "Partitions",
            count(len(partitions)),
            ", ".join(bad) or "all in sync",
            state="bad" if bad else "",
        ),
        figure("Records in", rate(workspace.history.total_rate.last), "over the last look"),
        figure("Groups", number or "–", None if number else "not to be seen"),
        figure("Lag", "–" if lag is None else count(lag), "records behind, all groups"),
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
    found += [
        finding("bad", None, reason.what, [_some(reason), reason.next_step])
        for reason in reasons(snapshot.cluster, descriptions(snapshot.topics))
    ]
    if isinstance(groups, KafkaError):
        found.append(finding("note", "Groups cannot be shown:", in_words(groups)))
    else:
        found += _idle_groups(call, workspace, groups)
    if not found:
        was_looked_at = not groups or workspace.history.total_lag.last is not None
        alone = "no group is left alone" if was_looked_at else _NOT_YET
        found.append(finding("good", None, f"All partitions have their leaders and replicas; {alone}."))
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
    was_looked_at = workspace.history.total_lag.last is not None
    empty = "No group is behind." if was_looked_at else f"{_NOT_YET.capitalize()}."
    return table(["Group", "Last minutes", number_head("Behind")], rows, empty=empty)
