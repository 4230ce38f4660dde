"""``moldau log verify`` and ``moldau log repair``: find what is wrong with log files, and repair it.

Invariant: verify only reads; its exit code is 0 when all is well, 1 when something was found, 2 when the
files could not be read. Repair shows its plan and asks before it writes, and locks the directory then.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.log_target import CannotRead, holder_of, target_at
from moldau.cli.output import echo, note, print_json, progress, size_text
from moldau.cli.session import json_option

if TYPE_CHECKING:
    from moldau.base.names import Uuid
    from moldau.inspection.findings import Finding
    from moldau.inspection.layout import LogTarget
    from moldau.inspection.repair import RepairStep
    from moldau.inspection.segment_checks import SegmentReport
    from moldau.inspection.verify import Job

#: With less to read, starting processes would take longer than the work.
_MIN_BYTES_FOR_PROCESSES = 64 << 20
_MAX_PROCESSES = 8


@click.command("verify", short_help="Check everything; exit code 0 if all is well.")
@click.argument("paths", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="DIR...")
@click.option("--running", is_flag=True, help="Look at a directory in use: at its sealed segments only.")
@click.option("--quick", is_flag=True, help="Do not decode records; checksums and lengths are still checked.")
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Processes to use; default: one for each core."
)
@json_option
def verify(paths: tuple[Path, ...], running: bool, quick: bool, jobs: int | None, as_json: bool) -> None:
    """Check everything: each batch and record, indexes, snapshots, checkpoints, transactions, epochs.

    Exit code 0: all is well (notes apart). 1: something was found. 2: it could not be read.
    Give all data directories of a broker that has several.

    \b
    Examples:
      moldau log verify data
      moldau log verify data/orders-0 --json
      moldau log verify data --running --quick
    """
    targets = [target_at(path) for path in paths]
    if not running:
        for target in targets:
            _refuse_if_locked(target, "stop the broker, or look at sealed segments with --running")
    work = _plan(targets, deep=not quick, running=running)
    total = sum(job.size for job in work)
    reports: list[SegmentReport] = []
    bar, task = progress("verifying", total)
    try:
        with bar:
            for report in _run(work, jobs or min(os.cpu_count() or 1, _MAX_PROCESSES)):
                reports.append(report)
                bar.advance(task, report.size)
    except OSError as error:
        raise CannotRead(f"{error.filename}: {error.strerror}") from error
    order = {"problem": 0, "warning": 1, "note": 2}
    found = [finding for report in reports for finding in report.findings]
    found.sort(key=lambda finding: (order[finding.severity], finding.file, finding.position or 0))
    if as_json:
        print_json([_finding_json(finding) for finding in found])
    else:
        _print_findings(found, Path.cwd())
        _print_summary(targets, reports, found)
    raise SystemExit(1 if any(finding.severity != "note" for finding in found) else 0)


def _plan(targets: "Sequence[LogTarget]", *, deep: bool, running: bool) -> "list[Job]":
    from moldau.inspection.verify import plan

    expected = None if running else _expected_partitions(targets)
    names = frozenset(partition.name for target in targets for partition in target.partitions)
    jobs: list[Job] = []
    for target in targets:
        jobs += plan(target, deep=deep, running=running, expected=expected, elsewhere=names)
    return jobs


def _expected_partitions(targets: "Sequence[LogTarget]") -> "dict[str, Uuid] | None":
    """The partitions in Moldau's metadata, if one of the directories has it."""
    from moldau.importing.metadata import MOLDAU_FILE, ImportFailed, read_moldau_image

    for target in targets:
        if target.root is not None and target.path == target.root and (target.root / MOLDAU_FILE).exists():
            try:
                image = read_moldau_image(target.root)
            except ImportFailed as error:
                note(f"The metadata is not compared: {error}")
                return None
            return {
                f"{topic.name}-{partition.partition}": topic.topic_id
                for topic in image.topics_by_name.values()
                for partition in topic.partitions
            }
    return None


def _run(jobs: "Sequence[Job]", processes: int) -> "Iterable[SegmentReport]":
    """Runs the jobs, the largest first: in this process, or in several if there is much to read."""
    ordered = sorted(jobs, key=lambda job: -job.size)
    if processes == 1 or sum(job.size for job in jobs) < _MIN_BYTES_FOR_PROCESSES:
        yield from (job.run() for job in ordered)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        try:
            for done in as_completed([pool.submit(job.run) for job in ordered]):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _refuse_if_locked(target: "LogTarget", step: str) -> None:
    holder = holder_of(target)
    if holder is not None:
        raise CannotRead(f"{target.root} is in use by process {holder}. Next: {step}")


def _print_findings(found: "Sequence[Finding]", here: Path) -> None:
    for finding in found:
        where = [finding.file.removeprefix(f"{here}/")]
        where += [f"position {finding.position}"] if finding.position is not None else []
        where += [f"offset {finding.offset}"] if finding.offset is not None else []
        echo(f"{finding.severity}: {', '.join(where)}")
        echo(f"    {finding.what}")
        if finding.meaning:
            echo(f"    means: {finding.meaning}")
        if finding.action:
            echo(f"    do: {finding.action}")


def _print_summary(
    targets: "Sequence[LogTarget]", reports: "Sequence[SegmentReport]", found: "Sequence[Finding]"
) -> None:
    partitions = sum(len(target.partitions) for target in targets)
    batches = sum(report.batches for report in reports)
    records = sum(report.records for report in reports)
    size = sum(report.size for report in reports)
    counts = [
        f"{sum(finding.severity == kind for finding in found)} {kind}(s)"
        for kind in ("problem", "warning", "note")
    ]
    echo(
        f"{partitions} partition(s), {batches:,} batches with {records:,} records, {size_text(size)}: "
        f"{', '.join(counts)}"
    )


def _finding_json(finding: "Finding") -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "file": finding.file,
        "position": finding.position,
        "offset": finding.offset,
        "what": finding.what,
        "meaning": finding.meaning or None,
        "action": finding.action or None,
    }


# Repair --------------------------------------------------------------------------------------------------


@click.command("repair", short_help="Mend what a broker does not mend by itself.")
@click.argument("path", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def repair(path: Path, dry_run: bool, yes: bool) -> None:
    """Mend what a broker does not mend by itself; nothing is deleted.

    A damaged batch is taken out of its segment, whatever is before and behind it stays with its offsets,
    and the damaged bytes are kept in a file beside it (.damaged). Indexes, snapshots of producers and
    leader epochs that are wrong are written anew from the log. The broker must be stopped.

    \b
    Examples:
      moldau log repair data --dry-run
      moldau log repair data/orders-0
      moldau log repair data --yes
    """
    from moldau.storage.errors import StorageError
    from moldau.storage.files import OsFiles

    target = target_at(path)
    _refuse_if_locked(target, "stop the broker first")
    steps = _planned_steps(target)
    if not steps:
        echo("Nothing to repair.")
        return
    for number, step in enumerate(steps, 1):
        echo(f"{number}. {step.text.replace(f'{Path.cwd()}/', '')}")
    if dry_run:
        note(f"{len(steps)} step(s) to do; nothing was changed.")
        return
    if not yes:
        click.confirm(f"Do these {len(steps)} step(s)?", abort=True)
    files = OsFiles()
    try:
        lock = None if target.root is None else files.lock(f"{target.root}/.lock")
        try:
            _do(steps, lambda step: step.run(files))
        finally:
            if lock is not None:
                lock.release()
    except (StorageError, OSError) as error:
        raise click.ClickException(
            f"{error}. Next: see what is left to do with 'moldau log repair {path} --dry-run'"
        ) from error
    echo(f"{len(steps)} step(s) done. Next: 'moldau log verify {path}'")


def _planned_steps(target: "LogTarget") -> "list[RepairStep]":
    from moldau.inspection.repair import plan_partition, plan_root

    steps: list[RepairStep] = []
    bar, task = progress("looking", target.size)
    try:
        with bar:
            if target.root is not None and target.path == target.root:
                steps += plan_root(target.root)
            for partition in target.partitions:
                bar.update(task, rate=partition.name)
                steps += plan_partition(partition, target.root)
                bar.advance(task, partition.size)
    except OSError as error:
        raise CannotRead(f"{error.filename}: {error.strerror}") from error
    return steps


def _do(steps: "Sequence[RepairStep]", run: "Callable[[RepairStep], None]") -> None:
    bar, task = progress("repairing", len(steps))
    with bar:
        for step in steps:
            run(step)
            bar.advance(task)
