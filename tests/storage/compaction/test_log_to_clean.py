"""How dirty a log is, and between which offsets it may be compacted."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from moldau.storage.compaction.log_to_clean import LogToClean, measure_dirtiness
from moldau.storage.log.log import Log
from tests.storage.cleaning_scene import CONFIG, NOW, Scene

MINUTE = 60_000
END = 1 << 62


@pytest.fixture
def log() -> Log:
    """Four segments of ten offsets, each a minute younger than the one before; the last one is active."""
    return made()


def made(**config: Any) -> Log:
    scene = Scene(config=replace(CONFIG, **config))
    for segment in range(4):
        for offset in range(10):
            scene.append((f"k{offset}", "v"), timestamp=NOW + segment * MINUTE)
        if segment < 3:
            scene.roll()
    return scene.log


def size(log: Log, *numbers: int) -> int:
    segments = log.segments.to_list()
    return sum(segments[number].size for number in numbers)


def test_everything_but_the_active_segment_is_dirty_at_first(log: Log) -> None:
    found = measure_dirtiness(log, None, END, NOW)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 30)
    assert (found.clean_bytes, found.dirty_bytes) == (0, size(log, 0, 1, 2))
    assert (found.dirty_ratio, found.needs_compaction_now, found.is_due) == (1.0, False, True)


def test_what_was_compacted_is_clean(log: Log) -> None:
    found = measure_dirtiness(log, 20, END, NOW)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (20, 30)
    assert (found.clean_bytes, found.dirty_bytes) == (size(log, 0, 1), size(log, 2))
    assert found.dirty_ratio == pytest.approx(1 / 3)


def test_nothing_is_dirty(log: Log) -> None:
    found = measure_dirtiness(log, 30, END, NOW)
    assert (found.first_dirty_offset, found.first_uncleanable_offset, found.dirty_bytes) == (30, 30, 0)
    assert (found.dirty_ratio, found.is_due) == (0.0, False)


@pytest.mark.parametrize(
    ("stable_offset", "first_uncleanable"), [(0, 0), (9, 0), (10, 10), (29, 20), (30, 30), (35, 30)]
)
def test_a_segment_that_is_not_stable_to_its_end_is_left_alone(
    log: Log, stable_offset: int, first_uncleanable: int
) -> None:
    found = measure_dirtiness(log, None, stable_offset, NOW)
    assert found.first_uncleanable_offset == first_uncleanable
    assert found.dirty_bytes == size(log, *range(first_uncleanable // 10))


@pytest.mark.parametrize(
    ("now_ms", "first_uncleanable"),
    [
        (NOW + MINUTE - 1, 0),
        (NOW + MINUTE, 10),
        (NOW + 2 * MINUTE, 20),
        (NOW + 3 * MINUTE, 30),
        (NOW + 9 * MINUTE, 30),
    ],
)
def test_young_segments_are_left_alone(now_ms: int, first_uncleanable: int) -> None:
    log = made(min_compaction_lag_ms=MINUTE)
    assert measure_dirtiness(log, None, END, now_ms).first_uncleanable_offset == first_uncleanable


@pytest.mark.parametrize(
    ("cleaner_offset", "now_ms", "now"),
    [
        (None, NOW + MINUTE, False),
        (None, NOW + MINUTE + 1, True),
        (10, NOW + MINUTE + 1, False),
        (10, NOW + 2 * MINUTE + 1, True),
        (30, NOW + 9 * MINUTE, False),
    ],
)
def test_old_segments_cannot_wait(cleaner_offset: int | None, now_ms: int, now: bool) -> None:
    """The oldest record that was not compacted counts."""
    log = made(max_compaction_lag_ms=MINUTE, min_cleanable_dirty_ratio=1.0)
    found = measure_dirtiness(log, cleaner_offset, END, now_ms)
    assert (found.needs_compaction_now, found.is_due) == (now, now)


@pytest.mark.parametrize(("ratio", "due"), [(0.3, True), (0.34, False), (1.0, False)])
def test_a_log_is_due_above_its_ratio(ratio: float, due: bool) -> None:
    assert measure_dirtiness(made(min_cleanable_dirty_ratio=ratio), 20, END, NOW).is_due is due


@pytest.mark.parametrize(
    ("cleaner_offset", "delete", "warned"), [(5, False, True), (5, True, False), (41, True, True)]
)
def test_an_offset_that_the_log_does_not_have(
    cleaner_offset: int, delete: bool, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = made(delete=delete)
    log.advance_log_start_offset(10, "a test")
    with caplog.at_level(logging.WARNING, "moldau.storage"):
        found = measure_dirtiness(log, cleaner_offset, END, NOW)
    assert found.first_dirty_offset == 10
    assert ("which it does not hold: it is compacted from 10 on" in caplog.text) is warned


def test_an_empty_log_is_not_dirty() -> None:
    found = measure_dirtiness(Scene().log, None, END, NOW)
    assert found[1:] == (0, 0, 0, 0, False)
    assert LogToClean(*found).dirty_ratio == 0.0
