"""Brokers: what each leads and holds, moves of replicas that are under way, and the balance of leaders.

Invariant: the only change made here is an election of preferred leaders, which loses nothing.
"""

from typing import Any

from moldau.client.admin.replicas import PREFERRED, elect_leaders, ongoing_moves
from moldau.console.advice import in_words
from moldau.console.call import ConsoleCall, changing
from moldau.console.markup.html import Content, link, number_cell, number_head, p, table, tag
from moldau.console.markup.layout import badge, card, heading, left_out, live
from moldau.console.markup.words import count, size
from moldau.console.workspace import Snapshot, Workspace
from moldau.protocol.errors import KafkaError

_MOST_MOVES = 200


async def brokers(call: ConsoleCall) -> Any:
    """Brokers, what they lead and hold, and moves that are under way."""
    workspace = await call.workspace()
    snapshot = await workspace.snapshot()
    directories = await workspace.log_directories()
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
        held, total, usable = -1, 0, 0
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
                tag("td", broker.address, class_="whole"),
                broker.rack or "–",
                number_cell([count(leads), tag("small", f"of {count(preferred)} preferred")]),
                number_cell(count(holds)),
                number_cell(badge(count(behind), "bad") if behind else "0"),
                number_cell(size(held)),
                number_cell([size(usable), tag("small", f"of {size(total)}")] if total else "–"),
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
    try:
        moves = await ongoing_moves(await workspace.cluster())
    except KafkaError as error:
        return card("Moves", p(in_words(error), class_="note"))
    snapshot = await workspace.snapshot()
    rows = []
    for partition, move in sorted(moves.items())[:_MOST_MOVES]:
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
    return card(
        "Moves",
        table(columns, rows, empty="No replica is being moved."),
        left_out(len(moves), _MOST_MOVES, "partition"),
    )


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
        p(f"{count(len(away))} partitions are not led by their preferred replica: {', '.join(away[:10])}"),
        button,
    ]


async def elect(call: ConsoleCall) -> Any:
    await call.form()
    workspace = await call.workspace()
    await changing(
        call, "elect preferred leaders", "all", elect_leaders(await workspace.cluster(), PREFERRED, None)
    )
    return call.done("The preferred replicas lead now.", call.here("brokers"))


def _ids(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids)) or "–"
