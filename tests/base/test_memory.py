"""Memory that is used again, and never under somebody's eyes."""

from moldau.base.memory import ReusedMemory


def test_memory_is_used_again_only_when_nobody_looks_at_it() -> None:
    memory = ReusedMemory()
    first = memory.take(100)
    first[:5] = b"first"
    second = memory.take(100)
    second[:6] = b"second"
    assert bytes(first[:5]) == b"first"
    where = second.obj
    del second
    third = memory.take(50)
    assert third.obj is where
    assert len(third) == 50
    larger = memory.take(1_000_000)
    assert len(larger) == 1_000_000
    assert larger.obj is not where
    assert len(memory._pieces) <= 2


def test_what_is_above_the_bound_is_not_kept() -> None:
    memory = ReusedMemory(kept=2, largest=1000)
    assert len(memory.take(1001)) == 1001
    assert not memory._pieces
    assert len(memory.take(1000)) == 1000
    assert memory._pieces
