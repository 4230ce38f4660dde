"""The chain of the audit log: whatever is changed, taken out or put in is found."""

from moldau.security.audit import BEGINNING, broken_at, chained


def _lines(count: int) -> list[str]:
    lines, link = [], BEGINNING
    for number in range(count):
        line, link = chained({"event": "denied", "name": f"t{number}"}, link)
        lines.append(line)
    return lines


def test_a_chain_that_is_whole() -> None:
    assert broken_at(_lines(5)) is None
    assert broken_at([]) is None
    assert broken_at(_lines(5)[2:]) is None


def test_every_change_is_found() -> None:
    lines = _lines(5)
    assert broken_at([*lines[:2], *lines[3:]]) == 3
    assert broken_at([*lines[:2], lines[2].replace("t2", "t9"), *lines[3:]]) == 3
    assert broken_at([*lines[:2], lines[3], lines[2], lines[4]]) == 3
    assert broken_at([*lines[:2], "{}", *lines[2:]]) == 3
