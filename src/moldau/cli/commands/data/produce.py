"""``moldau produce``: write records to a topic, from lines, files or a generator.

Invariant: exit code 0 means that every line was written and acknowledged. The first record that the broker
refuses ends the command with 1 and its reason. Records keep the order of their lines.
"""

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from moldau.cli.output import note, print_json, progress, size_text
from moldau.cli.session import COMPRESSION, cluster_command_options, connected, pairs, timeout_ms

if TYPE_CHECKING:
    from moldau.client.producer.accumulator import RecordMetadata
    from moldau.client.producer.producer import Producer
    from moldau.client.transport.cluster import Cluster
    from moldau.protocol.errors import KafkaError

_READ_BYTES = 1 << 16
_PROGRESS_EVERY = 5_000

#: The largest request that brokers accept: only max.message.bytes of the topic limits a record.
_MAX_REQUEST_BYTES = 100_000_000

Item = tuple[bytes | None, bytes | None]


@click.command()
@click.argument("topic")
@click.option("-f", "--file", type=click.File("rb"), default="-", help="Read lines from a file, not stdin.")
@click.option("--whole", is_flag=True, help="The whole input is one record, not one for each line.")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-separator", metavar="TEXT", help="A line is KEY, this text, VALUE.")
@click.option("--null-value", metavar="TEXT", help="A value that is this text is null (a tombstone).")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Repeatable.")
@click.option("-p", "--partition", type=click.IntRange(0), help="Write to this partition only.")
@click.option("-n", "--count", type=click.IntRange(1), help="Generate this many records instead of reading.")
@click.option(
    "--size", type=click.IntRange(0), default=100, show_default=True, help="Bytes of each of those."
)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option("-z", "--compression", type=COMPRESSION, default="none", show_default=True)
@click.option("--linger-ms", type=click.FloatRange(0), default=5.0, show_default=True)
@click.option("--batch-size", type=click.IntRange(0), default=16_384, show_default=True, metavar="BYTES")
@cluster_command_options
def produce(
    topic: str,
    file: BinaryIO,
    whole: bool,
    key: str | None,
    key_separator: str | None,
    null_value: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    count: int | None,
    size: int,
    acks: str,
    compression: str,
    linger_ms: float,
    batch_size: int,
    as_json: bool,
) -> None:
    """Write records to TOPIC: each line of standard input is one.

    \b
    Examples:
      echo 'hello' | moldau produce orders
      moldau produce orders --key-separator : <<< 'customer-7:{"total": 12}'
      moldau produce orders --file orders.jsonl --compression zstd
      moldau produce orders --count 1000000 --size 100
      moldau produce users --key customer-7 --null-value NULL <<< NULL
    """
    line_format = _line_format(key, key_separator, null_value)
    fixed = tuple((name, value.encode()) for name, value in pairs(headers, "--header").items())
    written = _Written(topic)
    patience_ms = timeout_ms()

    async def work(cluster: "Cluster") -> None:
        from moldau.client.producer.producer import Producer
        from moldau.protocol.compression import COMPRESSION_NAMES

        async with await Producer.open(
            cluster,
            acks=-1 if acks == "all" else int(acks),
            compression=COMPRESSION_NAMES[compression],
            linger_ms=linger_ms,
            batch_size_bytes=batch_size,
            max_request_bytes=_MAX_REQUEST_BYTES,
            max_block_ms=patience_ms,
            delivery_timeout_ms=patience_ms,
        ) as producer:
            items = _generated(count, size, line_format.key) if count else _read(file, whole, line_format)
            await _write(producer, topic, items, partition, fixed, written, count)

    if not count and file is sys.stdin.buffer and sys.stdin.isatty():
        note(f"Type records for {topic}, one in a line; end with Ctrl-D.")
    connected(work)
    if as_json:
        print_json(written.summary())
    else:
        note(written.text())


@dataclass(frozen=True, slots=True)
class _LineFormat:
    """How a line becomes a record."""

    key: bytes | None = None
    separator: bytes | None = None
    null_value: bytes | None = None

    def record(self, line: bytes) -> Item:
        key = self.key
        if self.separator is not None:
            found, separator, rest = line.partition(self.separator)
            if not separator:
                shown = line.decode("utf-8", "replace")[:80]
                raise click.ClickException(
                    f"no separator {self.separator.decode()!r} in the line {shown!r}. "
                    "Next: correct the line, or leave --key-separator out"
                )
            key, line = found, rest
        return key, None if line == self.null_value else line


def _line_format(key: str | None, key_separator: str | None, null_value: str | None) -> _LineFormat:
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator are two ways to say the same: choose one")
    if key_separator == "":
        raise click.UsageError("--key-separator is an empty text")
    return _LineFormat(
        key=None if key is None else key.encode(),
        separator=None if key_separator is None else key_separator.encode(),
        null_value=None if null_value is None else null_value.encode(),
    )


@dataclass(slots=True)
class _Written:
    """What has been acknowledged."""

    topic: str
    records: int = 0
    size: int = 0
    seconds: float = 0.0
    #: Partition -> records, lowest and highest offset.
    partitions: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    error: "KafkaError | None" = None

    def outcome(self, found: "RecordMetadata | KafkaError") -> None:
        if not isinstance(found, tuple):
            self.error = self.error or found
            return
        self.records += 1
        count, low, high = self.partitions.get(found.partition, (0, found.offset, found.offset))
        self.partitions[found.partition] = (count + 1, min(low, found.offset), max(high, found.offset))

    def summary(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "records": self.records,
            "bytes": self.size,
            "seconds": round(self.seconds, 3),
            "partitions": [
                {"partition": p, "records": count, "first_offset": low, "last_offset": high}
                for p, (count, low, high) in sorted(self.partitions.items())
            ],
        }

    def text(self) -> str:
        """One line on what was written where."""
        if not self.records:
            return "Nothing to write: the input is empty"
        rate = f", {self.records / self.seconds:,.0f} records/s" if self.records > 1000 else ""
        where = "; ".join(
            f"partition {p}{_offsets_text(low, high)}"
            for p, (_, low, high) in sorted(self.partitions.items())[:8]
        )
        more = len(self.partitions) - 8
        return (
            f"Wrote {self.records} record(s), {size_text(self.size)}{rate}, to {self.topic} "
            f"({where}{f'; {more} more partitions' if more > 0 else ''})"
        )


def _offsets_text(low: int, high: int) -> str:
    if low < 0:
        return ""  # with acks=0 offsets are not known
    return f", offset {low}" if low == high else f", offsets {low} to {high}"


async def _write(
    producer: "Producer",
    topic: str,
    items: AsyncIterator[Item],
    partition: int | None,
    headers: tuple[tuple[str, bytes], ...],
    written: _Written,
    total: int | None,
) -> None:
    from asyncio import get_running_loop

    began = get_running_loop().time()
    # A bar would disturb someone who types the records.
    bar, task = progress(f"writing to {topic}", total, shown=not sys.stdin.isatty() or total is not None)
    shown = 0
    with bar:
        async for key, value in items:
            await producer.send(
                topic, value, key, partition=partition, headers=headers, on_delivery=written.outcome
            )
            written.size += len(value or b"") + len(key or b"")
            shown += 1
            if written.error is not None:
                raise written.error
            if shown % _PROGRESS_EVERY == 0:
                rate = shown / max(get_running_loop().time() - began, 1e-9)
                bar.update(task, completed=shown, rate=f"{rate:,.0f}/s")
        await producer.flush()
    written.seconds = max(get_running_loop().time() - began, 1e-9)
    if written.error is not None:
        raise written.error


async def _generated(count: int, size: int, key: bytes | None) -> AsyncIterator[Item]:
    """Records with distinct, printable values."""
    filler = bytes(range(97, 123)) * (size // 26 + 1)
    for number in range(count):
        yield key, (b"%d " % number + filler)[:size]


async def _read(file: BinaryIO, whole: bool, line_format: _LineFormat) -> AsyncIterator[Item]:
    """The records of the input as they arrive; a thread waits for it, so that the loop goes on."""
    from asyncio import to_thread

    if whole:
        yield line_format.record(await to_thread(file.read))
        return
    read1 = getattr(file, "read1", file.read)
    rest = b""
    while chunk := await to_thread(read1, _READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line_format.record(line.removesuffix(b"\r"))
    if rest:
        yield line_format.record(rest)
