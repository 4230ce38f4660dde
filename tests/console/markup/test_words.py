"""Numbers, sizes and times as people read them."""

import pytest

from moldau.console.markup import words


@pytest.mark.parametrize(("number", "text"), [(-1, "–"), (0, "0 B"), (1536, "1.5 KiB"), (3 << 40, "3.0 TiB")])
def test_sizes(number: int, text: str) -> None:
    assert words.size(number) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(5, "5 ms"), (180_000, "3 min"), (86_400_000, "24 h"), (604_800_000, "7 d"), (-1, "for ever")],
)
def test_durations(ms: int, text: str) -> None:
    assert words.duration(ms) == text


def test_moments_and_rates() -> None:
    assert words.moment(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert words.moment(-1) == words.moment(1 << 62) == "–"
    assert [words.rate(each) for each in (None, 0, 0.26, 1234.4)] == ["–", "0 /s", "0.3 /s", "1,234 /s"]
    assert (words.plural(1, "topic"), words.plural(2000, "topic")) == ("1 topic", "2,000 topics")
