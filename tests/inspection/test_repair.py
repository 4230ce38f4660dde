"""Repair: what is whole stays with its offsets, every byte is kept, and the partition opens again."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.inspection.contents import HoleKind, inspect, read_offsets
from moldau.inspection.findings import Severity
from moldau.inspection.layout import find_target
from moldau.inspection.repair import RepairError, free_name, index_contents, plan
from moldau.inspection.verify import plan as plan_checks
from moldau.protocol.records import Record, read_header
from moldau.storage.files import OsFile, OsFiles
from moldau.storage.log.log import Log

MakeNode = Callable[..., Any]
ReadAll = Callable[[Log], list[Record]]


class Quick(OsFiles):
    """Does not wait for the device: no test pulls the plug."""

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        super().write_atomically(path, data, sync=False)

    def flush_directory(self, path: str) -> None:
        pass


def repair(path: Path) -> list[str]:
    steps = plan(find_target(path))
    for step in steps:
        step.run(Quick())
    return [step.text for step in steps]


def problems(path: Path) -> list[str]:
    found = (finding for job in plan_checks(find_target(path)) for finding in job.run().findings)
    return [f"{each.file}: {each.what}" for each in found if each.severity is not Severity.NOTE]


def files(directory: Path, suffix: str = ".log") -> list[Path]:
    return sorted((directory / "orders-0").glob(f"*{suffix}"))


def batches(path: Path) -> list[tuple[int, bytes]]:
    """Base offset and bytes of each batch of a sound file."""
    data, position, found = path.read_bytes(), 0, []
    while position < len(data):
        header = read_header(data, position)
        found.append((header.base_offset, data[position : position + header.size]))
        position += header.size
    return found


def opened(directory: Path, make_node: MakeNode) -> Log:
    """By a broker's storage; it must be online."""
    node = make_node(Quick(), [str(directory)])
    assert node.logs.failed == {}
    log: Log = node.log()
    return log


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_nothing_to_do(data_directory: Path) -> None:
    assert plan(find_target(data_directory)) == []


@pytest.mark.parametrize("which", [0, 2, -1])
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_batch_is_taken_out(
    data_directory: Path, which: int, clean: bool, make_node: MakeNode, read_all: ReadAll
) -> None:
    if not clean:
        (data_directory / ".kafka_cleanshutdown").unlink()
    path = files(data_directory)[which]
    before = batches(path)
    bad = 1
    position = len(before[0][1])
    flip(path, position + 70)
    size = path.stat().st_size
    text, *others = repair(data_directory)
    assert others == []
    assert f"at {position}" in text
    assert batches(path) == before[:bad] + before[bad + 1 :]
    aside = path.with_name(f"{path.name}.{position}.damaged")
    assert aside.stat().st_size + path.stat().st_size == size
    assert problems(data_directory) == []
    (partition,) = find_target(data_directory).partitions
    view = inspect(partition, read_offsets(str(data_directory)))
    assert [(hole.first, kind) for hole, kind in view.holes] == [(before[bad][0], HoleKind.REPAIR)]
    log = opened(data_directory, make_node)
    assert log.log_end_offset == 47
    offsets = [record.offset for record in read_all(log)]
    assert len(offsets) == 43 if not before[bad][1][22] & 0x20 else 44
    assert before[bad][0] not in offsets


def test_the_parts_make_the_whole_again(data_directory: Path) -> None:
    path = files(data_directory)[1]
    original = path.read_bytes()
    (_, first), *_ = batches(path)
    damaged = bytearray(original)
    damaged[30] ^= 1
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    repair(data_directory)
    whole = bytearray(path.read_bytes())
    pieces = sorted(path.parent.glob("*.damaged"), key=lambda piece: int(piece.name.split(".")[-2]))
    assert len(pieces) == 2
    for piece in pieces:
        position = int(piece.name.split(".")[-2])
        whole[position:position] = piece.read_bytes()
    assert bytes(whole) == bytes(damaged)
    assert pieces[0].stat().st_size == len(first)


def test_a_segment_without_a_whole_batch(
    data_directory: Path, make_node: MakeNode, read_all: ReadAll
) -> None:
    path = files(data_directory)[1]
    lost = len(batches(path))
    path.write_bytes(b"\xee" * path.stat().st_size)
    repair(data_directory)
    assert not path.exists()
    assert path.with_name(f"{path.name}.damaged").exists()
    assert path.with_name(f"{path.stem}.index.damaged").exists()
    assert problems(data_directory) == []
    assert len(read_all(opened(data_directory, make_node))) == 44 - lost


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_lost_offsets_are_not_given_out_again(
    data_directory: Path, share: float, make_node: MakeNode
) -> None:
    """The end of the log is gone, and what was promised lay there."""
    path = files(data_directory)[-1]
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: int(size * share)] + b"\xee" * (size - int(size * share)))
    texts = repair(data_directory)
    assert any("begin a new segment" in text for text in texts)
    assert (data_directory / "orders-0" / f"{47:020d}.log").exists()
    assert opened(data_directory, make_node).log_end_offset == 47


def test_the_only_segment_is_lost(tmp_path: Path, make_node: MakeNode) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{12:020d}.log").write_bytes(b"x" * 500)
    repair(directory)
    assert (directory / f"{12:020d}.log").stat().st_size == 0
    assert repair(directory) == []


def test_a_torn_end_is_left_to_the_next_start(data_directory: Path, make_node: MakeNode) -> None:
    (data_directory / ".kafka_cleanshutdown").unlink()
    path = files(data_directory)[-1]
    path.write_bytes(path.read_bytes() + b"torn")
    assert repair(data_directory) == []
    assert opened(data_directory, make_node).log_end_offset == 47


def test_indexes_are_as_a_broker_writes_them(data_directory: Path) -> None:
    for path in files(data_directory)[:-1]:
        segment = next(
            each
            for each in find_target(data_directory).partitions[0].segments
            if each.base_offset == int(path.stem)
        )
        made = index_contents(path, segment.base_offset, segment.next_base_offset)
        assert made[".timeindex"][-12:] == path.with_suffix(".timeindex").read_bytes()[-12:]
    path = files(data_directory, ".index")[0]
    path.write_bytes(b"junk!")
    (text,) = repair(data_directory)
    assert "build anew" in text
    assert problems(data_directory) == []


def test_small_files(data_directory: Path, make_node: MakeNode) -> None:
    directory = data_directory / "orders-0"
    sound = {path: path.read_bytes() for path in directory.iterdir()}
    broken = [
        *files(data_directory, ".snapshot"),
        *files(data_directory, ".txnindex"),
        directory / "leader-epoch-checkpoint",
    ]
    for path in broken:
        path.write_bytes(b"junk")
    (data_directory / "cleaner-offset-checkpoint").write_bytes(b"junk")
    texts = repair(data_directory)
    assert len(texts) == len(broken) + 1
    assert problems(data_directory) == []
    for path in broken:
        if path.suffix != ".snapshot":
            assert path.read_bytes() == sound[path]
    assert free_name(str(broken[0])).name == f"{broken[0].name}-1.damaged"
    log = opened(data_directory, make_node)
    assert {each.producer_id: each.last_sequence for each in log.active_producers()}[0] == 13


def test_a_missing_txn_index(data_directory: Path) -> None:
    (path,) = files(data_directory, ".txnindex")
    sound = path.read_bytes()
    path.unlink()
    repair(data_directory)
    assert path.read_bytes() == sound


def test_an_index_of_a_damaged_log_is_refused(data_directory: Path) -> None:
    path = files(data_directory)[0]
    flip(path, 70)
    with pytest.raises(RepairError):
        index_contents(path, 0, None)


@pytest.mark.parametrize("which", [0, 2, -1])
@pytest.mark.parametrize("batch", [0, 3, -1])
@pytest.mark.parametrize("byte", [0, 3, 7])
def test_an_offset_is_written_anew(
    data_directory: Path, which: int, batch: int, byte: int, make_node: MakeNode, read_all: ReadAll
) -> None:
    """The checksum does not cover it; its neighbours tell what it was, so no record is lost."""
    path = files(data_directory)[which]
    before = batches(path)
    position = sum(len(content) for _, content in before[: batch % len(before)])
    flip(path, position + byte)
    (text,) = repair(data_directory)
    assert f"restore offset {before[batch][0]} at {position}" in text
    assert batches(path) == before
    assert problems(data_directory) == []
    assert len(read_all(opened(data_directory, make_node))) == 44


class Stopping(Quick):
    """Lets so many changes happen, and then none."""

    def __init__(self, changes: int) -> None:
        super().__init__()
        self.left = changes

    def _change(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError("stopped")

    def create(self, path: str) -> OsFile:
        self._change()
        return super().create(path)

    def rename(self, source: str, target: str) -> None:
        self._change()
        super().rename(source, target)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._change()
        super().write_atomically(path, data)


@pytest.mark.slow
def test_it_may_be_stopped_at_any_moment(built_directory: Path, tmp_path: Path, make_node: MakeNode) -> None:
    """What was whole is there after every single change, and the next repair brings it to the end."""
    done = False
    changes = 0
    while not done:
        directory = tmp_path / f"stopped-{changes}"
        shutil.copytree(built_directory, directory)
        first, second, *_, last = files(directory)
        flip(second, 70)
        last.write_bytes(b"\xee" * last.stat().st_size)
        (directory / "orders-0" / "leader-epoch-checkpoint").write_bytes(b"junk")
        first.with_suffix(".index").write_bytes(b"junk")
        kept = {offset for path in files(directory)[2:-1] for offset, _ in batches(path)}
        kept |= {offset for offset, _ in batches(first) + batches(second)[1:]}
        stopping = Stopping(changes)
        try:
            for step in plan(find_target(directory)):
                step.run(stopping)
            done = True
        except OSError:
            repair(directory)
        assert {offset for path in files(directory) for offset, _ in batches(path)} == kept
        assert problems(directory) == []
        changes += 1
    assert changes > 10
    assert opened(directory, make_node).log_end_offset == 47


@pytest.mark.parametrize("seed", range(12))
def test_any_damage(data_directory: Path, make_node: MakeNode, seed: int) -> None:
    """Whatever was overwritten: no byte is lost, whole batches stay, verify is content, a broker opens it."""
    chance = random.Random(seed)
    path = chance.choice(files(data_directory))
    known = {offset: content for file in files(data_directory) for offset, content in batches(file)}
    content = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(content))
        noise = chance.randbytes(chance.choice((1, 2, 60, 150)))[: len(content) - at]
        content[at : at + len(noise)] = noise
    path.write_bytes(content)
    whole = {offset for offset, batch in known.items() if batch in bytes(content)}
    others = {offset for file in files(data_directory) if file != path for offset, _ in batches(file)}
    repair(data_directory)
    kept = {offset for file in files(data_directory) for offset, _ in batches(file)}
    assert whole | others <= kept
    aside = sum(piece.stat().st_size for piece in path.parent.glob("*.log*.damaged"))
    rest = path.stat().st_size if path.exists() else 0
    assert aside + rest >= len(content)  # a batch that got its offset back is kept twice
    assert repair(data_directory) == []
    assert problems(data_directory) == []
    log = opened(data_directory, make_node)
    assert log.log_end_offset == 47
    for offset in range(47):
        log.read(offset, 1 << 20, 47, at_least_one=True)
