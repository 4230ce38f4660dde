"""The page of attacks names tests that there are, and leaves none of the attacks out."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "attacks.md").read_text("utf-8")


def test_every_test_that_is_named_is_there() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
        if f"def {name}(" not in (ROOT / path).read_text("utf-8")
    ]
    assert missing == []


def test_every_attack_has_a_test() -> None:
    rows = dict(re.findall(r"^\| (A\d\d) \|(.*)$", PAGE, re.MULTILINE))
    assert sorted(rows) == [f"A{number:02}" for number in range(1, 28)]
    assert [name for name, row in rows.items() if "`tests/" not in row] == []
