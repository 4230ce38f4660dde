"""``moldau schemas diff``: what changed between two schemas, and whom the change breaks.

The schemas are fetched and compared here, by the rules of our own registry, so that the answer is the same
for any registry.
"""

from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.output import echo, print_json, shown
from moldau.cli.schema_registry import (
    connected,
    file_schema,
    parsed,
    pretty,
    reason,
    references_of,
    registry_options,
)
from moldau.cli.session import FILE, json_option

if TYPE_CHECKING:
    from moldau.client.registry.schema_registry import RegisteredSchema, RegistryClient

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("diff")
@click.argument("subject")
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--file", type=FILE, help="Compare with the schema in this file, instead of a version.")
@click.option("--type", "schema_type", type=click.Choice(["avro", "json", "protobuf"]), help="Of the file.")
@click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="NAME=SUBJECT:VERSION",
    help="Of the file.",
)
@json_option
@registry_options
def diff(
    subject: str,
    old: str | None,
    new: str | None,
    file: Path | None,
    schema_type: str | None,
    references: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what changed in SUBJECT between two versions, and what that breaks.

    OLD and NEW are numbers or latest: the last two versions unless given; with --file the latest version and
    the file. Exit code 1 when the change breaks what the subject's level promises.

    \b
    Examples:
      moldau schemas diff orders-value
      moldau schemas diff orders-value 1 3
      moldau schemas diff orders-value --file order.avsc
    """
    with connected() as client:
        level = str(client.config(subject).get("compatibilityLevel") or "BACKWARD")
        before, after = _pair(client, subject, old, new, file, schema_type, references)
        broken = breaks(client, before, after)
    lines = list(_lines(before, after))
    promised = [each for each in broken if _counts(each["level"], level)]
    if as_json:
        print_json({"subject": subject, "level": level, "diff": lines, "breaks": broken})
    else:
        _print(lines, broken, level)
    if promised:
        raise SystemExit(1)


def _pair(
    client: "RegistryClient",
    subject: str,
    old: str | None,
    new: str | None,
    file: Path | None,
    schema_type: str | None,
    references: tuple[str, ...],
) -> "tuple[RegisteredSchema, RegisteredSchema]":
    from moldau.client.registry.schema_registry import RegisteredSchema

    if file is not None:
        if new is not None:
            raise click.UsageError("give a NEW version or a --file, not both")
        text, kind = file_schema(file, schema_type)
        made = RegisteredSchema(0, kind, text, tuple(references_of(references)), str(file))
        return client.version(subject, old or "latest"), made
    versions = client.versions(subject)
    if old is None and len(versions) < 2:
        raise click.ClickException(f"{subject} has one version only. Next: give a --file to compare it with")
    first = old or str(sorted(versions)[-2])
    return client.version(subject, first), client.version(subject, new or "latest")


def breaks(
    client: "RegistryClient", old: "RegisteredSchema", new: "RegisteredSchema"
) -> list[dict[str, Any]]:
    """Every reason why readers of one schema cannot read what was written with the other."""
    from moldau.registry.rules.compatibility import Level, conflicts

    earlier, later = parsed(client, old), parsed(client, new)
    found = []
    for level in (Level.BACKWARD, Level.FORWARD):
        found += [
            {"level": str(level), "reason": reason(message)} for message in conflicts(level, later, earlier)
        ]
    return found


def _counts(broken: str, level: str) -> bool:
    return level.startswith(("FULL", broken))


def _named(schema: "RegisteredSchema") -> str:
    return f"{schema.subject} version {schema.version}" if schema.version else str(schema.subject)


def _lines(old: "RegisteredSchema", new: "RegisteredSchema") -> Iterator[str]:
    before, after = (pretty(each.schema_type, each.text).splitlines() for each in (old, new))
    return unified_diff(before, after, _named(old), _named(new), lineterm="")


def _print(lines: list[str], broken: list[dict[str, Any]], level: str) -> None:
    if not lines:
        echo("The two are the same.")
    for line in lines:
        bold = line.startswith(("+++", "---"))
        click.secho(shown(line), fg=None if bold else _COLOURS.get(line[:1]), bold=bold)
    for direction, good, bad in (
        ("BACKWARD", "new readers understand old data", "new readers do not understand old data"),
        ("FORWARD", "old readers understand new data", "old readers do not understand new data"),
    ):
        reasons = [each["reason"] for each in broken if each["level"] == direction]
        promised = "" if not _counts(direction, level) else f", which the level {level} promises"
        echo()
        if not reasons:
            click.echo(f"{click.style(direction.lower(), fg='green')}: {good}")
            continue
        colour = "red" if promised else "yellow"
        click.echo(f"{click.style(direction.lower(), fg=colour)}: {bad}{promised}")
        for each in reasons:
            echo(f"  {each}")
