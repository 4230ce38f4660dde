"""A log against the simplest model of one, a list of records: any order of operations and crashes."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.protocol.compression import Compression
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import Record, decode_records, encode_batch, read_header
from moldau.storage.directory.logs import Logs
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import Log, LogConfig

NOW = 1_700_000_000_000
FAR = 1 << 62
TP = TopicPartition("orders", 0)
PRODUCERS = 3


@dataclass
class Model:
    """What the log must look like from outside."""

    records: list[Record] = field(default_factory=list)
    #: Offsets where batches begin.
    starts: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    start: int = 0
    synced: int = 0
    sequences: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return len(self.records)

    def batch_of(self, offset: int) -> int:
        return max(start for start in self.starts if start <= offset)


class LogMachine(RuleBasedStateMachine):
    @initialize(
        segment_bytes=st.integers(450, 3000),
        index_interval_bytes=st.sampled_from([0, 100, 400, 4096]),
        segment_ms=st.sampled_from([50, 1 << 60]),
    )
    def begin(self, segment_bytes: int, index_interval_bytes: int, segment_ms: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval_bytes,
            segment_ms=segment_ms,
            message_timestamp_after_max_ms=FAR,
        )
        self.files = MemoryFiles()
        self.model = Model()
        self.epoch = 0
        self.open()

    def open(self) -> None:
        clock = SteppedClock(frozen=True, start_ms=NOW)
        self.logs = Logs(self.files, ["/data"], 1, "c", clock, config_of=lambda topic: self.config)
        self.logs.open()
        self.log: Log = self.logs.open_partition(TP, bytes(16), self.config)

    # -- what a node does

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 60),
        time=st.integers(0, 100),
        producer=st.integers(-1, PRODUCERS - 1),
        codec=st.sampled_from(Compression),
    )
    def append(self, count: int, size: int, time: int, producer: int, codec: Compression) -> None:
        model = self.model
        records = [Record(i, NOW + time - i, b"%d" % i, b"v" * size, ()) for i in range(count)]
        sequence = model.sequences.get(producer, 0) if producer >= 0 else -1
        batch = encode_batch(
            records,
            compression=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
        )
        appended = self.log.append(memoryview(batch), self.epoch, NOW)
        assert (appended.base_offset, appended.last_offset) == (model.end, model.end + count - 1)
        model.starts.append(model.end)
        model.epochs += [self.epoch] * count
        model.records += [record._replace(offset=model.end + i) for i, record in enumerate(records)]
        if producer >= 0:
            model.sequences[producer] = sequence + count
        if appended.flush_due:
            self.flush()

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)
        self.flush()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.model.synced = self.model.end

    @rule()
    def checkpoint(self) -> None:
        self.logs.checkpoint({})

    @precondition(lambda self: self.model.end > 0)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.model.end))
        self.model.start = max(self.model.start, offset)
        self.flush()
        assert self.log.delete_records_before(offset) == self.model.start
        # A crash must not bring deleted records back in this test, so it is made durable.
        self.logs.checkpoint({})

    @precondition(lambda self: self.model.end > 0)
    @rule(data=st.data(), age=st.integers(-110, 10), kept_bytes=st.sampled_from([-1, 0, 300, 1000, 4000]))
    def retain(self, data: st.DataObject, age: int, kept_bytes: int) -> None:
        """By time, by size or by both; ``age`` is that of the newest record which has to be kept."""
        high_watermark = data.draw(st.integers(self.model.start, self.model.end))
        expected = self.start_after_retention(high_watermark, NOW - age, kept_bytes)
        self.log.config = replace(self.config, retention_ms=0, retention_bytes=kept_bytes)
        self.logs.apply_retention({TP: high_watermark}, NOW - age)
        self.log.config = self.config
        self.model.start = expected
        self.model.synced = max(self.model.synced, self.log.recovery_point)
        assert self.log.first_segment_offset <= expected

    def start_after_retention(self, high_watermark: int, now_ms: int, kept_bytes: int) -> int:
        """From the segments that there are and the records that the model has in them."""
        model = self.model
        infos = self.log.segments_info()
        ends = [*(info.base_offset for info in infos[1:]), model.end]
        kept_segments = [
            (info, end) for info, end in zip(infos, ends, strict=True) if end > model.start and info.size
        ]
        excess = sum(info.size for info, _ in kept_segments) - kept_bytes if kept_bytes >= 0 else -1
        start = model.start
        for info, end in kept_segments:
            newest = max(record.timestamp for record in model.records[info.base_offset : end])
            if end > high_watermark or not (info.size <= excess or newest < now_ms):
                break
            excess -= info.size
            start = end
        return start

    @precondition(lambda self: self.model.end > 0)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """As a replica does where its leader's log differs."""
        model = self.model
        candidates = [start for start in model.starts if start >= model.start]
        if not candidates:
            return
        offset = data.draw(st.sampled_from(candidates))
        self.log.truncate_to(offset, NOW)
        model.synced = min(model.synced, offset)
        self.cut_model(offset)

    @rule()
    def delete_segments(self) -> None:
        self.log.delete_old_segments(NOW)
        self.log.remove_deleted(FAR)

    @rule()
    def restart(self) -> None:
        self.logs.close()
        self.model.synced = self.model.end
        self.open()

    @rule()
    def kill(self) -> None:
        self.files = self.files.after_kill()
        self.open()

    @rule()
    def power_cut(self) -> None:
        self.files = self.files.after_power_cut()
        self.open()
        model = self.model
        end = self.log.log_end_offset
        assert end >= model.synced
        assert end in (*model.starts, model.end)
        self.cut_model(end)

    def cut_model(self, end: int) -> None:
        model = self.model
        lost = {producer for producer in model.sequences if end < model.end}
        del model.records[end:], model.epochs[end:]
        model.starts = [start for start in model.starts if start < end]
        model.start = min(model.start, end)
        # Where a producer goes on after a loss is what the log says.
        for producer in lost:
            del model.sequences[producer]
        for known in self.log.active_producers():
            model.sequences[known.producer_id] = known.last_sequence + 1

    # -- what clients see

    @precondition(lambda self: self.model.end > self.model.start)
    @rule(data=st.data(), max_bytes=st.integers(0, 2000), at_least_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, at_least_one: bool) -> None:
        model = self.model
        offset = data.draw(st.integers(model.start, model.end - 1))
        bound = data.draw(st.integers(offset, model.end + 1))
        piece = self.log.read(offset, max_bytes, bound, at_least_one=at_least_one)
        if piece is None:
            first = model.batch_of(offset)
            following = min([start for start in model.starts if start > first], default=model.end)
            assert following > bound or not at_least_one
            return
        content = piece.read()
        assert len(content) == piece.size
        at = 0
        expected = model.batch_of(offset)
        while len(content) - at >= 61 and read_header(content, at).size <= len(content) - at:
            header = read_header(content, at)
            assert header.base_offset == expected
            assert header.last_offset < bound
            assert header.partition_leader_epoch == model.epochs[expected]
            records = decode_records(content, at, header, limit=10_000)
            assert records == model.records[expected : expected + len(records)]
            expected = header.last_offset + 1
            at += header.size
        assert at > 0
        assert len(content) <= max_bytes or at == len(content)

    @rule(time=st.integers(-10, 110))
    def look_up_a_time(self, time: int) -> None:
        found = self.log.offset_for_timestamp(NOW + time)
        records = self.model.records[self.model.start :]
        expected = next((record for record in records if record.timestamp >= NOW + time), None)
        if expected is None:
            assert found is None
        else:
            assert found == (expected.timestamp, expected.offset, self.model.epochs[expected.offset])

    @precondition(lambda self: self.model.start == 0)
    @rule()
    def largest_time(self) -> None:
        found = self.log.max_timestamp()
        expected = max((record.timestamp for record in self.model.records), default=None)
        assert (found.timestamp if found else None) == expected
        if found:
            assert self.model.records[found.offset].timestamp == expected

    @rule(offset=st.integers(-3, 200))
    def out_of_range(self, offset: int) -> None:
        if self.model.start <= offset <= self.model.end:
            return
        with pytest.raises(KafkaError):
            self.log.read(offset, 100, FAR, at_least_one=True)

    @invariant()
    def ends_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        model, log = self.model, self.log
        assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
        assert log.recovery_point <= log.log_end_offset
        last = {producer.producer_id: producer.last_sequence + 1 for producer in log.active_producers()}
        assert last == model.sequences
        for (_, start), (epoch, end) in zip(
            log.leader_epochs.entries(), log.leader_epochs.entries()[1:], strict=False
        ):
            assert start < end
            assert end == model.end or model.epochs[end] == epoch


TestLog = pytest.mark.slow(LogMachine.TestCase)
TestLog.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
