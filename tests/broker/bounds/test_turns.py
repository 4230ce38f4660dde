"""Long work in short turns: how much fits one, and who is next."""

import asyncio
import contextlib
from collections.abc import Callable, Generator
from types import SimpleNamespace

import pytest

from moldau.broker.bounds.turns import Rotation, Turn, at_once, if_large, in_turns
from tests.shared.waiting import turns


class Watch:
    """A stopwatch on which every look takes a millisecond."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 0.001
        return self.seconds


def test_work_in_turns_lets_others_run() -> None:
    done: list[str] = []

    def steps() -> Generator[None, None, str]:
        for number in range(20):
            done.append(f"step {number}")
            yield
        return "result"

    async def play() -> str:
        async def other() -> None:
            for number in range(3):
                done.append(f"other {number}")
                await turns()

        task = asyncio.create_task(other())
        result = await in_turns(steps(), Turn(Watch(), 0.004))
        await task
        return result

    assert asyncio.run(play()) == "result"
    others = [done.index(f"other {number}") for number in range(3)]
    assert others == [4, 9, 14]


def test_what_a_step_raises_is_raised() -> None:
    def steps() -> Generator[None, None, None]:
        yield
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_turns(steps()))


def test_a_small_request_is_answered_at_once_and_a_large_one_in_steps() -> None:
    def steps() -> Generator[None, None, int]:
        yield
        return 7

    assert if_large(SimpleNamespace(large=False), steps()) == 7  # type: ignore[arg-type]
    assert at_once(if_large(SimpleNamespace(large=True), steps())) == 7  # type: ignore[arg-type]


class One:
    def __init__(self, name: str, turns: int, rotation: Rotation, order: list[str]) -> None:
        self.name, self.turns, self.rotation, self.order = name, turns, rotation, order

    def go_on(self) -> None:
        self.order.append(self.name)
        self.turns -= 1
        if self.turns == 0:
            raise ZeroDivisionError
        if self.turns > 0:
            self.rotation.add(self)


def run(soon: list[Callable[[], None]]) -> int:
    calls = 0
    while soon:
        calls += 1
        with contextlib.suppress(ZeroDivisionError):
            soon.pop(0)()
    return calls


def test_one_after_the_other_and_one_that_fails_holds_up_nobody() -> None:
    soon: list[Callable[[], None]] = []
    rotation = Rotation(soon.append, Watch())
    order: list[str] = []
    for name, rounds in (("a", 2), ("b", -1), ("c", 3)):
        rotation.add(One(name, rounds, rotation, order))
    assert len(rotation) == 3
    run(soon)
    assert order == ["a", "b", "c", "a", "c", "c"]
    assert len(rotation) == 0


def test_a_round_is_cut_when_its_time_is_up() -> None:
    soon: list[Callable[[], None]] = []
    rotation = Rotation(soon.append, Watch())
    order: list[str] = []
    for number in range(40):
        rotation.add(One(str(number), -1, rotation, order))
    soon.pop(0)()
    assert 1 <= len(order) <= 5
    run(soon)
    assert order == [str(number) for number in range(40)]


def test_turns_get_shorter_with_the_queue() -> None:
    soon: list[Callable[[], None]] = []
    rotation = Rotation(soon.append, Watch())
    usual = rotation.turn_seconds
    for number in range(1000):
        rotation.add(One(str(number), -1, rotation, []))
    soon.pop(0)()
    assert rotation.turn_seconds * 1000 < 0.1
    run(soon)
    assert rotation.turn_seconds == usual
