"""A buffer is used again, but never while somebody has a view of it."""

from moldau.base.buffer_pool import BufferPool


def test_a_buffer_is_used_again_only_when_no_view_is_left() -> None:
    pool = BufferPool()
    first = pool.take(100)
    first[:5] = b"first"
    second = pool.take(100)
    second[:6] = b"second"
    assert bytes(first[:5]) == b"first"
    where = second.obj
    del second
    third = pool.take(50)
    assert third.obj is where
    assert len(third) == 50
    larger = pool.take(1_000_000)
    assert len(larger) == 1_000_000
    assert larger.obj is not where
    assert len(pool._buffers) <= 2


def test_a_buffer_above_the_limit_is_not_kept() -> None:
    pool = BufferPool(kept=2, largest=1000)
    assert len(pool.take(1001)) == 1001
    assert not pool._buffers
    assert len(pool.take(1000)) == 1000
    assert pool._buffers
