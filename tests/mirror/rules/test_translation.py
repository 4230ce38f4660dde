"""Offsets of a source as offsets of its copy, to the record."""

import random

from moldau.mirror.rules.formats import OffsetSync
from moldau.mirror.rules.translation import OffsetRuns, Run, read_runs, write_runs
from moldau.mirror.translated_copy import runs_of_syncs


def test_inside_a_run_offsets_run_in_parallel() -> None:
    runs = OffsetRuns()
    runs.add(100, 0, 50)
    assert [runs.translate(o) for o in (100, 101, 149, 150)] == [0, 1, 49, 50]
    assert runs.translate(7) == 0, "what is before the first record is read from the first on"


def test_gaps_of_either_side() -> None:
    runs = OffsetRuns()
    assert runs.add(0, 0, 10)
    assert runs.add(10, 11, 5), "a marker of the target"
    assert runs.add(16, 16, 5), "a marker of the source"
    assert not runs.add(21, 21, 1), "goes on as before"
    assert [runs.translate(o) for o in (9, 10, 14, 15, 16, 21, 22, 30)] == [9, 11, 15, 16, 16, 21, 22, 22]


def test_what_is_known_changes_nothing() -> None:
    runs = OffsetRuns()
    runs.add(0, 0, 10)
    assert not runs.add(0, 0, 10)
    assert not runs.add(5, 5, 10), "the same run, seen further"
    assert runs.last == Run(0, 0, 15)


def test_the_oldest_are_forgotten_and_nothing_is_made_up() -> None:
    runs = OffsetRuns(limit=2)
    for at in range(4):
        runs.add(at * 10, at * 12, 10)
    assert len(runs) == 2
    assert runs.translate(5) is None
    assert runs.translate(25) == 29


def test_runs_as_metadata_of_a_commit() -> None:
    runs = [Run(1, 2, 3), Run(10, 20, 30)]
    assert read_runs(write_runs(runs)) == runs
    assert read_runs("") == read_runs("something else") == read_runs("moldau-mirror:1:x:3") == []


def test_every_record_against_a_model() -> None:
    """Copies with gaps drawn by lot: a consumer at any offset reads next what it would have at the source."""
    for seed in range(50):
        rng = random.Random(seed)
        runs, syncs, copied = OffsetRuns(), [], {}
        upstream = downstream = 0
        for _ in range(30):
            upstream += rng.choice([0, 0, 1, 5])
            downstream += rng.choice([0, 1, 1, 3])
            length = rng.randint(1, 20)
            copied.update({upstream + at: downstream + at for at in range(length)})
            if runs.add(upstream, downstream, length):
                syncs.append((OffsetSync("t", 0, upstream, downstream), True))
            upstream, downstream = upstream + length, downstream + length
        loaded = runs_of_syncs(syncs)
        assert runs.last is not None
        loaded.add(*runs.last)  # the last one comes with the commit
        targets = sorted(copied.values())
        for offset in range(upstream + 1):
            expected = next((copied[o] for o in range(offset, upstream) if o in copied), None)
            for found in (runs.translate(offset), loaded.translate(offset)):
                if expected is None:
                    continue
                assert found is not None
                read_next = next((t for t in targets if t >= found), None)
                assert read_next == expected, (seed, offset)


def test_syncs_that_compaction_has_thinned_never_skip() -> None:
    dense = runs_of_syncs([(OffsetSync("t", 0, 0, 0), False), (OffsetSync("t", 0, 1000, 900), True)])
    assert dense.translate(0) == 0
    assert dense.translate(500) == 1, "as MirrorMaker 2: the record behind the last that is known"
    assert dense.translate(1000) == 900


def test_syncs_of_a_topic_that_was_made_anew() -> None:
    again = runs_of_syncs(
        [
            (OffsetSync("t", 0, 0, 0), True),
            (OffsetSync("t", 0, 50, 51), True),
            (OffsetSync("t", 0, 0, 70), True),
        ]
    )
    assert again.translate(0) == 70
