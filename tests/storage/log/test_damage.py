"""A few thousand damaged bytes and cut files; ``make soak`` has a million."""

from collections import Counter

import pytest

from tests.storage.damage_cases import Damage, Original, check, draw

pytestmark = pytest.mark.slow

CASES = 1000


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_random_damage(clean: bool) -> None:
    original = Original(clean)
    seen: Counter[str] = Counter()
    kinds: set[str] = set()
    for number in range(CASES):
        damage = draw(original, f"{clean}/{number}")
        seen[check(original, damage)] += 1
        kinds.add(damage.path.rpartition("/")[2].lstrip("0123456789"))
    assert kinds >= {".log", ".index", ".timeindex", ".txnindex", ".snapshot", "meta.properties"}
    assert kinds >= {"leader-epoch-checkpoint", "partition.metadata", "recovery-point-offset-checkpoint"}
    assert seen["served"] > CASES / 5
    assert seen["refused"] > CASES / 50


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_every_file_cut_short(clean: bool) -> None:
    original = Original(clean)
    for path, size in original.sizes.items():
        for position in sorted({0, 1, size // 2, size - 1}):
            check(original, Damage(path, position, 0))
