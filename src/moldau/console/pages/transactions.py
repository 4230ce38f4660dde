"""Transactions of producers: which are open, for how long, and an end to one that hangs.

Invariant: a transaction is aborted only by somebody who has seen what it holds open.
"""

from typing import Any

from moldau.client.admin.transactions import TransactionDescription
from moldau.console.call import ConsoleCall, WrongInput, changing
from moldau.console.markup.html import Content, link, number_cell, number_head, p, query, table, tag
from moldau.console.markup.layout import badge, card, heading, hidden, left_out, live, pager
from moldau.console.markup.words import count, duration, plural
from moldau.protocol.errors import KafkaError

PAGE = 50
_MOST_PARTITIONS = 500


async def transactions(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    asked = await workspace.transactions()
    listed = sorted(
        await asked.list_transactions(), key=lambda each: (each.state != "Ongoing", each.transactional_id)
    )
    page = min(max(call.number("page", 0), 0), max(0, (len(listed) - 1) // PAGE))
    shown = listed[page * PAGE : (page + 1) * PAGE]
    described = await asked.describe_transactions([each.transactional_id for each in shown])
    now = workspace.clock.now_ms()
    rows = []
    for each in shown:
        found = described[each.transactional_id]
        address = query(call.here("transactions", "view"), id=each.transactional_id)
        rows.append(
            [
                link(address, each.transactional_id),
                _state(each.state),
                number_cell(str(each.producer_id)),
                number_cell(each.coordinator_id),
                number_cell("" if isinstance(found, KafkaError) else len(found.partitions)),
                number_cell("" if isinstance(found, KafkaError) else _age(found, now)),
            ]
        )
    columns = [
        "Transactional id",
        "State",
        number_head("Producer id"),
        number_head("Coordinator"),
        number_head("Partitions"),
        number_head("Open for"),
    ]
    return call.show(
        "Transactions",
        heading("Transactions"),
        live(
            "transactions",
            p(plural(len(listed), "transactional id"), class_="note"),
            card("", table(columns, rows, empty="No producer has used transactions.")),
            pager(call.here("transactions"), page, PAGE, len(listed)),
        ),
        active="transactions",
    )


def _age(found: TransactionDescription, now_ms: int) -> Content:
    return duration(max(0, now_ms - found.start_ms)) if found.start_ms > 0 and found.partitions else ""


def _state(state: str) -> Content:
    return badge(state, {"Ongoing": "warn", "CompleteCommit": "good"}.get(state, ""))


async def transaction_page(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    name = call.text("id") or ""
    found = (await (await workspace.transactions()).describe_transactions([name]))[name]
    if isinstance(found, KafkaError):
        raise found
    now = workspace.clock.now_ms()
    facts: list[tuple[str, Content]] = [
        ("State", _state(found.state)),
        ("Producer", f"{found.producer_id}, epoch {found.producer_epoch}"),
        ("Coordinator", found.coordinator_id),
        ("Timeout", duration(found.timeout_ms)),
        ("Open for", _age(found, now) or "–"),
    ]
    rows = [
        [link(call.here("topics", each.topic), each.topic), number_cell(each.partition)]
        for each in found.partitions[:_MOST_PARTITIONS]
    ]
    abort = None
    if not call.read_only and found.state == "Ongoing":
        abort = card(
            "Abort it",
            p(
                "Its producer is fenced and cannot go on; readers of committed records never see what it "
                "wrote in this transaction.",
                class_="note",
            ),
            tag(
                "form",
                call.token(),
                hidden("id", name),
                tag("button", "Abort the transaction", class_="danger"),
                method="post",
                action=call.here("transactions", "abort"),
            ),
        )
    return call.show(
        f"Transaction {name}",
        heading([link(call.here("transactions"), "Transactions", class_="trail"), " / ", name]),
        card("", tag("dl", [[tag("dt", label), tag("dd", value)] for label, value in facts])),
        card(
            f"Partitions with records of it: {count(len(found.partitions))}",
            table(["Topic", number_head("Partition")], rows, empty="None."),
            left_out(len(found.partitions), _MOST_PARTITIONS, "partition"),
        ),
        abort,
        active="transactions",
    )


async def abort_transaction(call: ConsoleCall) -> Any:
    given = await call.form()
    name = given.get("id", "")
    if not name:
        raise WrongInput("Which transaction?")
    asked = await (await call.workspace()).transactions()
    known = {each.transactional_id for each in await asked.list_transactions()}
    if name not in known:  # fencing would make it
        raise WrongInput(f"There is no transactional id {name!r}.")
    await changing(call, "abort transaction", name, asked.fence_producer(name))
    return call.done(f"The transaction of {name} is aborted.", call.here("transactions"))
