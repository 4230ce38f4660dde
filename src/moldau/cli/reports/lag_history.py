"""What the lag monitor has seen of a group, as findings: its partitions that are not well, by Burrow's rules.

Invariant: changes nothing; a group that the monitor has not seen is said to be unknown to it, not to be well.
"""

from pathlib import Path

from moldau.cli.monitoring.lag_monitor import looks_of, read_history
from moldau.metrics.lag.evaluation import MEANINGS, Status
from moldau.reports.findings import Finding, Severity
from moldau.reports.group_lag import GroupSnapshot

_SEVERITIES = {Status.OK: Severity.OK, Status.WARN: Severity.WARNING}
_NEXT_STEPS = {
    Status.WARN: "start more members, up to one for each partition, or make each record cost less",
    Status.STALL: "look at the member that owns the partition: it may fail at one record again and again",
    Status.STOP: "start a consumer of this group again",
    Status.REWIND: "ask who has reset the group; reading again is well if it was meant",
}


def status_over_time(path: Path, now: GroupSnapshot) -> list[Finding]:
    """The status of each partition over the window of the history, the present look included."""
    name = now.group.group_id
    history = read_history(path)
    if name not in list(history):
        text = f"{path} knows nothing of this group"
        return [Finding(Severity.NOTE, name, text, "let 'moldau lag --history' run for a while")]
    history.take(name, looks_of(now), now.time_ms)
    found = history.status(name, now.time_ms)
    findings = []
    for place, each in sorted(found.partitions.items()):
        if each.status is Status.OK:
            continue
        severity = _SEVERITIES.get(each.status, Severity.PROBLEM)
        sure = "" if each.complete == 1 else f" ({each.complete:.0%} of a window seen)"
        text = f"{each.status.name} over time, lag {each.lag}: {MEANINGS[each.status]}{sure}"
        findings.append(Finding(severity, str(place), text, _NEXT_STEPS.get(each.status, "")))
    if not findings:
        sure = f"{found.complete:.0%} of a window seen"
        findings.append(Finding(Severity.OK, name, f"over time {MEANINGS[Status.OK]} ({sure})"))
    return findings
