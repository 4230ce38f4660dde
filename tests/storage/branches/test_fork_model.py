"""A log and its forks against lists of records: whatever is done to one of them is not felt by the others."""

from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.protocol.compression import Compression
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.records import Record, encode_batch
from moldau.storage.directory.logs import Logs
from moldau.storage.files import Files, MemoryFiles, OsFiles
from moldau.storage.log.log import Log, LogConfig
from tests.storage.forks import FORK_ID, committed, fork

pytestmark = pytest.mark.slow

NOW = 1_700_000_000_000
FAR = 1 << 62
PRODUCERS = 3
MAX_FORKS = 4


@dataclass(frozen=True)
class Data:
    record: Record
    producer: int | None


@dataclass(frozen=True)
class End:
    offset: int
    producer: int
    committed: bool


@dataclass
class Model:
    """What one log must look like: entries in the order of their offsets, one for each offset."""

    entries: list[Data | End] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return len(self.entries)

    def records(self) -> list[Record]:
        return [e.record for e in self.entries[self.start :] if isinstance(e, Data)]

    def open_transactions(self) -> list[int]:
        found: list[int] = []
        for entry in self.entries:
            if isinstance(entry, Data) and entry.producer is not None and entry.producer not in found:
                found.append(entry.producer)
            elif isinstance(entry, End) and entry.producer in found:
                found.remove(entry.producer)
        return found

    def committed(self) -> list[Record]:
        """Up to the first open transaction, without what was aborted."""
        waiting: dict[int, list[int]] = {}
        hidden: set[int] = set()
        for offset, entry in enumerate(self.entries):
            if isinstance(entry, Data) and entry.producer is not None:
                waiting.setdefault(entry.producer, []).append(offset)
            elif isinstance(entry, End):
                ended = waiting.pop(entry.producer, [])
                hidden.update(() if entry.committed else ended)
        stable = min((offsets[0] for offsets in waiting.values()), default=self.end)
        return [
            e.record
            for offset, e in enumerate(self.entries[:stable])
            if isinstance(e, Data) and offset >= self.start and offset not in hidden
        ]

    def cut(self, end: int, markers: int) -> "Model":
        """A fork: what is open at its end is aborted there, by so many markers.

        A transaction that is below the log start as a whole needs one only where a segment that reaches
        across the start has brought it along; which one does is not the model's business.
        """
        made = Model(self.entries[:end], [at for at in self.starts if at < end], self.start)
        found = made.open_transactions()
        below = sorted((p for p in found if made.last_offset(p) < made.start), key=made.last_offset)
        for producer in below[: len(found) - markers]:
            made.forget(producer)
        for producer in made.open_transactions():
            made.starts.append(made.end)
            made.entries.append(End(made.end, producer, False))
        return made

    def last_offset(self, producer: int) -> int:
        return max(i for i, e in enumerate(self.entries) if isinstance(e, Data) and e.producer == producer)

    def forget(self, producer: int) -> None:
        """Its records are below the start, where nobody looks."""
        for index, entry in enumerate(self.entries[: self.start]):
            if isinstance(entry, Data) and entry.producer == producer:
                self.entries[index] = Data(entry.record, None)


class ForkMachine(RuleBasedStateMachine):
    @initialize(
        segment_bytes=st.integers(300, 1500),
        interval=st.sampled_from([0, 100, 4096]),
        batches=st.integers(0, 15),
    )
    def begin(self, segment_bytes: int, interval: int, batches: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval, message_timestamp_after_max_ms=FAR
        )
        self.files, self.path = self.make_files()
        self.models: dict[str, Model] = {"source": Model()}
        self.logs: Logs
        self.start()
        source = self.logs.create(TopicPartition("source", 0), bytes(16), self.config)
        for _ in range(batches):
            self.write(source, self.models["source"], 2, None, Compression.NONE)

    def make_files(self) -> tuple[Files, str]:
        return MemoryFiles(), "/data"

    def start(self) -> None:
        clock = SteppedClock(frozen=True, start_ms=NOW)
        self.logs = Logs(self.files, [self.path], 1, "c", clock, config_of=lambda topic: self.config)
        self.logs.open()
        assert self.logs.failed == {}

    def log(self, name: str) -> Log:
        found = self.logs.get(TopicPartition(name, 0))
        assert found is not None
        return found

    def pick(self, data: st.DataObject) -> tuple[Log, Model]:
        name = data.draw(st.sampled_from(sorted(self.models)))
        return self.log(name), self.models[name]

    def sequence(self, log: Log, producer: int) -> int:
        known = log.producers.get(producer)
        return 0 if known is None else known.last_sequence + 1

    @rule(
        data=st.data(),
        count=st.integers(1, 4),
        producer=st.none() | st.integers(0, PRODUCERS - 1),
        codec=st.sampled_from([Compression.NONE, Compression.LZ4]),
    )
    def append(self, data: st.DataObject, count: int, producer: int | None, codec: Compression) -> None:
        """Records of a transaction, or of none."""
        self.write(*self.pick(data), count, producer, codec)

    def write(self, log: Log, model: Model, count: int, producer: int | None, codec: Compression) -> None:
        records = [Record(i, NOW + i, b"%d" % i, b"value of %d" % (model.end + i), ()) for i in range(count)]
        batch = encode_batch(
            records,
            compression=codec,
            producer_id=-1 if producer is None else producer,
            producer_epoch=-1 if producer is None else 0,
            base_sequence=-1 if producer is None else self.sequence(log, producer),
            transactional=producer is not None,
        )
        model.starts.append(model.end)
        log.append(memoryview(batch), 0, NOW)
        model.entries += [Data(replace_offset(r, model.end + i), producer) for i, r in enumerate(records)]

    @rule(data=st.data(), committed=st.booleans())
    def end_transaction(self, data: st.DataObject, committed: bool) -> None:
        log, model = self.pick(data)
        producers = model.open_transactions()
        if not producers:
            return
        producer = data.draw(st.sampled_from(producers))
        kind = ControlType.COMMIT if committed else ControlType.ABORT
        marker = encode_marker(Marker(kind, 0), producer_id=producer, producer_epoch=0, timestamp_ms=NOW)
        log.append(memoryview(marker), 0, NOW, internal=True)
        model.starts.append(model.end)
        model.entries.append(End(model.end, producer, committed))

    @precondition(lambda self: len(self.models) <= MAX_FORKS)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        log, model = self.pick(data)
        end = data.draw(st.integers(model.start, model.end))
        name = f"fork{len(self.models)}"
        made = fork(self.logs, log, name, end)
        self.models[name] = model.cut(end, made.log_end_offset - end)
        assert made.active_producers() == []
        assert made.topic_id == FORK_ID

    @rule(data=st.data())
    def roll(self, data: st.DataObject) -> None:
        log, _ = self.pick(data)
        log.roll(NOW)
        log.flush()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        log, model = self.pick(data)
        # Not into a transaction that is open, or else nobody can tell where it began.
        most = min((i for i, e in enumerate(model.entries) if is_open(model, e)), default=model.end)
        offset = data.draw(st.integers(0, most))
        model.start = max(model.start, offset)
        log.delete_records_before(offset)
        self.logs.checkpoint({})
        log.delete_old_segments(NOW)
        log.remove_deleted(FAR)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        log, model = self.pick(data)
        places = [at for at in (*model.starts, model.end) if at >= model.start]
        if not places:
            return
        offset = data.draw(st.sampled_from(places))
        log.truncate_to(offset, NOW)
        del model.entries[offset:]
        model.starts = [at for at in model.starts if at < offset]
        # What was shared until now is written to at once.
        self.write(log, model, 1, None, Compression.NONE)
        log.flush()
        self.logs.checkpoint({})

    @rule()
    def restart(self) -> None:
        self.logs.close()
        self.start()

    @rule()
    def kill(self) -> None:
        self.after_kill()
        self.start()

    def after_kill(self) -> None:
        assert isinstance(self.files, MemoryFiles)
        self.files = self.files.after_kill()

    @invariant()
    def every_log_is_as_its_model(self) -> None:
        for name, model in getattr(self, "models", {}).items():
            log = self.log(name)
            assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end), name
            assert [r for r in every_record(log) if r.offset >= model.start] == model.records(), name
            assert [r for r in committed(log) if r.offset >= model.start] == model.committed(), name


class DiskMachine(ForkMachine):
    """The same with real files and real links."""

    def make_files(self) -> tuple[Files, str]:
        self.directory = TemporaryDirectory()
        return OsFiles(), self.directory.name

    def after_kill(self) -> None:
        for directory in self.logs.directories:
            directory.release()

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            for directory in self.logs.directories:
                directory.release()
            self.directory.cleanup()


def is_open(model: Model, entry: Data | End) -> bool:
    return isinstance(entry, Data) and entry.producer in model.open_transactions()


def replace_offset(record: Record, offset: int) -> Record:
    return record._replace(offset=offset)


def every_record(log: Log) -> list[Record]:
    from moldau.protocol.records import batches, decode_records

    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, log.log_end_offset, at_least_one=True)
        if piece is None:
            break
        content = piece.read()
        for position, header in batches(content):
            offset = header.last_offset + 1
            if not header.is_control:
                found += decode_records(content, position, header, limit=1 << 20)
    return found


TestForks = ForkMachine.TestCase
TestForks.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestForksOnDisk = DiskMachine.TestCase
TestForksOnDisk.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
