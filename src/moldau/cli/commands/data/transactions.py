"""``moldau transactions``: list and describe transactions, and abort those that were left open.

Invariant: only ``abort`` changes anything, and only open transactions: it never creates a transactional id.
The age of a transaction is measured with the clock of this machine.
"""

from typing import TYPE_CHECKING, Any

import click

from moldau.base.times import format_time, parse_time
from moldau.cli.output import echo, print_json, print_table
from moldau.cli.session import cluster_command_options, connected

if TYPE_CHECKING:
    from moldau.client.admin.transactions import TransactionDescription, TransactionListing, Transactions
    from moldau.client.transport.cluster import Cluster

#: States in which readers of committed records wait for an end.
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
#: The timeout that an id has after ``abort``, unless it had a shorter one.
_TIMEOUT_MS = 30_000


@click.group()
def transactions() -> None:
    """List and describe transactions, and abort those that were forgotten.

    \b
    Examples:
      moldau transactions list --older-than 10m
      moldau transactions describe payments
      moldau transactions abort payments
    """


@transactions.command("list")
@click.option("--open", "only_open", is_flag=True, help="Only those that have not ended.")
@click.option("--older-than", metavar="TIME", help="Only open ones that began longer ago, such as 10m or 2h.")
@click.option("--pattern", metavar="REGEX", help="Only ids that this regular expression fits as a whole.")
@cluster_command_options
def list_(only_open: bool, older_than: str | None, pattern: str | None, as_json: bool) -> None:
    """List transactional ids with the state of their last transaction.

    \b
    Examples:
      moldau transactions list
      moldau transactions list --older-than 10m
      moldau transactions list --open --pattern 'payments-.*' --json
    """
    filters: dict[str, Any] = {"pattern": pattern}
    if older_than is not None:
        filters["duration_ms"] = parse_duration(older_than)
    if only_open or older_than is not None:
        filters["states"] = OPEN_STATES

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        from moldau.client.admin.transactions import Transactions

        client = Transactions(cluster)
        found = await client.list_transactions(**filters)
        return await _rows(client, sorted(found, key=lambda each: each.transactional_id))

    rows = connected(work)
    if as_json:
        print_json(rows)
        return
    print_table(
        ["Transactional id", "State", "Producer id>", "Coordinator>", "Open since", "Age>", "Partitions>"],
        [
            (
                row["transactional_id"],
                row["state"],
                row["producer_id"],
                row["coordinator_id"],
                *(
                    (format_time(row["start_ms"]), age_text(row["age_ms"]), row["partitions"])
                    if "start_ms" in row
                    else ("", "", "")
                ),
            )
            for row in rows
        ],
    )


async def _rows(client: "Transactions", found: "list[TransactionListing]") -> list[dict[str, Any]]:
    from moldau.base.clock import SystemClock
    from moldau.protocol.errors import KafkaError

    described = await client.describe_transactions(
        [each.transactional_id for each in found if each.state in OPEN_STATES]
    )
    now_ms = SystemClock().now_ms()
    rows = []
    for each in found:
        row: dict[str, Any] = {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "coordinator_id": each.coordinator_id,
        }
        details = described.get(each.transactional_id)
        # One that has ended since then keeps the state that it was listed with.
        if details is not None and not isinstance(details, KafkaError) and details.state in OPEN_STATES:
            row["start_ms"] = details.start_ms
            row["age_ms"] = now_ms - details.start_ms
            row["partitions"] = len(details.partitions)
        rows.append(row)
    return rows


@transactions.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@cluster_command_options
def describe(ids: tuple[str, ...], as_json: bool) -> None:
    """Show transactional ids, and where their open transactions began in each partition.

    \b
    Examples:
      moldau transactions describe payments
      moldau transactions describe payments refunds --json
    """

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        from moldau.client.admin.transactions import Transactions

        client = Transactions(cluster)
        return [await _details(client, await _known(client, each)) for each in ids]

    found = connected(work)
    if as_json:
        print_json(found)
        return
    for each in found:
        echo(
            f"{each['transactional_id']}: {each['state']}, producer id {each['producer_id']}, "
            f"epoch {each['producer_epoch']}, coordinator {each['coordinator_id']}, "
            f"timeout {age_text(each['timeout_ms'])}"
        )
        if each["age_ms"] is not None:
            echo(f"began {format_time(each['start_ms'])}, {age_text(each['age_ms'])} ago")
        if each["partitions"]:
            print_table(
                ["Topic", "Partition>", "First offset>"],
                [(p["topic"], p["partition"], p["start_offset"]) for p in each["partitions"]],
            )


async def _known(client: "Transactions", transactional_id: str) -> "TransactionDescription":
    """The description of an id; the error for an unknown one names it."""
    from moldau.protocol.errors import ErrorCode, KafkaError

    found = (await client.describe_transactions([transactional_id]))[transactional_id]
    if isinstance(found, KafkaError):
        if found.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise KafkaError(
                found.code,
                f"no producer has used the transactional id {transactional_id!r}: "
                "'moldau transactions list' shows those that were",
            )
        raise found
    return found


async def _details(client: "Transactions", found: "TransactionDescription") -> dict[str, Any]:
    from moldau.base.clock import SystemClock
    from moldau.client.admin.admin import Admin
    from moldau.protocol.errors import KafkaError

    producers = await Admin(client.cluster).describe_producers(found.partitions) if found.partitions else {}
    partitions = []
    for partition in sorted(found.partitions):
        states = producers[partition]
        starts = [
            state.current_transaction_start_offset
            for state in ([] if isinstance(states, KafkaError) else states)
            if state.producer_id == found.producer_id and state.current_transaction_start_offset >= 0
        ]
        partitions.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "start_offset": starts[0] if starts else None,
            }
        )
    is_open = found.start_ms >= 0 and found.state in OPEN_STATES
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator_id": found.coordinator_id,
        "timeout_ms": found.timeout_ms,
        "start_ms": found.start_ms if is_open else None,
        "age_ms": SystemClock().now_ms() - found.start_ms if is_open else None,
        "partitions": partitions,
    }


@transactions.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@cluster_command_options
def abort(ids: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Abort open transactions and fence their producers, which cannot go on with them.

    A producer that is fenced fails at its next step; one that is started again with the same id works.

    \b
    Examples:
      moldau transactions abort payments
      moldau transactions abort payments refunds --yes
    """
    if not yes:
        click.confirm(f"Abort {', '.join(ids)} and fence the producer?", abort=True, err=True)

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        from moldau.client.admin.transactions import Transactions

        client = Transactions(cluster)
        # All ids are looked up before the first one is aborted: with a mistyped id nothing changes.
        known = [await _known(client, each) for each in ids]
        return [await _abort(client, each) for each in known]

    outcomes = connected(work)
    if as_json:
        print_json(outcomes)
        return
    for outcome in outcomes:
        name = outcome["transactional_id"]
        if outcome["aborted"]:
            echo(f"Aborted {name}: producer id {outcome['producer_id']} is fenced")
        else:
            echo(f"Nothing to abort for {name}: it is in state {outcome['state']}")


async def _abort(client: "Transactions", found: "TransactionDescription") -> dict[str, Any]:
    aborted = found.state == "Ongoing"
    if aborted:
        await client.fence_producer(found.transactional_id, timeout_ms=min(found.timeout_ms, _TIMEOUT_MS))
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "aborted": aborted,
    }


def parse_duration(text: str) -> int:
    """The milliseconds of "10m", "2h" or "30s"; anything else is wrong usage."""
    try:
        return -parse_time(f"{text.strip()} ago", 0)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time such as 30s, 10m, 2h or 1d", param_hint="--older-than"
        ) from None


def age_text(age_ms: int) -> str:
    """A duration in its two largest units: "2h 5m"."""
    seconds = max(0, age_ms) // 1000
    if seconds < 1:
        return f"{max(0, age_ms)}ms"
    parts = []
    for name, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        if seconds >= size:
            parts.append(f"{seconds // size}{name}")
            seconds %= size
    return " ".join(parts[:2])
