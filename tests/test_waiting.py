"""The one way to wait does, and nobody sleeps elsewhere without saying why."""

import ast
import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.waiting import turns, until, wait_until

TESTS = Path(__file__).parent
#: Where the loop's time is virtual: nobody waits there.
VIRTUAL = {"simulation", "cluster_simulation"}


def test_returns_what_was_waited_for() -> None:
    answers = iter([0, None, "", "there"])
    assert wait_until(lambda: next(answers)) == "there"

    async def inside() -> None:
        numbers = itertools.count()
        assert await until(lambda: next(numbers) > 2) is True

        async def look() -> int:
            return next(numbers) // 6

        assert await until(look) == 1

    asyncio.run(inside())


def test_tells_what_is_known_when_the_patience_is_over() -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.01 s in vain: two of three"):
        wait_until(lambda: False, "two of three", seconds=0.01)
    with pytest.raises(AssertionError, match=r"in vain: \[1\]"):
        asyncio.run(until(lambda: False, lambda: [1], seconds=0.01))


def test_a_turn_is_for_all_that_is_ready() -> None:
    async def inside() -> list[int]:
        heard: list[int] = []
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: loop.call_soon(heard.append, 1))
        await turns()
        assert heard == []
        await turns()
        return heard

    assert asyncio.run(inside()) == [1]


def sleeps(path: Path) -> Iterator[int]:
    """The lines with calls of time.sleep and asyncio.sleep."""
    text = path.read_text()
    if "sleep(" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep", "sleep"):
            yield node.lineno


@pytest.mark.slow
def test_nobody_sleeps_without_a_reason() -> None:
    silent = []
    for path in sorted(TESTS.rglob("*.py")):
        if path.name != "waiting.py" and not VIRTUAL & {*path.relative_to(TESTS).parts}:
            lines = path.read_text().splitlines()
            silent += [f"{path.relative_to(TESTS)}:{at}" for at in sleeps(path) if "#" not in lines[at - 1]]
    assert silent == [], "use waiting.until, or say in the line why it has to be a sleep"
