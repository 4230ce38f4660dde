"""A million damaged bytes and cut files, and ten thousand crashes, however long they take.

    make soak
    MOLDAU_SOAK_SECONDS=1 MOLDAU_SOAK_SEED=17 .venv/bin/pytest tests/soak/test_damage_soak.py --timeout 0

It is done when the numbers are reached, not when a time is over; MOLDAU_SOAK_DAMAGES and MOLDAU_SOAK_CRASHES
are others. What fails names its seed. One log in eight also lives on after the damage, and is opened once
more; in ``make test`` every one does.
"""

import gc
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest

DAMAGES = int(os.environ.get("MOLDAU_SOAK_DAMAGES", "1000000"))
CRASHES = int(os.environ.get("MOLDAU_SOAK_CRASHES", "10000"))
LIVES_ON = 8
PROGRESS_SECONDS = 15.0

Piece = Callable[[str, int], Counter[str]]


def damage_piece(seed: str, count: int) -> Counter[str]:
    from tests.storage.damage_cases import Original, check, draw

    originals = [Original(True), Original(False)]
    quiet()
    seen: Counter[str] = Counter()
    for number in range(count):
        original = originals[number % 2]
        damage = draw(original, f"{seed}/{number}")
        try:
            seen[check(original, damage, afterwards=number // 2 % LIVES_ON == 0)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}/{number}, {damage}") from error
    return seen


def crash_piece(seed: str, count: int) -> Counter[str]:
    from tests.storage.crash_lives import CUTS, crash, operations_of

    quiet()
    seen: Counter[str] = Counter()
    for number in range(count):
        own = f"{seed}/{number}"
        dice = random.Random(own)
        cut = dice.choice(list(CUTS))
        crash(own, dice.randrange(operations_of(own)), cut)
        seen[cut] += 1
    return seen


def quiet() -> None:
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


class Progress:
    """How far it is, said past pytest's capture, from time to time."""

    def __init__(self, what: str, goal: int, say: Callable[[str], None]) -> None:
        self._what = what
        self._goal = goal
        self._say = say
        self._began = self._said = time.monotonic()

    def tell(self, done: int) -> None:
        now = time.monotonic()
        if done < self._goal and now - self._said < PROGRESS_SECONDS:
            return
        self._said = now
        rate = done / (now - self._began)
        left = (self._goal - done) / rate
        self._say(f"{done:,} of {self._goal:,} {self._what}, {rate:,.0f} a second, {left:.0f} s to go")


@pytest.mark.parametrize(
    ("what", "piece", "goal", "size"),
    [("damages", damage_piece, DAMAGES, 500), ("crashes", crash_piece, CRASHES, 50)],
    ids=["damages", "crashes"],
)
def test_by_the_thousand(
    what: str, piece: Piece, goal: int, size: int, capfd: pytest.CaptureFixture[str]
) -> None:
    def say(text: str) -> None:
        with capfd.disabled():
            print(text, flush=True)

    seed = os.environ.get("MOLDAU_SOAK_SEED", str(random.randrange(1 << 32)))
    say(f"\n{goal:,} {what}, MOLDAU_SOAK_SEED={seed}")
    sizes = [min(size, goal - done) for done in range(0, goal, size)]
    progress = Progress(what, goal, say)
    total: Counter[str] = Counter()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for seen in pool.map(piece, [f"{seed}/{number}" for number in range(len(sizes))], sizes):
            total += seen
            progress.tell(total.total())
    say(f"{dict(total)}")
    assert total.total() == goal
