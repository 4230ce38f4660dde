"""Damaged bytes and crashes by the thousand: a third of the time of a soak, or until the numbers are reached.

make soak SECONDS=3600
MOLDAU_SOAK_SECONDS=600 MOLDAU_SOAK_SEED=17 .venv/bin/pytest tests/soak/test_damage_soak.py -s --timeout 0
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

SECONDS = float(os.environ["MOLDAU_SOAK_SECONDS"]) / 3
DAMAGES = 1_000_000
CRASHES = 10_000
PIECE = 500


def damage_piece(seed: str) -> Counter[str]:
    from damage_cases import Original, check, draw

    quiet()
    originals = [Original(True), Original(False)]
    seen: Counter[str] = Counter()
    for number in range(PIECE):
        original = originals[number % 2]
        damage = draw(original, f"{seed}/{number}")
        try:
            seen[check(original, damage)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}/{number}, {damage}") from error
    return seen


def crash_piece(seed: str) -> Counter[str]:
    from crash_lives import CUTS, crash, operations_of

    quiet()
    for number in range(PIECE // 10):
        own = f"{seed}/{number}"
        dice = random.Random(own)
        crash(own, dice.randrange(operations_of(own)), dice.choice(list(CUTS)))
    return Counter(lives=PIECE // 10)


def quiet() -> None:
    import logging

    logging.disable(logging.CRITICAL)


def seeds() -> Iterator[str]:
    seed = os.environ.get("MOLDAU_SOAK_SEED", str(random.randrange(1 << 32)))
    print(f"\nMOLDAU_SOAK_SEED={seed}")
    number = 0
    while True:
        yield f"{seed}/{number}"
        number += 1


@pytest.mark.parametrize(("piece", "goal"), [(damage_piece, DAMAGES), (crash_piece, CRASHES)])
def test_by_the_thousand(piece: object, goal: int) -> None:
    assert callable(piece)
    deadline = time.monotonic() + SECONDS
    total: Counter[str] = Counter()
    drawn = seeds()
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers) as pool:
        while total.total() < goal and time.monotonic() < deadline:
            for seen in pool.map(piece, [next(drawn) for _ in range(2 * workers)]):
                total += seen
    print(f"{total.total()} of {goal}: {dict(total)}")
    assert total.total() > 0
