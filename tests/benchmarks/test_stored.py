"""Figures of one run beside those of others: what a run did not measure stays."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import stored
from benchmarks.report import write_documents
from benchmarks.targets import BY_KEY


def run(date: str, samples: dict[str, float], *, quick: bool = False) -> dict[str, Any]:
    return {
        "date": date,
        "minutes": 2.0,
        "quick": quick,
        "machine": {"processor": "2 × X", "load average before": "0.10"},
        "samples": {
            key: {"kafka": [2 * value], "moldau": [value, value + 1]} for key, value in samples.items()
        },
    }


def test_the_newest_run_that_has_a_figure_counts(tmp_path: Path) -> None:
    stored.save(tmp_path, run("2026-11-16 02:21", {"start": 1, "recovery": 5}))
    stored.save(tmp_path, run("2026-11-16 04:50", {"recovery": 7}))
    path = stored.save(tmp_path, run("2026-11-16 05:00", {"recovery": 9, "retention": 1}, quick=True))
    assert path.name == "2026-11-16-0500-quick.json"
    results = stored.merged(stored.load_whole(tmp_path))
    assert {key: values["kafka"] for key, values in results["samples"].items()} == {
        "start": [2],
        "recovery": [14],
    }
    assert [(each["date"], each["figures"]) for each in results["runs"]] == [
        ("2026-11-16 02:21", 1),
        ("2026-11-16 04:50", 1),
    ]


def test_a_run_of_which_no_figure_is_left_is_not_told() -> None:
    runs = [run("2026-11-16 01:00", {"start": 1}), run("2026-11-16 02:00", {"start": 2})]
    assert [each["date"] for each in stored.merged(runs)["runs"]] == ["2026-11-16 02:00"]
    with pytest.raises(ValueError, match="no results"):
        stored.merged([])


def test_a_document_never_loses_a_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    document = tmp_path / "benchmarks.md"
    assert stored.lost_figures(document, run("2026-11-16 01:00", {})) == []
    whole = stored.merged([run("2026-11-16 01:00", {"start": 1, "recovery": 5})])
    write_documents(whole, tmp_path)
    assert "Measured on 2026-11-16 01:00 (2 figures, 2.0 minutes, load average before: 0.10)." in (
        document.read_text()
    )
    assert stored.lost_figures(document, whole) == []
    assert stored.lost_figures(document, run("2026-11-16 03:00", {"start": 1})) == [BY_KEY["recovery"].title]


def test_figures_of_other_code_are_left_out() -> None:
    old = {**run("2026-11-16 01:00", {"start": 1, "recovery": 5}), "code": "a"}
    new = {**run("2026-11-16 02:00", {"start": 2}), "code": "b"}
    assert set(stored.merged([old, new])["samples"]) == {"start"}
    assert set(stored.merged([old, {**new, "code": "a"}])["samples"]) == {"start", "recovery"}
