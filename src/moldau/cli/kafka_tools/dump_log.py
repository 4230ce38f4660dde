"""``moldau kafka-dump-log``: prints the files of a log, as Kafka's DumpLogSegments does.

These are log segments, offset and time indexes, transaction indexes and producer snapshots, of Kafka's data
directories and of ours. The modules in ``records`` decode the records of internal topics.

Invariant: files are only read. For a corrupt file everything that can be read is printed, then one sentence
on standard error, and the exit code is 1.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options, require
from moldau.cli.kafka_tools.framework.tool import Console, Tool
from moldau.cli.kafka_tools.records.group_record_decoders import group_records
from moldau.cli.kafka_tools.records.record_decoders import RecordDecoder, transaction_log
from moldau.cli.kafka_tools.records.share_record_decoders import control_record, share_group_state
from moldau.inspection import dump
from moldau.inspection.dump import DumpedBatch, DumpError, LegacyHeader, ProducerSnapshotEntry, TimeEntry
from moldau.protocol.compression import Compression
from moldau.protocol.control_records import ControlType
from moldau.protocol.records import Record

_WITHOUT_DECODER = {
    "remote-log-metadata-decoder": "there is no tiered storage",
    "cluster-metadata-decoder": "Moldau keeps its metadata elsewhere; 'moldau log import' reads Kafka's",
}

TOOL = Tool(
    "kafka-dump-log",
    "Prints what the files of a log hold, to find a fault in them.",
    Options(
        Option("files", "The files to print: .log, .index, .timeindex, .txnindex, .snapshot.", "file1,file2"),
        Option("print-data-log", "Print keys and values of the records too."),
        Option("deep-iteration", "Print every record, not only every batch."),
        Option("skip-record-metadata", "Print keys and values of records only."),
        Option("max-bytes", "Read no more than so many bytes of a log.", "size", int, dump.NO_LIMIT),
        Option(
            "max-message-size", "The largest batch that an index may lead to.", "size", int, 5 * 1024 * 1024
        ),
        Option("index-sanity-check", "Only check what a broker checks at its start."),
        Option("verify-index-only", "Only compare indexes with the log, print no entries."),
        Option(
            "key-decoder-class", "How to read keys: String, Integer, Long, Default.", "class", optional=True
        ),
        Option("value-decoder-class", "How to read values, as for keys.", "class", optional=True),
        Option("offsets-decoder", "Print the records of __consumer_offsets as JSON."),
        Option("transaction-log-decoder", "Print the records of __transaction_state as JSON."),
        Option("share-group-state-decoder", "Print the records of __share_group_state as JSON."),
        *(Option(name, f"Not supported: {why}.") for name, why in _WITHOUT_DECODER.items()),
    ),
    (
        "--files data/orders-0/00000000000000000000.log --print-data-log",
        "--files data/orders-0/00000000000000000000.index --index-sanity-check",
    ),
)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError(TOOL.summary)
    given = TOOL.options.parse(arguments)
    require(given, "files")
    for name, why in _WITHOUT_DECODER.items():
        if given.has(name):
            raise OptionError(f"--{name} is not supported: {why}", with_usage=False)
    dumper = Dumper(_settings(given), console)
    for path in given.value("files").split(","):
        dumper.dump(path)
    dumper.report()
    return 1 if dumper.failed else 0


# How to print ------------------------------------------------------------------------------------------

Decoder = Callable[[bytes], str]


def _number_decoder(size: int) -> Decoder:
    def decode(data: bytes) -> str:
        if len(data) != size:
            raise DumpError(f"{len(data)} bytes are no number of {size} bytes: another decoder is needed")
        return str(int.from_bytes(data, "big", signed=True))

    return decode


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


#: Decoders, by the last part of their class names in Kafka.
_DECODERS: dict[str, Decoder] = {
    "StringDecoder": _text,
    "DefaultDecoder": bytes.hex,
    "IntegerDecoder": _number_decoder(4),
    "LongDecoder": _number_decoder(8),
}

#: Decoders of internal topics, by their options.
_RECORD_DECODERS: dict[str, RecordDecoder] = {
    "offsets-decoder": group_records,
    "transaction-log-decoder": transaction_log,
    "share-group-state-decoder": share_group_state,
}


@dataclass(frozen=True, slots=True)
class Settings:
    deep: bool = False
    contents: bool = False
    skip_metadata: bool = False
    max_bytes: int = dump.NO_LIMIT
    max_message_size: int = 5 * 1024 * 1024
    sanity_only: bool = False
    verify_only: bool = False
    key_decoder: Decoder = _text
    value_decoder: Decoder = _text
    #: For records of internal topics, instead of both.
    record_decoder: RecordDecoder | None = None


def _settings(given: Given) -> Settings:
    asking = ("print-data-log", "value-decoder-class", "key-decoder-class", *_RECORD_DECODERS)
    contents = any(given.has(name) for name in asking)
    record_decoders = [decode for name, decode in _RECORD_DECODERS.items() if given.has(name)]
    return Settings(
        deep=contents or given.has("deep-iteration"),
        contents=contents,
        skip_metadata=given.has("skip-record-metadata"),
        max_bytes=given.value("max-bytes"),
        max_message_size=given.value("max-message-size"),
        sanity_only=given.has("index-sanity-check"),
        verify_only=given.has("verify-index-only"),
        key_decoder=_decoder(given.value("key-decoder-class")),
        value_decoder=_decoder(given.value("value-decoder-class")),
        record_decoder=record_decoders[0] if record_decoders else None,
    )


def _decoder(name: str | None) -> Decoder:
    if not name:
        return _text
    decoder = _DECODERS.get(name.rsplit(".", 1)[-1].removesuffix("Decoder") + "Decoder")
    if decoder is None:
        known = ", ".join(n.removesuffix("Decoder") for n in _DECODERS)
        raise ToolError("java.lang.ClassNotFoundException", f"{name} (there are {known})")
    return decoder


def batch_line(batch: DumpedBatch) -> str:
    header = batch.header
    if isinstance(header, LegacyHeader):
        head = f"offset: {header.last_offset}"
    else:
        horizon = f"[{header.base_timestamp}]" if header.has_delete_horizon else ".empty"
        head = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
            f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {_word(header.is_transactional)} isControl: {_word(header.is_control)} "
            f"deleteHorizonMs: OptionalLong{horizon}"
        )
    number = dump.compression_number(batch)
    codec = Compression(number).label if number in Compression.__members__.values() else f"unknown ({number})"
    return (
        f"{head} position: {batch.position} {dump.timestamp_type(batch)}: {header.max_timestamp} "
        f"size: {batch.size} magic: {header.magic} compresscodec: {codec} crc: {header.crc} "
        f"isvalid: {_word(batch.valid)}"
    )


def record_line(batch: DumpedBatch, record: Record, settings: Settings) -> str:
    """A record as one line; DumpError if the decoder cannot read it."""
    parts = ["|"]
    if not settings.skip_metadata:
        parts += _record_metadata(batch, record)
    if settings.contents and not batch.header.is_control:
        parts += _record_contents(record, settings)
    # Kafka prints an empty line for a record without anything to show.
    return " ".join(parts) if len(parts) > 1 else ""


def _record_contents(record: Record, settings: Settings) -> list[str]:
    if settings.record_decoder is not None:
        key, value = settings.record_decoder(record)
        return [f"key: {key}", *([] if value is None else [f"payload: {value}"])]
    parts = []
    if record.key is not None:
        parts.append(f"key: {settings.key_decoder(record.key)}")
    if record.value is not None:
        parts.append(f"payload: {settings.value_decoder(record.value)}")
    return parts


def _record_metadata(batch: DumpedBatch, record: Record) -> list[str]:
    header = batch.header
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    parts = [f"offset: {record.offset} {dump.timestamp_type(batch)}: {record.timestamp}"]
    parts.append(f"keySize: {key_size} valueSize: {value_size}")
    if not isinstance(header, LegacyHeader):
        keys = ",".join(key for key, _ in record.headers)
        parts.append(f"sequence: {dump.sequence_of(header, record)} headerKeys: [{keys}]")
    if header.is_control:
        parts.append(_control(record))
    return parts


def _control(record: Record) -> str:
    number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    if number in (ControlType.ABORT, ControlType.COMMIT):
        epoch = int.from_bytes((record.value or b"")[2:6], "big", signed=True)
        return f"endTxnMarker: {ControlType(number).name} coordinatorEpoch: {epoch}"
    shown = control_record(number, record.value)
    if shown is not None:
        return shown
    name = ControlType(number).name if number in ControlType.__members__.values() else "UNKNOWN"
    return f"controlType: {name}({number})"


def _word(value: bool) -> str:
    return "true" if value else "false"


# One file after the other ------------------------------------------------------------------------------


@dataclass(slots=True)
class Dumper:
    """Prints files, and collects mismatches between them until all are printed."""

    settings: Settings
    console: Console
    failed: bool = False
    mismatches: dict[str, list[str]] = field(default_factory=dict)

    def dump(self, path: str) -> None:
        self.console.print(f"Dumping {path}")
        suffix = os.path.splitext(path)[1]
        ways: dict[str, Callable[[str], None]] = {
            ".log": self._log,
            ".checkpoint": self._log,
            ".index": self._offset_index,
            ".timeindex": self._time_index,
            ".txnindex": self._txn_index,
            ".snapshot": self._snapshot,
        }
        way = ways.get(suffix)
        if way is None:
            self.console.error(f"Ignoring unknown file {path}")
            return
        try:
            way(path)
        except BrokenPipeError:
            raise  # that is our output and not the file
        except FileNotFoundError as error:
            self._fail("java.nio.file.NoSuchFileException", str(error.filename))
        except OSError as error:
            self._fail("java.io.IOException", f"{path}: {error.strerror}")
        except DumpError as error:
            self._fail("org.apache.kafka.common.errors.CorruptRecordException", str(error))

    def report(self) -> None:
        """Prints the mismatches, file by file."""
        for title, lines in self.mismatches.items():
            self.console.error(title)
            for line in lines:
                self.console.error(line)
        self.console.flush()

    def _fail(self, name: str, message: str) -> None:
        self.failed = True
        self.console.error(f'Exception in thread "main" {name}: {message}')

    def _note(self, title: str, line: str) -> None:
        self.mismatches.setdefault(title, []).append(line)

    def _line(self, text: str) -> None:
        self.console.write(f"{text}\n".encode("utf-8", "surrogateescape"))

    def _base_offset(self, path: str) -> int | None:
        """The first offset of a segment, from the name of its file."""
        stem = os.path.basename(path).split(".")[0]
        if stem.isdecimal():
            return int(stem)
        self._fail("java.lang.NumberFormatException", f'For input string: "{stem}"')
        self.console.error("hint: a segment is named by its first offset, as 00000000000000000000.log")
        return None

    def _log(self, path: str) -> None:
        name = os.path.basename(path)
        if path.endswith(".log"):
            base_offset = self._base_offset(path)
            if base_offset is None:
                return
            self._line(f"Log starting offset: {base_offset}")
        else:
            self._line(_checkpoint_title(name))
        valid_bytes = 0
        last_offset = -1
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            for batch in dump.read_batches(file, path, limit=self.settings.max_bytes):
                self._line(batch_line(batch))
                valid_bytes = batch.position + batch.size
                if self.settings.deep:
                    last_offset = self._records(path, batch, last_offset)
        if valid_bytes < size and self.settings.max_bytes == dump.NO_LIMIT:
            self._line(f"Found {size - valid_bytes} invalid bytes at the end of {name}")

    def _records(self, path: str, batch: DumpedBatch, last_offset: int) -> int:
        try:
            for record in dump.read_records(batch):
                if record.offset != last_offset + 1:
                    title = f"Non-consecutive offsets in {os.path.abspath(path)}"
                    self._note(title, f"  {last_offset} is followed by {record.offset}")
                last_offset = record.offset
                self._line(record_line(batch, record, self.settings))
        except DumpError as error:
            # The next batch may be good: everything that can be read is printed.
            self._fail("org.apache.kafka.common.errors.CorruptRecordException", str(error))
        return last_offset

    def _offset_index(self, path: str) -> None:
        base_offset = self._base_offset(path)
        if base_offset is None:
            return
        log_path = os.path.abspath(_sibling(path, ".log"))
        with open(log_path, "rb") as log:
            data = _content(path)
            entries = dump.offset_entries(data, base_offset)
            if not entries and not data:
                self._line(f"{path} is empty.")
                return
            if self.settings.sanity_only:
                self._sanity(path, dump.offset_index_fault(data, base_offset, os.path.abspath(path)))
                return
            title = f"Mismatches in :{os.path.abspath(path)}"
            for entry in dump.used_entries(entries, base_offset):
                found = dump.last_offset_at(log, log_path, entry.position, self.settings.max_message_size)
                if found != entry.offset:
                    self._note(title, f"  Index offset: {entry.offset}, log offset: {found}")
                if not self.settings.verify_only:
                    self._line(f"offset: {entry.offset} position: {entry.position}")

    def _time_index(self, path: str) -> None:
        base_offset = self._base_offset(path)
        if base_offset is None:
            return
        data = _content(path)
        if self.settings.sanity_only:
            self._sanity(path, dump.time_index_fault(data, base_offset, os.path.abspath(path)))
            return
        offsets = dump.used_entries(
            dump.offset_entries(_content(_sibling(path, ".index")), base_offset), base_offset
        )
        log_path = os.path.abspath(_sibling(path, ".log"))
        previous = dump.NO_TIMESTAMP
        with open(log_path, "rb") as log:
            for entry in dump.used_entries(dump.time_entries(data, base_offset), base_offset):
                batch = dump.batch_with_offset(log, log_path, offsets, entry.offset)
                self._compare_time(os.path.abspath(path), entry, batch, previous)
                if not self.settings.verify_only:
                    self._line(f"timestamp: {entry.timestamp} offset: {entry.offset}")
                previous = entry.timestamp

    def _compare_time(self, path: str, entry: TimeEntry, batch: DumpedBatch | None, previous: int) -> None:
        if batch is None or batch.header.last_offset != entry.offset:
            found = -1 if batch is None else batch.header.last_offset
            title = f"The following indexed offsets are not found in :{path}"
            self._note(title, f"Indexed offset: {entry.offset}, found log offset: {found}")
            return
        latest = max((record.timestamp for record in dump.read_records(batch)), default=dump.NO_TIMESTAMP)
        if latest != entry.timestamp:
            title = f"Found timestamp mismatch in :{path}"
            self._note(title, f"  Index timestamp: {entry.timestamp}, log timestamp: {latest}")
        if previous >= entry.timestamp:
            title = f"Found out of order timestamp in :{path}"
            line = f"  Index timestamp: {entry.timestamp}, Previously indexed timestamp: {previous}"
            self._note(title, line)

    def _sanity(self, path: str, fault: str | None) -> None:
        if fault is None:
            self._line(f"{path} passed sanity check.")
        else:
            self._fail("org.apache.kafka.storage.internals.log.CorruptIndexException", fault)

    def _txn_index(self, path: str) -> None:
        data = _content(path)
        for aborted in dump.aborted_transactions(data, path):
            self._line(
                f"version: 0 producerId: {aborted.producer_id} firstOffset: {aborted.first_offset} "
                f"lastOffset: {aborted.last_offset} lastStableOffset: {aborted.last_stable_offset}"
            )
        trailing = dump.trailing_txn_bytes(data)
        if trailing:
            raise DumpError(f"Found {trailing} invalid bytes at the end of {os.path.basename(path)}")

    def _snapshot(self, path: str) -> None:
        try:
            entries = dump.producer_entries(_content(path))
        except DumpError as error:
            self.console.error(str(error))
            return
        for entry in entries:
            self._line(producer_line(entry))


def producer_line(entry: ProducerSnapshotEntry) -> str:
    first = entry.current_txn_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: OptionalLong{f'[{first}]' if first >= 0 else '.empty'} "
        f"lastTimestamp: {entry.timestamp}"
    )
    if entry.last_offset < 0:
        return line
    return (
        f"{line} firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
    )


def _checkpoint_title(name: str) -> str:
    if name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    offset, _, epoch = name.removesuffix(".checkpoint").partition("-")
    if not (offset.isdecimal() and epoch.isdecimal()):
        raise DumpError(f"{name} is not named like a snapshot of the metadata log")
    return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"


def _sibling(path: str, suffix: str) -> str:
    return os.path.splitext(path)[0] + suffix


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
