"""Headers and bodies up to their limits, and one byte beyond."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from moldau.web.limits import Limits, check_headers, read_body
from moldau.web.problems import Problem

LIMITS = Limits(max_body_bytes=10, max_header_bytes=8)


class Parts:
    """A body in parts; counts those that were asked for."""

    def __init__(self, *parts: bytes) -> None:
        self.left = list(parts)
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.left:
            self.read += 1
            yield part


def body(parts: Parts, declared: int = 0) -> bytes:
    return asyncio.run(read_body(LIMITS, aiter(parts), declared))


def test_headers_up_to_the_limit() -> None:
    check_headers(LIMITS, [])
    check_headers(LIMITS, [(b"ab", b"cd"), (b"ef", b"gh")])


def test_names_and_values_of_headers_count_together() -> None:
    with pytest.raises(Problem, match="larger than 8 bytes") as refused:
        check_headers(LIMITS, [(b"ab", b"cd"), (b"ef", b"ghi")])
    assert refused.value.status == 431


@pytest.mark.parametrize("parts", [(), (b"",), (b"0123456789",), (b"01234", b"", b"56789")])
def test_a_body_up_to_the_limit(parts: tuple[bytes, ...]) -> None:
    assert body(Parts(*parts)) == b"".join(parts)


def test_a_body_that_is_too_large_is_not_read_to_its_end() -> None:
    parts = Parts(b"01234", b"567890", *[b"and more"] * 100)
    with pytest.raises(Problem, match="larger than 10 bytes") as refused:
        body(parts)
    assert refused.value.status == 413
    assert parts.read == 6, "a little beyond the limit is read and forgotten, so that the client hears why"


def test_a_body_that_is_far_too_large_by_its_own_words_is_not_read_at_all() -> None:
    parts = Parts(b"01234")
    with pytest.raises(Problem, match="larger than 10 bytes"):
        body(parts, declared=41)
    assert parts.read == 0
