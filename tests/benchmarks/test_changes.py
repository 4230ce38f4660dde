"""A quick run beside the last page: what counts as worse, and what is noise."""

from pathlib import Path

from benchmarks.changes import fallen, known_ratios
from benchmarks.report import Figure
from benchmarks.targets import BY_KEY

ROOT = Path(__file__).resolve().parents[2]
PAGE = """# Benchmarks

| measure | Apache Kafka | Moldau | ratio | floor | goal | verdict |
| --- | --- | --- | --- | --- | --- | --- |
| start to first answer (s) | 3.43 | 0.231 | 0.07× | ≤ 0.15 | ≤ 0.08 | goal met |
| producer, 100 bytes, acks=1 (records/s) | 332,260 | 367,520 | 1.11× | ≥ 1.1 | ≥ 1.4 | floor met |

## Ranges

| measure | Apache Kafka | Moldau |
| --- | --- | --- |
| start to first answer (s) | 3.1 – 3.57 | 0.17 – 0.291 |
| producer, 100 bytes, acks=1 (records/s) | 328,239 – 366,762 | 337,197 – 402,414 |
"""


def figure(key: str, ratio: float) -> Figure:
    return Figure(BY_KEY[key], 100.0, 100.0 * ratio, (100.0, 100.0), (100.0 * ratio, 100.0 * ratio))


def test_the_rows_of_a_page() -> None:
    known = known_ratios(PAGE)
    produced = known["producer, 100 bytes, acks=1 (records/s)"]
    assert produced.ratio == 1.11
    assert (round(produced.lowest, 2), round(produced.highest, 2)) == (0.92, 1.23)
    assert known_ratios("no table") == {}


def test_every_row_of_our_own_page_is_understood() -> None:
    known = known_ratios((ROOT / "docs" / "benchmarks.md").read_text())
    assert len(known) >= 45
    assert all(row.lowest <= row.ratio <= row.highest for row in known.values())


def test_worse_by_more_than_noise() -> None:
    known = known_ratios(PAGE)
    assert fallen([figure("produce-100-acks-1", 0.85), figure("start", 0.09)], known) == []
    (slower,) = fallen([figure("produce-100-acks-1", 0.8), figure("start", 0.09)], known)
    assert slower.startswith("producer, 100 bytes, acks=1 (records/s): 0.80×, was 1.11× (0.92 to 1.23)")
    assert len(fallen([figure("start", 0.2)], known)) == 1
    assert fallen([figure("recovery", 0.01)], known) == []
