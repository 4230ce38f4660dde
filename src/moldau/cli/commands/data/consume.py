"""``moldau consume``: read records of a topic.

Invariant: without ``--follow`` it reads what was there when it began, and ends. The records of a partition
are shown in order. The format ``value`` writes bytes as they are, except to a terminal, where what would
command it is escaped; ``--raw`` does not. The other formats escape what is no text.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from moldau.base.escaping import escaped_bytes
from moldau.base.times import HOW_TO_WRITE, format_time, parse_time
from moldau.cli.commands.data.topic_branches import time_of
from moldau.cli.output import echo, note
from moldau.cli.reports.consume_table import consume_table
from moldau.cli.session import connected, connection_options

if TYPE_CHECKING:
    from moldau.base.names import TopicPartition
    from moldau.client.consumer.consumer import Start
    from moldau.client.consumer.fetched import ConsumerRecord
    from moldau.client.transport.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Shown:
    """What of a record is printed with the format ``value``."""

    key: bool = False
    headers: bool = False
    timestamp: bool = False
    offset: bool = False
    separator: str = "\t"


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="WHERE",
    help="earliest, latest (follows), an offset, or a time: 2026-01-31T12:00:00Z, '10m ago', @1769860800000.",
)
@click.option("-p", "--partition", "partitions", multiple=True, type=click.IntRange(0), help="Repeatable.")
@click.option("-n", "--max", "maximum", type=click.IntRange(1), help="End after this many records.")
@click.option("-f", "--follow/--no-follow", default=None, help="Wait for new records, or end at the end.")
@click.option(
    "--format", "form", type=click.Choice(["value", "json", "table"]), default="value", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json: one object in a line.")
@click.option("-k", "--key", "show_key", is_flag=True, help="Print the key before the value.")
@click.option("--headers", "show_headers", is_flag=True, help="Print the headers before the value.")
@click.option("--timestamps", "show_timestamps", is_flag=True, help="Print the timestamp before the value.")
@click.option("--offsets", "show_offsets", is_flag=True, help="Print partition and offset before the value.")
@click.option("--separator", default="\t", metavar="TEXT", help="Between those; default a tab.")
@click.option(
    "--as-of", "as_of", metavar="TIME", help="Only what was there at that time; see --from for times."
)
@click.option("--table", "as_table", is_flag=True, help="The last value of every key, without deleted ones.")
@click.option("--raw", is_flag=True, help="Bytes as they are, also to a terminal.")
@click.option("--committed", is_flag=True, help="Leave out what is not committed (read_committed).")
@connection_options
def consume(
    topic: str,
    start: str,
    partitions: tuple[int, ...],
    maximum: int | None,
    follow: bool | None,
    form: str,
    as_json: bool,
    show_key: bool,
    show_headers: bool,
    show_timestamps: bool,
    show_offsets: bool,
    separator: str,
    as_of: str | None,
    as_table: bool,
    raw: bool,
    committed: bool,
) -> None:
    """Read the records of TOPIC.

    With --as-of only those before the first one that is newer; with --table the table that they make, of
    committed records only.

    \b
    Examples:
      moldau consume orders
      moldau consume orders --from latest --key
      moldau consume orders --from '1h ago' --json | jq .value
      moldau consume orders --partition 0 --from 42 --max 10 --format table
      moldau consume orders --as-of '1h ago'
      moldau consume users --table --as-of 2026-01-31T12:00:00Z --key
    """
    from moldau.base.clock import SystemClock

    try:
        begin = parse_start(start, SystemClock().now_ms())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--from") from None
    follows = start == "latest" if follow is None else follow
    until = _end_of(as_of, as_table, start, follows)
    shown = Shown(show_key, show_headers, show_timestamps, show_offsets, separator)
    format_record = formatter("json" if as_json else form, shown, terminal=sys.stdout.isatty() and not raw)
    if form == "table" and not as_json:
        echo(TABLE_HEAD)

    async def work(cluster: "Cluster") -> int:
        wanted = await _partitions(cluster, topic, partitions)
        if as_table:
            return await consume_table(
                cluster, wanted, until, maximum, lambda rows: _show(rows, format_record)
            )
        return await _consume(
            cluster, dict.fromkeys(wanted, begin), maximum, follows, committed, format_record, until
        )

    count = connected(work)
    if not count:
        note(f"No records from {start} on in {topic}" + ("" if as_of is None else f" as of {as_of}"))


def _end_of(as_of: str | None, as_table: bool, start: str, follows: bool) -> int | None:
    """The time up to which records are shown; UsageError where the options contradict each other."""
    if (as_of is not None or as_table) and follows:
        raise click.UsageError("--as-of and --table come to an end: not with --follow or --from latest")
    if as_table and start != "earliest":
        raise click.UsageError("--table is read from the beginning: not with --from")
    return None if as_of is None else time_of(as_of, "--as-of")


def parse_start(text: str, now_ms: int) -> "Start":
    """``earliest``, ``latest``, an offset, or a time, which may follow an ``@``; ValueError otherwise."""
    from moldau.client.consumer.consumer import BEGINNING, END, at_offset, at_timestamp

    if text in ("earliest", "beginning"):
        return BEGINNING
    if text in ("latest", "end"):
        return END
    if text.isdecimal():
        return at_offset(int(text))
    try:
        return at_timestamp(parse_time(text.removeprefix("@"), now_ms))
    except ValueError:
        raise ValueError(f"{text!r} is neither earliest, latest, an offset, nor {HOW_TO_WRITE}") from None


def formatter(form: str, shown: Shown, *, terminal: bool = False) -> "Callable[[ConsumerRecord], bytes]":
    """The function that turns a record into the line that is printed for it."""
    if terminal:
        plain = formatter(form, shown)
        return lambda record: escaped_bytes(plain(record))
    if form == "json":
        import json

        return lambda record: json.dumps(record_object(record), ensure_ascii=False).encode(
            "utf-8", "surrogateescape"
        )
    if form == "table":
        return lambda record: table_line(record).encode()
    return lambda record: value_line(record, shown)


def value_line(record: "ConsumerRecord", shown: Shown) -> bytes:
    parts: list[bytes] = []
    if shown.offset:
        parts.append(f"{record.partition}:{record.offset}".encode())
    if shown.timestamp:
        parts.append(format_time(record.timestamp).encode())
    if shown.headers:
        pairs = (f"{name}={text_of(value)}" for name, value in record.headers)
        parts.append(",".join(pairs).encode("utf-8", "surrogateescape"))
    if shown.key:
        parts.append(b"null" if record.key is None else record.key)
    parts.append(b"null" if record.value is None else record.value)
    return shown.separator.encode().join(parts)


def record_object(record: "ConsumerRecord") -> dict[str, Any]:
    """A record as JSON: text where the bytes are UTF-8, else an object with ``base64``."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type.name,
        "key": json_value(record.key),
        "value": json_value(record.value),
        "headers": [[name, json_value(value)] for name, value in record.headers],
    }


def json_value(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"base64": b64encode(data).decode()}


TABLE_HEAD = f"{'PART':>4}  {'OFFSET':>10}  {'TIMESTAMP':24}  {'KEY':20}  VALUE"


def table_line(record: "ConsumerRecord") -> str:
    """One line whatever the bytes are; the value comes last and is not cut."""
    key = "" if record.key is None else text_of(record.key)
    return (
        f"{record.partition:>4}  {record.offset:>10}  {format_time(record.timestamp):24}  "
        f"{key:20}  {text_of(record.value)}"
    )


def text_of(data: bytes | None) -> str:
    """Bytes as text in one line."""
    if data is None:
        return "null"
    text = data.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _show(rows: "list[ConsumerRecord]", format_record: "Callable[[ConsumerRecord], bytes]") -> None:
    sys.stdout.buffer.write(b"".join(format_record(row) + b"\n" for row in rows))
    sys.stdout.buffer.flush()


async def _partitions(cluster: "Cluster", name: str, partitions: tuple[int, ...]) -> "list[TopicPartition]":
    from moldau.base.names import TopicPartition

    topic = await cluster.topic(name)
    return [TopicPartition(name, index) for index in partitions or range(len(topic.partitions))]


async def _consume(
    cluster: "Cluster",
    starts: "dict[TopicPartition, Start]",
    maximum: int | None,
    follow: bool,
    committed: bool,
    format_record: "Callable[[ConsumerRecord], bytes]",
    as_of_ms: int | None = None,
) -> int:
    from moldau.client.admin.descriptions import READ_COMMITTED, READ_UNCOMMITTED
    from moldau.client.consumer.consumer import BEGINNING, END, Consumer, at_offset
    from moldau.client.snapshots.time_travel import ends_as_of

    out = sys.stdout.buffer
    count = 0
    level = READ_COMMITTED if committed else READ_UNCOMMITTED
    async with Consumer(cluster, isolation_level=level) as consumer:
        until = None if follow else await consumer.offsets_of(dict.fromkeys(starts, END))
        if as_of_ms is not None:
            until = await ends_as_of(cluster, starts, as_of_ms, isolation_level=level)
        begins = await consumer.offsets_of(dict.fromkeys(starts, BEGINNING))
        offsets = await consumer.offsets_of(starts)
        await consumer.assign(
            {
                # An offset before the first record means the first; a partition without more is left out.
                partition: at_offset(max(offset, begins[partition]))
                for partition, offset in offsets.items()
                if until is None or offset < until[partition]
            }
        )
        async for batch in consumer.batches(until=until):
            lines = []
            for record in batch.consumer_records():
                if until is not None and record.offset >= until[batch.topic_partition]:
                    break  # it was written after we began
                lines.append(format_record(record))
                if count + len(lines) == maximum:
                    break
            count += len(lines)
            out.write(b"".join(line + b"\n" for line in lines))
            out.flush()
            if count == maximum:
                break
    return count
