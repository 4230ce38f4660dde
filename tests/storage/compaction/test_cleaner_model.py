"""Compaction against a model that forgets nothing: any order of writes, compactions, crashes and starts."""

import contextlib
import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.protocol.compression import Compression
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import Record, encode_batch
from moldau.storage.compaction.log_cleaner import CleanerConfig
from tests.storage.cleaning_scene import CONFIG, Scene

pytestmark = pytest.mark.slow

KEYS = 6
RETENTION_MS = 1000
#: Producers without transactions, and with.
PLAIN = (1, 2)
TRANSACTIONAL = (11, 12)


class Crash(BaseException):
    """The process ends here; nothing may catch it."""


@dataclass
class Model:
    """All that was ever written, and what became of its transactions."""

    records: dict[int, Record] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    open: dict[int, list[int]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    end: int = 0
    #: When each tombstone was first compacted.
    horizons: dict[int, int] = field(default_factory=dict)

    @property
    def committed(self) -> list[Record]:
        hidden = self.aborted.union(*self.open.values())
        return [record for offset, record in self.records.items() if offset not in hidden]

    def last(self, end: int) -> dict[bytes | None, Record]:
        """The last record of every key below ``end``."""
        return {record.key: record for record in self.committed if record.offset < end}


class CleanerMachine(RuleBasedStateMachine):
    @initialize(
        segment_bytes=st.integers(300, 3000),
        index_interval_bytes=st.sampled_from([0, 200, 4096]),
        memory=st.sampled_from([100, 1000, 1 << 20]),
    )
    def begin(self, segment_bytes: int, index_interval_bytes: int, memory: int) -> None:
        config = replace(
            CONFIG,
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval_bytes,
            delete_retention_ms=RETENTION_MS,
        )
        self.scene = Scene(config=config)
        self.scene.settings = CleanerConfig(dedupe_buffer_size=memory)
        self.model = Model()
        #: From here on no compaction has ever looked.
        self.untouched = 0

    # -- writing

    @rule(
        content=st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(-1, 30)), min_size=1, max_size=5),
        producer=st.sampled_from((-1, *PLAIN, *TRANSACTIONAL)),
        codec=st.sampled_from([Compression.NONE, Compression.NONE, Compression.ZSTD, Compression.LZ4]),
        time=st.integers(0, 100),
    )
    def append(self, content: list[tuple[int, int]], producer: int, codec: Compression, time: int) -> None:
        model, scene = self.model, self.scene
        records = [
            Record(i, scene.now_ms + time - i, b"key-%d" % key, None if size < 0 else b"v" * size)
            for i, (key, size) in enumerate(content)
        ]
        sequence = model.sequences.get(producer, 0) if producer >= 0 else -1
        batch = encode_batch(
            records,
            compression=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=producer in TRANSACTIONAL,
        )
        appended = scene.log.append(memoryview(batch), 0, scene.now_ms)
        assert appended.base_offset == model.end
        for record in records:
            offset = model.end + record.offset
            model.records[offset] = record._replace(offset=offset)
            if producer in TRANSACTIONAL:
                model.open.setdefault(producer, []).append(offset)
        model.end += len(records)
        if producer >= 0:
            model.sequences[producer] = sequence + len(records)

    @precondition(lambda self: self.model.open)
    @rule(commit=st.booleans(), first=st.booleans())
    def end_transaction(self, commit: bool, first: bool) -> None:
        producer = (min if first else max)(self.model.open)
        offsets = self.model.open.pop(producer)
        if not commit:
            self.model.aborted.update(offsets)
        assert self.scene.end_transaction(producer, commit=commit) == self.model.end
        self.model.end += 1

    @rule()
    def roll(self) -> None:
        self.scene.roll()

    @rule(milliseconds=st.integers(1, RETENTION_MS))
    def wait(self, milliseconds: int) -> None:
        self.scene.now_ms += milliseconds

    # -- compacting

    def note_compaction(self) -> None:
        done = self.scene.cleaner.offset_of(self.scene.log) or 0
        for record in self.model.last(done).values():
            if record.value is None:
                self.model.horizons.setdefault(record.offset, self.scene.now_ms + RETENTION_MS)

    def note_attempt(self) -> None:
        self.untouched = max(self.untouched, self.scene.log.segments.active.base_offset)

    @rule()
    def clean(self) -> None:
        self.note_attempt()
        if self.scene.clean():
            self.note_compaction()
            done = self.scene.cleaner.offset_of(self.scene.log)
            assert done is not None
            below = [record for record in self.scene.records() if record.offset < done]
            last = self.model.last(done)
            # Whatever is left there is the last of its key; a tombstone may be gone by now.
            assert all(last[record.key] == record for record in below)
            assert not self.model.aborted & {record.offset for record in below}

    @rule(number=st.integers(0, 60), power_cut=st.booleans())
    def crash_while_cleaning(self, number: int, power_cut: bool) -> None:
        scene = self.scene
        scene.log.flush()
        self.note_attempt()
        seen = 0

        def operation(name: str, path: str) -> None:
            nonlocal seen
            if seen == number:
                raise Crash
            seen += 1

        scene.files.faults.on_operation = operation
        with contextlib.suppress(Crash):
            scene.clean()
        self.note_horizons_of_a_crash()
        chance = random.Random(number)
        if power_cut:
            scene.files = scene.files.after_power_cut(lose_name=lambda: chance.random() < 0.5)
        else:
            scene.files = scene.files.after_kill()
        scene.open()

    def note_horizons_of_a_crash(self) -> None:
        """How far it had come is not known: some tombstones may have got their horizon."""
        for record in self.model.last(self.model.end).values():
            if record.value is None:
                self.model.horizons.setdefault(record.offset, self.scene.now_ms + RETENTION_MS)

    # -- starting

    @rule()
    def restart(self) -> None:
        self.scene.restart()

    @rule()
    def kill(self) -> None:
        self.scene.kill()

    @rule()
    def remove_deleted(self) -> None:
        self.scene.log.remove_deleted(1 << 62)

    # -- what must be true

    @invariant()
    def nothing_is_invented_and_nothing_lost(self) -> None:
        if not hasattr(self, "scene"):
            return
        model, scene = self.model, self.scene
        assert (scene.log.log_start_offset, scene.log.log_end_offset) == (0, model.end)
        found = scene.records()
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert all(model.records[record.offset] == record for record in found)
        present = set(offsets)
        for record in model.last(model.end).values():
            if record.offset not in present:
                assert record.value is None
                assert scene.now_ms >= model.horizons[record.offset]
        # What was not compacted yet is all there, transactions that are open included.
        assert {offset for offset in model.records if offset >= self.untouched} <= present

    @invariant()
    def readers_see_the_last_value_of_every_key(self) -> None:
        if not hasattr(self, "scene"):
            return
        model, scene = self.model, self.scene
        hidden: set[int] = set()
        content = scene.content()
        for entry in scene.log.aborted_transactions(0, model.end):
            for header, records in content:
                if (
                    header.producer_id == entry.producer_id
                    and entry.first_offset <= header.base_offset < entry.last_offset
                ):
                    hidden.update(record.offset for record in records)
        present = {record.offset for record in scene.records()}
        assert hidden == model.aborted & present
        view: dict[bytes | None, bytes | None] = {}
        for record in scene.records():
            if record.offset not in hidden and record.offset not in set().union(*model.open.values()):
                view[record.key] = record.value
        expected = {record.key: record.value for record in model.last(model.end).values()}
        assert {key: value for key, value in view.items() if value is not None} == {
            key: value for key, value in expected.items() if value is not None
        }

    @invariant()
    def producers_go_on(self) -> None:
        if not hasattr(self, "scene"):
            return
        known = {each.producer_id: each.last_sequence + 1 for each in self.scene.log.active_producers()}
        assert known == self.model.sequences

    @invariant()
    def times_are_found(self) -> None:
        if not hasattr(self, "scene") or not self.model.records:
            return
        found = self.scene.log.max_timestamp()
        present = [record for _, records in self.scene.content() for record in records]
        assert (found.timestamp if found else None) == max((r.timestamp for r in present), default=None)

    @rule(offset=st.integers(0, 200))
    def read_anywhere(self, offset: int) -> None:
        scene = self.scene
        if offset >= self.model.end:
            return
        piece = scene.log.read(offset, 1 << 20, self.model.end, at_least_one=True)
        behind = [header for header in scene.headers() if header.last_offset >= offset]
        if behind:
            assert piece is not None
            assert int.from_bytes(piece.read()[:8], "big") == behind[0].base_offset
        else:
            assert piece is None

    @rule()
    def out_of_range(self) -> None:
        with pytest.raises(KafkaError):
            self.scene.log.read(self.model.end + 1, 100, 1 << 62, at_least_one=True)


TestCleaner = CleanerMachine.TestCase
TestCleaner.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
