"""Forks and compaction: neither side sees the other's, and a fork of what was compacted is whole."""

from pathlib import Path

import pytest

from moldau.base.names import TopicPartition
from moldau.protocol.records import Record
from moldau.storage.branches.branch import Branch
from moldau.storage.branches.forking import begin_fork
from moldau.storage.files import OsFiles
from moldau.storage.log.log import Log
from tests.storage.cleaning_scene import DAY_MS, TP, Scene
from tests.storage.forks import FORK_ID, committed, fork

COPY = TopicPartition("copy", 0)


@pytest.fixture(params=["memory", "os"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return Scene() if request.param == "memory" else Scene(OsFiles(), root=f"{tmp_path}/data")


def fill(scene: Scene, batches: int = 30) -> None:
    for number in range(batches):
        scene.append((f"k{number % 5}", f"{number}"))
        if number % 4 == 3:
            scene.roll()
    scene.roll()


def records(scene: Scene, log: Log) -> list[Record]:
    original, scene.log = scene.log, log
    try:
        return scene.records()
    finally:
        scene.log = original


def test_compaction_of_either_leaves_the_other(scene: Scene) -> None:
    fill(scene)
    before = scene.records()
    copy = fork(scene.logs, scene.log, "copy", 30)
    while scene.clean():
        pass
    # Both were compacted, the fork too, and each by itself.
    assert len(scene.records()) == 5
    assert len(records(scene, copy)) == 5
    again = fork(scene.logs, scene.log, "again", 29)
    scene.append(("k0", "new"), ("k1", "new"))
    scene.roll()
    while scene.clean():
        pass
    assert [record.offset for record in records(scene, again)] == [25, 26, 27, 28]
    assert records(scene, copy) == before[25:]
    assert [record.offset for record in scene.records()] == [27, 28, 29, 30, 31]


def test_the_past_stays_in_a_fork(scene: Scene) -> None:
    fill(scene)
    before = scene.records()
    copy = fork(scene.logs, scene.log, "copy", 17)
    copy.config = scene.config.__class__()  # not compacted
    while scene.clean():
        pass
    assert records(scene, copy) == before[:17]
    scene.kill()
    found = scene.logs.get(COPY)
    assert found is not None
    assert records(scene, found) == before[:17]


@pytest.mark.parametrize("end", [0, 3, 12, 26, 28, 30])
def test_an_end_in_a_gap(scene: Scene, end: int) -> None:
    """The offsets that are gone are not given out again."""
    fill(scene)
    assert scene.clean()
    copy = fork(scene.logs, scene.log, "copy", end)
    assert copy.log_end_offset == end
    assert records(scene, copy) == [record for record in scene.records() if record.offset < end]
    scene.kill()
    found = scene.logs.get(COPY)
    assert found is not None
    assert found.log_end_offset == end


def test_compaction_while_a_fork_is_made(scene: Scene) -> None:
    fill(scene)
    log_directory = scene.logs.directory_of(TP)
    assert log_directory is not None
    branch = Branch(scene.files, log_directory, COPY, FORK_ID)
    job = begin_fork(scene.log, branch, 30, scene.now_ms)
    assert scene.clean()
    job.run()
    assert not job.is_consistent()
    branch.discard()
    copy = fork(scene.logs, scene.log, "copy", 30)
    assert records(scene, copy) == scene.records()


def test_transactions_that_were_compacted(scene: Scene) -> None:
    """A marker may go when nothing of its transaction is left; what is committed stays committed."""

    def send(producer: int, sequence: int, key: str) -> None:
        options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        scene.append((key, f"{producer}"), transactional=True, **options)

    for number in range(4):
        send(1, number, f"a{number}")
        send(2, number, "b")
        scene.end_transaction(1, commit=True)
        scene.end_transaction(2, commit=number % 2 == 0)
        scene.roll()
    expected = committed(scene.log)
    for _ in range(4):
        scene.clean()
        scene.now_ms += 2 * DAY_MS
        scene.append(("tick", "tock"), timestamp=scene.now_ms)
        scene.roll()
    assert scene.log.last_stable_offset == scene.log.log_end_offset
    end = scene.log.log_end_offset
    copy = fork(scene.logs, scene.log, "copy", end)
    assert copy.log_end_offset == end
    assert committed(copy) == committed(scene.log)
    kept = {(record.offset, record.value) for record in committed(copy)}
    assert {(r.offset, r.value) for r in expected if r.key != b"b"} <= kept
