"""Results of runs as files, and what is true now: of each figure the samples of the newest run that has it.

Invariant: a file that was written is never changed, so that a run of some measures adds to the others'
figures and takes nothing away. Figures of different code never stand in one table. Quick runs are kept and
never count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.targets import METRICS

Results = dict[str, Any]


def save(folder: Path, results: Results) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    stamp = results["date"].replace(" ", "-").replace(":", "")
    path = folder / f"{stamp}{'-quick' if results['quick'] else ''}.json"
    path.write_text(json.dumps(results, indent=1))
    return path


def load_whole(folder: Path) -> list[Results]:
    """Every run that counts, the oldest first."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return sorted((results for results in found if not results["quick"]), key=lambda results: results["date"])


def merged(runs: Iterable[Results]) -> Results:
    """One set of results: date and machine of the newest run, and the runs that figures still come from.

    Runs of other code than the newest one's are left out.
    """
    samples: dict[str, Any] = {}
    source: dict[str, Results] = {}
    newest: Results | None = None
    every = list(runs)
    for newest in every:
        if newest.get("code") != every[-1].get("code"):
            continue
        samples.update(newest["samples"])
        source.update(dict.fromkeys(newest["samples"], newest))
    if newest is None:
        raise ValueError("there are no results to merge")
    used = {run["date"]: run for run in source.values()}
    contributing = [
        {
            "date": date,
            "minutes": used[date]["minutes"],
            "figures": sum(run["date"] == date for run in source.values()),
            "load average before": used[date]["machine"].get("load average before", "unknown"),
        }
        for date in sorted(used)
    ]
    return {**newest, "samples": samples, "runs": contributing}


def lost_figures(document: Path, results: Results) -> list[str]:
    """Figures that a document has and that it would not have any more if it were written from these."""
    if not document.exists():
        return []
    text = document.read_text()
    return [
        metric.title
        for metric in METRICS
        if metric.key not in results["samples"] and f"\n| {metric.title} ({metric.unit}) |" in text
    ]
