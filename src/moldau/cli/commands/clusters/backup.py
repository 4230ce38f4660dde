"""``moldau backup``: saves a cluster to a folder or a bucket, run by run, and brings it back.

Invariant: what is read and written goes over Kafka's protocol alone. ``create`` works with every Kafka,
``restore`` with Moldau, which can keep offsets. Every error ends as one line with a next step.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from moldau.base.times import format_time
from moldau.cli.commands.data.topic_branches import time_of
from moldau.cli.output import echo, note, print_json, print_table, progress, size_text
from moldau.cli.schema_registry import connected as connected_registry
from moldau.cli.schema_registry import optional_registry_options, registry_url
from moldau.cli.session import cluster_command_options, connected, json_option, pairs

if TYPE_CHECKING:
    from moldau.backup.manifest import Run
    from moldau.backup.restoring import Restored, RestoreOptions
    from moldau.backup.runs import Chosen
    from moldau.base.object_stores import Store
    from moldau.client.transport.cluster import Cluster

_T = TypeVar("_T")
_PARTS = ("topics", "groups", "schemas", "acls", "quotas", "configs")
#: The registry's own topic: with -r its schemas are saved as schemas.
_REGISTRY_TOPIC = "_schemas"


@click.group()
def backup() -> None:
    """Save a cluster to a directory or an S3-like store, and bring it back with the same offsets.

    Each run copies what is new since the last one, as raw batches. WHERE is a directory, or s3://BUCKET/PATH
    with the usual AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL.

    \b
    Examples:
      moldau backup create /backups/shop -r http://127.0.0.1:8081
      moldau backup list /backups/shop
      moldau backup verify /backups/shop
      moldau backup restore /backups/shop -b new:9092 --at '2026-01-31T12:00:00Z'
      moldau backup prune /backups/shop --keep 14
    """


def store_at(where: str) -> "Store":
    """A directory, or a bucket with the settings of AWS's own tools."""
    import os
    from pathlib import Path

    from moldau.base.object_stores import LocalStore, ObjectStore, StoreError

    if not where.startswith("s3://"):
        return LocalStore(Path(where))
    bucket, _, prefix = where.removeprefix("s3://").partition("/")
    if not bucket:
        raise click.UsageError(f"{where} names no bucket: it has the form s3://BUCKET/PATH")
    options = {
        "region": os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
        "endpoint": os.environ.get("AWS_ENDPOINT_URL"),
        "access_key_id": os.environ.get("AWS_ACCESS_KEY_ID"),
        "secret_access_key": os.environ.get("AWS_SECRET_ACCESS_KEY"),
        "session_token": os.environ.get("AWS_SESSION_TOKEN"),
    }
    try:
        return ObjectStore(bucket, options, prefix=prefix.rstrip("/") + "/" if prefix else "")
    except StoreError as error:
        raise click.ClickException(str(error)) from error


def _said(work: Callable[[], _T]) -> _T:
    """An error of the backup becomes one line."""
    from moldau.backup.manifest import BackupError
    from moldau.base.object_stores import StoreError

    try:
        return work()
    except (BackupError, StoreError, OSError) as error:
        raise click.ClickException(str(error)) from error


@backup.command("create")
@click.argument("where", metavar="WHERE")
@click.option("--topics", default=".*", show_default=True, metavar="REGEX,…", help="Which topics.")
@click.option("--exclude", default="", metavar="REGEX,…", help="Topics that stay out.")
@click.option("--groups", default=".*", show_default=True, metavar="REGEX,…", help="Which groups.")
@click.option("--full", is_flag=True, help="Copy everything again, not only what is new.")
@optional_registry_options
@cluster_command_options
def create(where: str, topics: str, exclude: str, groups: str, full: bool, as_json: bool) -> None:
    """Save what is new since the last run: records, offsets of groups, schemas, ACLs, quotas, configs.

    Passwords of users cannot be read from a cluster, and are not saved. Internal topics are not either.
    """
    from moldau.base.clock import SystemClock
    from moldau.mirror.rules.filters import name_filter

    store = store_at(where)
    schemas = None if registry_url() is None else _schemas()
    left_out = [*exclude.split(","), *([_REGISTRY_TOPIC] if registry_url() else [])]
    try:
        wanted_topics = name_filter(topics.split(","), left_out)
        wanted_groups = name_filter(groups.split(","))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    bar, task = progress("Saving", None, shown=not as_json)

    async def work(cluster: "Cluster") -> "Run":
        from moldau.backup.taking import Wanted, take_backup

        wanted = Wanted(wanted_topics, wanted_groups, full)
        now = SystemClock().now_ms
        return await take_backup(
            cluster, store, wanted, now_ms=now, schemas=schemas, progress=lambda n: bar.advance(task, n)
        )

    with bar:
        run = _said(lambda: connected(work))
    if as_json:
        print_json(summary(run))
        return
    echo(
        f"Saved {run.run_id}: {len(run.topics)} topics, {len(run.groups)} groups, "
        f"{size_text(run.own_size)} new of {size_text(run.size)}"
    )


def _schemas() -> bytes:
    from moldau.cli.commands.data.schemas_transfer import exported, text_of

    with connected_registry() as client:
        return text_of(exported(client)).encode()


def summary(run: "Run") -> dict[str, Any]:
    return {
        "run": run.run_id,
        "cluster_id": run.cluster_id,
        "started": format_time(run.started_ms),
        "finished": format_time(run.finished_ms),
        "topics": len(run.topics),
        "partitions": sum(len(topic.partitions) for topic in run.topics.values()),
        "groups": len(run.groups),
        "acls": len(run.acls),
        "schemas": run.schemas is not None,
        "size_bytes": run.size,
        "new_bytes": run.own_size,
    }


@backup.command("list")
@click.argument("where", metavar="WHERE")
@json_option
def list_(where: str, as_json: bool) -> None:
    """Show the runs of a backup, oldest first."""
    from moldau.backup.runs import read_runs

    rows = [summary(run) for run in _said(lambda: read_runs(store_at(where)))]
    if as_json:
        print_json(rows)
    elif not rows:
        note(f"There is no backup at {where}")
    else:
        print_table(
            ("RUN", "FINISHED", "TOPICS>", "PARTITIONS>", "GROUPS>", "ACLS>", "SCHEMAS", "SIZE>", "NEW>"),
            [
                (
                    *(row[name] for name in ("run", "finished", "topics", "partitions", "groups", "acls")),
                    "yes" if row["schemas"] else "no",
                    size_text(row["size_bytes"]),
                    size_text(row["new_bytes"]),
                )
                for row in rows
            ],
        )


@backup.command("verify")
@click.argument("where", metavar="WHERE")
@click.option("--run", "run_id", metavar="RUN", help="Only this run, of 'moldau backup list'.")
@json_option
def verify(where: str, run_id: str | None, as_json: bool) -> None:
    """Read every file and compare every checksum; exit code 1 when something is wrong."""
    from moldau.backup.runs import choose, problems, read_runs

    store = store_at(where)

    def look() -> tuple[int, list[str]]:
        runs = read_runs(store)
        if run_id is not None or not runs:
            runs = [choose(runs, run_id=run_id).records]
        seen = dict.fromkeys(problem for run in runs for problem in problems(store, run))
        return len({chunk.name for run in runs for chunk in run.chunks}), list(seen)

    count, found = _said(look)
    if as_json:
        print_json({"files": count, "problems": found})
    else:
        for problem in found:
            echo(problem)
        echo(f"{count} files of records, {len(found) or 'no'} problem{'' if len(found) == 1 else 's'}")
    if found:
        raise SystemExit(1)


@backup.command("prune")
@click.argument("where", metavar="WHERE")
@click.option("--keep", type=click.IntRange(min=1), required=True, help="How many of the newest runs stay.")
def prune(where: str, keep: int) -> None:
    """Forget old runs, and delete files that no run needs any more."""
    from moldau.backup.runs import prune as prune_store

    gone, files = _said(lambda: prune_store(store_at(where), keep))
    echo(f"Forgot {len(gone)} runs, deleted {files} files")


@backup.command("restore")
@click.argument("where", metavar="WHERE")
@click.option("--run", "run_id", metavar="RUN", help="What that run saved; without it the newest.")
@click.option("--at", "moment", metavar="TIME", help="As it was then: 2026-01-31T12:00:00Z, '10m ago'.")
@click.option("--topics", default=".*", show_default=True, metavar="REGEX,…", help="Which topics.")
@click.option("--exclude", default="", metavar="REGEX,…", help="Topics that stay out.")
@click.option("--rename", "renames", multiple=True, metavar="OLD=NEW", help="A new name; repeatable.")
@click.option(
    "--only",
    default=",".join(_PARTS),
    show_default=True,
    metavar="PART,…",
    help="What is restored, where the backup has it.",
)
@click.option("--replication-factor", default=-1, metavar="N", help="Without it the cluster's default.")
@optional_registry_options
@cluster_command_options
def restore(
    where: str,
    run_id: str | None,
    moment: str | None,
    topics: str,
    exclude: str,
    renames: tuple[str, ...],
    only: str,
    replication_factor: int,
    as_json: bool,
) -> None:
    """Make the topics of a backup again: the same records at the same offsets.

    A topic that exists is not touched. Records of transactions that were open are aborted. With --at, groups
    and ACLs come from the last run before that time.
    """
    from moldau.backup.restoring import RestoreOptions
    from moldau.backup.runs import choose, read_runs
    from moldau.mirror.rules.filters import name_filter

    if run_id is not None and moment is not None:
        raise click.UsageError("give --run or --at, not both")
    parts = {part.strip() for part in only.split(",")}
    if not parts <= {*_PARTS}:
        raise click.UsageError(f"--only knows {', '.join(_PARTS)}")
    at_ms = None if moment is None else time_of(moment, "--at")
    store = store_at(where)
    chosen = _said(lambda: choose(read_runs(store), run_id=run_id, at_ms=at_ms))
    try:
        wanted = name_filter(topics.split(","), exclude.split(","))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    given = pairs(renames, "--rename")
    names = {name: given.get(name, name) for name in chosen.records.topics if name in wanted}
    unknown = [name for name in given if name not in names]
    if unknown:
        raise click.UsageError(f"--rename {unknown[0]}: the run {chosen.records.run_id} has no such topic")
    options = RestoreOptions(names if "topics" in parts else {}, at_ms, replication_factor)
    bar, task = progress("Restoring", None, shown=not as_json)

    async def work(cluster: "Cluster") -> tuple["Restored", dict[str, int]]:
        return await _restore(cluster, store, chosen, options, parts, lambda n: bar.advance(task, n))

    with bar:
        done, counts = _said(lambda: connected(work))
    if "schemas" in parts and registry_url() is not None:
        counts["schemas"] = _restore_schemas(store, chosen)
    _print_restored(chosen, done, counts, as_json)
    if done.refused:
        raise SystemExit(1)


async def _restore(
    cluster: "Cluster",
    store: "Store",
    chosen: "Chosen",
    options: "RestoreOptions",
    parts: set[str],
    advance: Callable[[int], None],
) -> tuple["Restored", dict[str, int]]:
    from moldau.backup import restoring

    done = await restoring.restore_topics(cluster, store, chosen.records, options, progress=advance)
    if "groups" in parts:
        await restoring.restore_groups(cluster, chosen.state.groups, options.names, done)
    steps: dict[str, Callable[[Cluster, Run], Awaitable[int]]] = {
        "acls": restoring.restore_acls,
        "quotas": restoring.restore_quotas,
        "configs": restoring.restore_broker_configs,
    }
    return done, {name: await step(cluster, chosen.state) for name, step in steps.items() if name in parts}


def _restore_schemas(store: "Store", chosen: "Chosen") -> int:
    from moldau.backup.runs import read_saved
    from moldau.cli.commands.data.schemas_transfer import import_rows, read

    file = chosen.records.schemas
    if file is None:
        raise click.ClickException(f"the run {chosen.records.run_id} has no schemas: it was made without -r")
    rows = read(_said(lambda: read_saved(store, file)).decode().splitlines())
    with connected_registry() as client:
        import_rows(client, rows, False)
    return sum(row["kind"] == "schema" for row in rows)


def _print_restored(chosen: "Chosen", done: "Restored", counts: dict[str, int], as_json: bool) -> None:
    if as_json:
        result = {
            "run": chosen.records.run_id,
            "topics": {name: list(ends) for name, ends in done.topics.items()},
            "groups": done.groups,
            **counts,
            "refused": done.refused,
        }
        print_json(result)
        return
    more = "".join(f", {count} {name}" for name, count in counts.items() if count)
    echo(f"Restored {chosen.records.run_id}: {len(done.topics)} topics, {done.groups} groups{more}")
    for each in done.refused:
        echo(f"Not restored: {each}", err=True)
