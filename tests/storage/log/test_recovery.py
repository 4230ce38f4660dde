"""Opening logs that were closed, killed, torn, rotten or tampered with."""

import errno
import logging
import random
import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, read_header
from moldau.storage.errors import StorageError
from moldau.storage.files import Files, MemoryFiles
from moldau.storage.log.log import Log, LogConfig

pytestmark = pytest.mark.slow

NOW = 1_700_000_000_000
FAR = 1 << 62
ZEROS = "0" * 20

MakeBatch = Callable[..., memoryview]
ReadAll = Callable[[Log], list[Record]]

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def fill(log: Log, make_batch: MakeBatch, count: int = 30, start: int = 0) -> None:
    """Batches of one and two records by two producers, two epochs."""
    for at in range(start, start + count):
        producer = at % 2
        sequence = at // 2 if producer == 0 else (at // 2) * 2
        batch = make_batch(
            1 + producer,
            timestamp=NOW + 10 * at,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
        )
        log.append(batch, at // 20, NOW)


def log_state(log: Log, read_all: ReadAll) -> dict[str, Any]:
    """Everything that a client can see of a log."""
    return {
        "records": read_all(log),
        "range": (log.log_start_offset, log.log_end_offset),
        "epochs": log.leader_epochs.entries(),
        "times": [log.offset_for_timestamp(NOW + 5 * at) for at in range(70)],
        "max": log.max_timestamp(),
        "producers": sorted((p.producer_id, p.epoch, p.last_sequence) for p in log.active_producers()),
        "stable": log.last_stable_offset,
    }


def overwrite(files: Files, path: str, data: bytes) -> None:
    file = files.open(path)
    file.truncate(0)
    file.append(data)


class TestClean:
    def test_everything_is_as_it_was(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        before = log_state(log, read_all)
        for _ in range(3):
            log = node.restart()
            assert log_state(log, read_all) == before
            assert log.recovery_point == log.log_end_offset
        assert log.topic_id == bytes(range(16))

    def test_appends_go_on(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log(SMALL)
        for start in range(0, 40, 5):
            fill(log, make_batch, 5, start)
            log = node.restart()
        assert [record.offset for record in read_all(log)] == list(range(60))
        assert log.active_producers()[0].last_sequence == 19

    def test_no_log_data_is_read(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log(LogConfig(segment_bytes=20_000, index_interval_bytes=1000))
        for _ in range(300):
            log.append(make_batch(size=400), 0, NOW)
        node.logs.close()
        read = 0
        real = type(files.open("/data/meta.properties")).read

        def counted(self: Any, position: int, size: int) -> bytes:
            nonlocal read
            data = real(self, position, size)
            if self.path.endswith(".log"):
                read += len(data)
            return data

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("moldau.storage.memory_files.MemoryFile.read", counted)
            node.start()
        assert read <= 16 * 1024
        assert node.log().log_end_offset == 300

    def test_an_untouched_log_is_not_written(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        fill(node.log(SMALL), make_batch)
        node.restart()
        seen: list[str] = []
        files.faults.on_operation = lambda name, path: seen.append(path)
        node.logs.close()
        assert [path for path in seen if "/orders-0" in path] == []

    def test_empty_logs(self, node: Any, files: Files) -> None:
        log = node.log()
        assert node.restart().log_end_offset == 0
        assert node.kill().log_end_offset == 0
        assert files.list_directory(log.directory)[0] == f"{ZEROS}.index"

    def test_the_marker_is_used_once(self, node: Any, make_batch: MakeBatch, directory: str) -> None:
        fill(node.log(), make_batch, 2)
        node.logs.close()
        assert node.files.exists(f"{directory}/.kafka_cleanshutdown")
        node.start()
        assert not node.files.exists(f"{directory}/.kafka_cleanshutdown")


class TestKilled:
    def test_everything_written_is_there(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        before = log_state(log, read_all)
        for _ in range(2):
            log = node.kill()
            assert log_state(log, read_all) == before
            assert log.recovery_point == 0
        fill(log, make_batch, 4, 30)
        before = log_state(log, read_all)
        assert log_state(node.restart(), read_all) == before

    def test_only_what_is_above_the_recovery_point_is_checked(
        self, node: Any, make_batch: MakeBatch, files: Files, read_all: ReadAll
    ) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        log.flush()
        node.logs.checkpoint({})
        # Rot in the first segment is not looked for at the start.
        path = log.segments_info()[0].path
        data = bytearray(node.files.read_whole(path))
        data[70] ^= 1
        overwrite(node.files, path, bytes(data))
        fill(log, make_batch, 4, 30)
        log = node.kill()
        assert log.log_end_offset == 51

    def test_rot_below_the_recovery_point_takes_the_partition_offline(
        self, node: Any, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        log.flush()
        node.logs.checkpoint({})
        path = log.segments_info()[-1].path
        data = bytearray(node.files.read_whole(path))
        data[70] ^= 1
        overwrite(node.files, path, bytes(data))
        before = node.files.list_sizes(log.directory)
        other = node.log(SMALL, log.topic_partition._replace(partition=1))
        fill(other, make_batch, 3)
        with pytest.raises(KafkaError) as caught:
            node.kill()
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert path in str(caught.value)
        assert "checksum" in caplog.text
        assert f"'moldau log repair {log.directory} --dry-run'" in str(caught.value)
        assert node.files.list_sizes(log.directory) == before
        assert node.log(SMALL, other.topic_partition).log_end_offset == 4
        # A stop in order does not make the data good.
        with pytest.raises(KafkaError):
            node.restart()
        assert node.logs.directories[0].recovery_points[log.topic_partition] == 45
        assert node.files.list_sizes(log.directory) == before

    def test_damage_in_a_sealed_segment_above_the_recovery_point(
        self, node: Any, make_batch: MakeBatch, read_all: ReadAll, caplog: pytest.LogCaptureFixture
    ) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        infos = log.segments_info()
        assert len(infos) >= 4
        data = bytearray(node.files.read_whole(infos[1].path))
        data[-1] ^= 1
        overwrite(node.files, infos[1].path, bytes(data))
        log = node.kill()
        assert infos[1].base_offset < log.log_end_offset < infos[2].base_offset
        assert [record.offset for record in read_all(log)] == list(range(log.log_end_offset))
        # What cannot follow any more is kept for a person.
        assert f"{infos[2].path}.stray" in caplog.text
        assert f"'moldau log verify {log.directory} --running'" in caplog.text
        assert node.files.size_of(f"{infos[2].path}.stray") == infos[2].size
        log.append(make_batch(), 0, NOW)
        assert read_all(node.kill())[-1].offset == log.log_end_offset - 1

    @pytest.mark.parametrize("extra", [b"\0" * 5000, b"\xff" * 100, b"x"])
    def test_garbage_behind_the_end(
        self,
        node: Any,
        make_batch: MakeBatch,
        read_all: ReadAll,
        extra: bytes,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        before = log_state(log, read_all)
        last = log.segments_info()[-1]
        node.files.open(last.path).append(extra)
        log = node.kill()
        assert log_state(log, read_all) == before
        (warning,) = [m for r in caplog.records if "cut at" in (m := r.getMessage())]
        assert last.path in warning
        assert f"position {last.size}" in warning
        assert "offset 45" in warning
        assert f"{len(extra)} bytes dropped" in warning
        assert node.files.size_of(last.path) == last.size

    def test_a_repeated_batch_is_not_taken_twice(
        self, node: Any, make_batch: MakeBatch, read_all: ReadAll
    ) -> None:
        log = node.log()
        fill(log, make_batch, 3)
        data = node.files.read_whole(log.segments_info()[0].path)
        node.files.open(log.segments_info()[0].path).append(data)
        assert len(read_all(node.kill())) == 4


def test_a_torn_tail_leaves_the_complete_batches(make_node: Any, make_batch: MakeBatch) -> None:
    """The last segment cut at every byte: exactly the complete batches remain."""
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log(LogConfig(segment_bytes=1500, index_interval_bytes=100))
    ends = [0]
    for at in range(25):
        batch = make_batch(1 + at % 4, timestamp=NOW + at, producer_id=3, producer_epoch=0, base_sequence=-1)
        struct.pack_into(">q", batch, 0, log.log_end_offset)
        log.append_batches(batch, NOW)
        if len(log.segments_info()) == 1 or log.segments_info()[-1].size == len(batch):
            ends = [0]
        ends.append(log.segments_info()[-1].size)
    last = log.segments_info()[-1]
    offsets = {0: last.base_offset}
    data = files.read_whole(last.path)
    for start, end in pairwise(ends):
        offsets[end] = read_header(data, start).last_offset + 1
    assert len(ends) > 5
    for size in range(last.size + 1):
        disk = files.after_kill()
        disk.open(last.path).truncate(size)
        again = make_node(disk, ["/data"]).log()
        whole = max(end for end in ends if end <= size)
        assert again.log_end_offset == offsets[whole]
        assert disk.size_of(last.path) == whole
        piece = again.read(last.base_offset, FAR, FAR, at_least_one=True) if whole else None
        assert (b"" if piece is None else piece.read()) == data[:whole]


def test_a_bit_flipped_anywhere_in_the_tail(make_node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
    """Nothing that was not appended is ever served: what remains is a beginning of what was."""
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log(LogConfig(index_interval_bytes=100))
    for at in range(6):
        log.append(make_batch(2, timestamp=NOW + at), 0, NOW)
    path = log.segments_info()[0].path
    records = read_all(log)
    data = files.read_whole(path)
    size = len(data) // 6
    for at in range(len(data)):
        disk = files.after_kill()
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        overwrite(disk, path, bytes(changed))
        again = make_node(disk, ["/data"]).log()
        remaining = read_all(again)
        # The checksum does not cover offset and epoch: a gap in offsets looks like compaction.
        if at % size not in (*range(8), *range(12, 16)):
            assert remaining == records[: 2 * (at // size)]


TAMPERINGS: dict[str, Callable[[bytes], bytes | None]] = {
    "deleted": lambda data: None,
    "emptied": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "cut": lambda data: data[: len(data) // 2],
    "cut by one": lambda data: data[:-1],
    "longer": lambda data: data + b"\0" * 7,
    "reversed": lambda data: data[::-1],
    "noise": lambda data: bytes((i * 37 + 11) % 256 for i in range(len(data))),
    "first bit": lambda data: bytes([data[0] ^ 0x40, *data[1:]]) if data else b"?",
    "last bit": lambda data: bytes([*data[:-1], data[-1] ^ 1]) if data else b"?",
    "middle": lambda data: (
        data[: len(data) // 2] + b"\x01\x02" + data[len(data) // 2 + 2 :] if len(data) > 4 else b"?"
    ),
}


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("kind", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_caches_are_rebuilt(
    make_node: Any, make_batch: MakeBatch, read_all: ReadAll, kind: str, tampering: str, clean: bool
) -> None:
    if clean and kind == "leader-epoch-checkpoint" and tampering in ("deleted", "emptied"):
        pytest.skip("an empty file is what Kafka begins with")
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log(SMALL)
    fill(log, make_batch)
    before = log_state(log, read_all)
    if clean:
        node.logs.close()
    for name in files.list_directory(log.directory):
        if name.endswith(kind):
            path = f"{log.directory}/{name}"
            data = TAMPERINGS[tampering](files.read_whole(path))
            if data is None:
                files.remove(path)
            else:
                overwrite(files, path, data)
    again = make_node(files.after_kill(), ["/data"])
    log = again.log()
    assert log_state(log, read_all) == before
    # And once more with everything written back.
    fill(log, make_batch, 2, 30)
    before = log_state(log, read_all)
    assert log_state(again.restart(), read_all) == before


def write_transactions(log: Log, make_batch: MakeBatch) -> None:
    """Three producers whose transactions overlap; some are aborted, the last ones stay open."""
    sequences = [0, 0, 0]
    for at in range(120):
        producer = at % 3
        if at % 10 == producer * 2 + 1:
            kind = ControlType.ABORT if at // 10 % 2 else ControlType.COMMIT
            end = encode_marker(Marker(kind, 0), producer_id=producer, producer_epoch=0, timestamp_ms=NOW)
            log.append(memoryview(end), 0, NOW, internal=True)
        else:
            options = {"producer_id": producer, "producer_epoch": 0, "transactional": True}
            log.append(make_batch(base_sequence=sequences[producer], **options), 0, NOW)
            sequences[producer] += 1


def transactions(log: Log) -> tuple[object, ...]:
    end = log.log_end_offset
    aborted = [log.aborted_transactions(start, end) for start in range(0, end, 3)]
    opened = sorted((p.producer_id, p.transaction_first_offset) for p in log.active_producers())
    return aborted, opened, log.last_stable_offset


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("tampering", ["none", *TAMPERINGS])
def test_transaction_indexes(make_node: Any, make_batch: MakeBatch, tampering: str, clean: bool) -> None:
    if clean and tampering in ("deleted", "emptied", "cut", "middle", "last bit"):
        pytest.skip("without a checksum an index of what was aborted cannot tell that something is missing")
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log(SMALL)
    write_transactions(log, make_batch)
    before = transactions(log)
    if clean:
        node.logs.close()
    names = [name for name in files.list_directory(log.directory) if name.endswith(".txnindex")]
    assert len(names) > 2
    for name in names if tampering != "none" else ():
        path = f"{log.directory}/{name}"
        data = TAMPERINGS[tampering](files.read_whole(path))
        if data is None:
            files.remove(path)
        else:
            overwrite(files, path, data)
    again = make_node(files.after_kill(), ["/data"])
    assert transactions(again.log()) == before
    assert transactions(again.restart()) == before


def test_aborted_transactions_survive_a_power_cut(make_node: Any, make_batch: MakeBatch) -> None:
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log(SMALL)
    write_transactions(log, make_batch)
    log.flush()
    node.logs.checkpoint({})
    assert transactions(make_node(files.after_power_cut(), ["/data"]).log()) == transactions(log)


def test_a_full_disk_when_a_transaction_is_aborted(make_node: Any, make_batch: MakeBatch) -> None:
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log()
    log.append(make_batch(base_sequence=0, producer_id=1, producer_epoch=0, transactional=True), 0, NOW)

    def full(operation: str, path: str) -> None:
        if path.endswith(".txnindex") and operation in ("create", "append"):
            raise OSError(errno.ENOSPC, "No space left on device")

    files.faults.on_operation = full
    abort = encode_marker(Marker(ControlType.ABORT, 0), producer_id=1, producer_epoch=0, timestamp_ms=NOW)
    log.append(memoryview(abort), 0, NOW, internal=True)
    before = transactions(log)
    log.flush()
    assert log.recovery_point == 0
    files.faults.on_operation = None
    log.flush()
    assert log.recovery_point == 2
    node.logs.checkpoint({})
    assert transactions(log) == before
    assert transactions(make_node(files.after_power_cut(), ["/data"]).log()) == before


@pytest.mark.parametrize("bit", range(8))
def test_every_bit_of_the_indexes(make_node: Any, make_batch: MakeBatch, read_all: ReadAll, bit: int) -> None:
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log(LogConfig(segment_bytes=1500, index_interval_bytes=300))
    fill(log, make_batch, 20)
    before = log_state(log, read_all)
    node.logs.close()
    names = [
        name for name in files.list_directory(log.directory) if name.endswith(("index", "epoch-checkpoint"))
    ]
    for name in names:
        path = f"{log.directory}/{name}"
        content = files.read_whole(path)
        for at in range(len(content)):
            disk = files.after_kill()
            changed = bytearray(content)
            changed[at] ^= 1 << bit
            overwrite(disk, path, bytes(changed))
            after = log_state(make_node(disk, ["/data"]).log(), read_all)
            if name.endswith("checkpoint"):
                # Plain text without a checksum: a digit may become another one.
                del after["epochs"]
            assert after == {key: before[key] for key in after}, (name, at)


@pytest.mark.parametrize("tampering", TAMPERINGS)
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "orders-0/partition.metadata",
    ],
)
def test_tampered_checkpoints(
    make_node: Any, make_batch: MakeBatch, read_all: ReadAll, name: str, tampering: str, clean: bool
) -> None:
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log(SMALL)
    fill(log, make_batch)
    log.flush()
    node.logs.checkpoint({log.topic_partition: 45})
    before = log_state(log, read_all)
    if clean:
        node.logs.close()
    data = TAMPERINGS[tampering](files.read_whole(f"/data/{name}"))
    if data is None:
        files.remove(f"/data/{name}")
    else:
        overwrite(files, f"/data/{name}", data)
    after = make_node(files.after_kill(), ["/data"])
    if after.logs.get(log.topic_partition).topic_id not in (None, log.topic_id):
        # A changed id is another topic: its data is put aside, never mixed.
        assert after.log().log_end_offset == 0
        assert any(path.endswith("-stray") for path in after.files.list_directory("/data"))
        return
    assert log_state(after.log(), read_all) == before


class TestLeftovers:
    def test_of_deletion_and_compaction(
        self, node: Any, make_batch: MakeBatch, read_all: ReadAll, files: Files
    ) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        before = log_state(log, read_all)
        second = log.segments_info()[1].path.removesuffix(".log")
        node.logs.close()
        content = files.read_whole(f"{second}.log")
        files.rename(f"{second}.log", f"{second}.log.swap")
        for name in (".index", ".timeindex"):
            files.rename(f"{second}{name}", f"{second}{name}.swap")
        for name in ("00000000000000000001.log.deleted", "00000000000000000099.index.cleaned", "x.tmp"):
            files.write_atomically(f"{log.directory}/{name}", b"junk")
        files.write_atomically(f"{log.directory}/00000000000000000099.log.swap", content)
        files.write_atomically(f"{log.directory}/00000000000000000777.timeindex", b"")
        node.start()
        assert log_state(node.log(), read_all) == before
        names = files.list_directory(log.directory)
        assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".swap", ".tmp"))]
        assert "00000000000000000777.timeindex" not in names

    def test_unknown_files_are_left_alone(self, node: Any, make_batch: MakeBatch, files: Files) -> None:
        log = node.log()
        fill(log, make_batch, 3)
        for name in ("notes.txt", "1.log", "abc.log", "00000000000000000000.log.bak"):
            files.write_atomically(f"{log.directory}/{name}", b"mine")
        assert node.restart().log_end_offset == 4
        for name in ("notes.txt", "1.log", "abc.log", "00000000000000000000.log.bak"):
            assert files.read_whole(f"{log.directory}/{name}") == b"mine"

    def test_old_snapshots_go(self, node: Any, make_batch: MakeBatch, files: Files) -> None:
        log = node.log()
        for start in range(0, 12, 3):
            fill(log, make_batch, 3, start)
            log = node.restart()
        names = files.list_directory(log.directory)
        assert [name for name in names if name.endswith(".snapshot")] == [f"{18:020d}.snapshot"]


def test_a_log_start_beyond_what_a_power_cut_left(
    make_node: Any, make_batch: MakeBatch, read_all: ReadAll
) -> None:
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log()
    fill(log, make_batch, 6)
    log.delete_records_before(7)
    node.logs.checkpoint({})
    node = make_node(files.after_power_cut(), ["/data"])
    log = node.log()
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    assert log.append(make_batch(), 0, NOW).base_offset == 7
    for log in (node.kill(), node.restart()):
        assert [record.offset for record in read_all(log)] == [7]


def test_a_gap_after_a_power_cut(
    make_node: Any, make_batch: MakeBatch, read_all: ReadAll, caplog: pytest.LogCaptureFixture
) -> None:
    """A sealed segment that was not flushed is gone, the next one is there: what there is is served."""
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log()
    fill(log, make_batch, 2)
    log.roll(NOW)
    fill(log, make_batch, 2, 2)
    files.open(log.segments_info()[1].path).flush()
    log = make_node(files.after_power_cut(), ["/data"]).log()
    assert [record.offset for record in read_all(log)] == [3, 4, 5]
    assert "ends at offset 0, and the next segment begins at 3" in caplog.text


def test_a_full_disk_while_indexes_are_rebuilt(
    make_node: Any, make_batch: MakeBatch, read_all: ReadAll
) -> None:
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log(SMALL)
    fill(log, make_batch)
    before = log_state(log, read_all)
    after = files.after_kill()
    after.faults.bytes_until_full = 0
    assert log_state(make_node(after, ["/data"]).log(), read_all) == before


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_noise_in_any_file(make_node: Any, make_batch: MakeBatch, read_all: ReadAll, clean: bool) -> None:
    """Whatever happens to a file, opening and reading end in a result or in an error of this package."""
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log(SMALL)
    fill(log, make_batch)
    if clean:
        node.logs.close()
    names = [f"/data/{name}" for name in files.list_sizes("/data")]
    names += [f"{log.directory}/{name}" for name in files.list_sizes(log.directory)]
    generator = random.Random(7)
    outcomes = set()
    for _ in range(600):
        disk = files.after_kill()
        path = generator.choice(names)
        content = bytearray(disk.read_whole(path))
        for _ in range(generator.choice([1, 1, 2, 10, 100])):
            content[generator.randrange(len(content) + 1) :][:1] = b""
            if content:
                content[generator.randrange(len(content))] = generator.randrange(256)
        if generator.random() < 0.3:
            del content[generator.randrange(len(content) + 1) :]
        overwrite(disk, path, bytes(content))
        try:
            again = make_node(disk, ["/data"])
            reopened = again.log(SMALL)
            log_state(reopened, read_all)
            reopened.append(make_batch(), 0, NOW)
            again.logs.close()
            outcomes.add("served")
        except (StorageError, KafkaError) as error:
            outcomes.add(type(error).__name__)
        except AssertionError:
            # The test's own reader found bytes that are no batch: a client would see that by the checksum.
            outcomes.add("garbage")
            assert clean
    assert "served" in outcomes


def test_reading_a_rotten_segment_is_an_error_not_a_crash(
    node: Any, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = node.log(SMALL)
    fill(log, make_batch)
    node.logs.close()
    path = log.segments_info()[0].path
    overwrite(node.files, path, bytes(log.segments_info()[0].size))
    node.start()
    with pytest.raises(KafkaError) as caught:
        node.log().read(1, 100, FAR, at_least_one=True)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert path in caplog.text
    assert f"'moldau log verify {log.directory}'" in caplog.text
    assert node.log().read(40, 1000, FAR, at_least_one=True) is not None


def test_logging_is_one_line_per_event(
    node: Any, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fill(node.log(SMALL), make_batch)
    node.kill()
    assert caplog.records
    assert not [record for record in caplog.records if "\n" in record.getMessage()]
