"""A crash before every single operation of a compaction: the old segments are there, or the new one."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from moldau.storage.files import MemoryFiles
from tests.storage.cleaning_scene import CONFIG, NOW, TP, Scene

pytestmark = pytest.mark.slow

IDS = {"producer_id": 9, "producer_epoch": 0}


class Crash(BaseException):
    """The process ends here; nothing may catch it."""


def crash_at(number: int) -> Callable[[str, str], None]:
    seen = 0

    def operation(name: str, path: str) -> None:
        nonlocal seen
        if seen == number:
            raise Crash
        seen += 1

    return operation


def filled() -> Scene:
    """Several groups of segments with everything in them that compaction knows of."""
    scene = Scene(config=replace(CONFIG, segment_bytes=800))
    sequence = 0
    for at in range(24):
        scene.append((f"k{at % 5}", f"{at}"), (f"j{at % 3}", None if at % 7 == 5 else "v" * 20))
        if at % 4 == 0:
            scene.append(("p", f"{at}"), base_sequence=sequence, **IDS)
            sequence += 1
        if at % 6 == 3:
            options = {
                "producer_id": 11,
                "producer_epoch": 0,
                "base_sequence": at // 6 * 2,
                "transactional": True,
            }
            scene.append(("t", f"{at}"), (f"k{at % 5}", "in a transaction"), **options)
            scene.end_transaction(11, commit=at % 12 == 3)
        if at == 11:
            scene.roll()
            scene.log.flush()
            scene.clean()
            scene.append(("k0", "after"), ("only", "once"))
    scene.roll()
    scene.log.flush()
    scene.logs.checkpoint({})
    return scene


def view(scene: Scene) -> dict[bytes, bytes]:
    """What a reader of committed data has in the end."""
    aborted = {
        offset
        for entry in scene.log.aborted_transactions(0, scene.log.log_end_offset)
        for header, records in scene.content()
        if header.producer_id == entry.producer_id
        and entry.first_offset <= header.base_offset <= entry.last_offset
        for offset in (record.offset for record in records)
    }
    found: dict[bytes, bytes] = {}
    for record in scene.records():
        assert record.key is not None
        if record.offset in aborted:
            continue
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record.value
    return found


def producers(scene: Scene) -> dict[int, int]:
    return {producer.producer_id: producer.last_sequence for producer in scene.log.active_producers()}


def is_tidy(scene: Scene) -> bool:
    return scene.names(".cleaned", ".swap") == []


@pytest.mark.parametrize("ending", ["killed", "power cut", "power cut that takes names"])
def test_crash_before_every_operation(ending: str) -> None:
    whole = filled()
    before = {record.offset: record for record in whole.records()}
    expected, sequences, end = view(whole), producers(whole), whole.log.log_end_offset
    assert whole.clean()
    assert len(whole.names(".log")) > 3, "several groups"
    final = whole.records()
    assert len(final) < len(before)
    number = 0
    crashed = True
    chance = random.Random(5)
    while crashed:
        scene = filled()
        scene.files.faults.on_operation = crash_at(number)
        try:
            scene.clean()
            crashed = False
        except Crash:
            pass
        disk: MemoryFiles = scene.files
        if ending == "killed":
            scene.files = disk.after_kill()
        elif ending == "power cut":
            scene.files = disk.after_power_cut()
        else:
            scene.files = disk.after_power_cut(lose_name=lambda: chance.random() < 0.5)
        scene.open()
        assert is_tidy(scene), number
        assert (scene.log.log_start_offset, scene.log.log_end_offset) == (0, end), number
        assert view(scene) == expected, number
        # Nothing is there twice, nothing at another offset, nothing that was not there.
        offsets = [record.offset for record in scene.records()]
        assert offsets == sorted(set(offsets)), number
        assert all(before[record.offset] == record for record in scene.records()), number
        assert {record.offset for record in final} <= set(offsets), number
        assert producers(scene) == sequences, number
        # And life goes on, to the same end.
        while scene.clean():
            pass
        assert [record.offset for record in scene.records()] == [record.offset for record in final], number
        assert scene.append(("p", "on"), base_sequence=sequences[9] + 1, **IDS) == end
        scene.restart()
        assert view(scene) == {**expected, b"p": b"on"}, number
        number += 1
    assert number > 60


def test_crash_while_a_start_tidies_up() -> None:
    """Every crash of a swap, and then every crash of the start after it."""
    whole = filled()
    expected, end = view(whole), whole.log.log_end_offset
    states: list[MemoryFiles] = []
    scene = filled()

    def remember(name: str, path: str) -> None:
        if name in ("rename", "remove"):
            states.append(scene.files.after_kill())

    scene.files.faults.on_operation = remember
    scene.clean()
    interrupted = [state for state in states if any_suffix(state, ".swap", ".cleaned")]
    assert len(interrupted) > 20
    for state in interrupted:
        number = 0
        crashed = True
        while crashed:
            disk = state.after_kill()
            disk.faults.on_operation = crash_at(number)
            try:
                Scene(disk, scene.config)
                crashed = False
            except Crash:
                pass
            again = Scene(disk.after_kill(), scene.config)
            assert is_tidy(again)
            assert view(again) == expected
            assert again.log.log_end_offset == end
            number += 1


def any_suffix(state: MemoryFiles, *suffixes: str) -> bool:
    return any(name.endswith(suffixes) for name in state.list_directory(f"/data/{TP}"))


def test_an_index_that_was_not_renamed(caplog: pytest.LogCaptureFixture) -> None:
    """The log of a swap has its name already, its indexes have not."""
    scene = filled()
    assert scene.clean()
    expected = view(scene)
    base = scene.log.directory + "/00000000000000000000"
    scene.files.rename(f"{base}.index", f"{base}.index.swap")
    scene.kill()
    assert is_tidy(scene)
    assert view(scene) == expected


def test_a_swap_that_is_broken_takes_nothing_with_it() -> None:
    scene = filled()
    base = scene.log.directory + "/00000000000000000000"
    data = bytearray(scene.files.read_whole(f"{base}.log"))
    data[-1] ^= 1
    scene.files.write_atomically(f"{base}.log.swap", bytes(data))
    before = scene.files.list_sizes(scene.log.directory)
    with pytest.raises(AssertionError):
        scene.kill()
    assert "checksum" in scene.logs.failed[TP]
    assert scene.files.list_sizes(scene.log.directory) == before


def test_a_rename_that_fails_takes_the_log_offline(caplog: pytest.LogCaptureFixture) -> None:
    for number in range(4):
        scene = filled()
        expected = view(scene)
        seen = 0

        def refuse(name: str, path: str, last: int = number) -> None:
            nonlocal seen
            if name == "rename" and path.endswith((".log", ".swap", ".cleaned")):
                if seen == last:
                    raise OSError(5, "Input/output error", path)
                seen += 1

        scene.files.faults.on_operation = refuse
        scene.clean()
        assert scene.log.offline is not None
        scene.files.faults.on_operation = None
        scene.kill()
        assert view(scene) == expected
        assert scene.now_ms == NOW
