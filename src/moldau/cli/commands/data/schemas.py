"""``moldau schemas``: list, show, register, check, compare and delete the schemas of a registry.

Invariant: only Confluent's API is used, so that any registry works. For scripts, ``check`` and ``diff`` end
with exit code 1 where a change breaks compatibility. ``delete`` asks first.
"""

from itertools import groupby
from pathlib import Path
from typing import Any

import click

from moldau.cli.commands.data.schemas_diff import diff
from moldau.cli.commands.data.schemas_generate import generate
from moldau.cli.commands.data.schemas_transfer import export, import_
from moldau.cli.output import echo, note, print_json, print_table, shown
from moldau.cli.schema_registry import (
    connected,
    file_schema,
    is_a_reason,
    pretty,
    reason,
    references_of,
    registry_options,
)
from moldau.cli.session import FILE, json_option

type_option = click.option(
    "--type",
    "schema_type",
    type=click.Choice(["avro", "json", "protobuf"]),
    help="By the file's ending (.avsc, .json, .proto) unless given.",
)
reference_option = click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="NAME=SUBJECT:VERSION",
    help="A schema that this one refers to; repeatable.",
)


@click.group()
def schemas() -> None:
    """List, show, register, check, compare, delete and move the schemas of a registry.

    \b
    Examples:
      moldau schemas list
      moldau schemas show orders-value
      moldau schemas check orders-value order.avsc
      moldau schemas diff orders-value --file order.avsc
      moldau schemas generate orders-value > order.py
    """


for command in (diff, generate, export, import_):
    schemas.add_command(command)


@schemas.command("list")
@click.argument("prefix", default="")
@click.option("--deleted", is_flag=True, help="Also what was deleted, but not for good.")
@click.option("--names", is_flag=True, help="Print the subjects alone, one in a line.")
@json_option
@registry_options
def list_(prefix: str, deleted: bool, names: bool, as_json: bool) -> None:
    """Show all subjects, or those that begin with PREFIX (":*:" for every context).

    \b
    Examples:
      moldau schemas list
      moldau schemas list orders- --deleted
      moldau schemas list --names | xargs -n1 moldau schemas show
    """
    with connected() as client:
        found = sorted(client.subjects(prefix, deleted=deleted))
        rows = [] if names else _rows(client, prefix, deleted)
    if as_json:
        print_json(found if names else rows)
    elif names:
        for name in found:
            echo(name)
    elif not rows:
        note("There are no subjects. 'moldau schemas register SUBJECT FILE' makes one.")
    else:
        columns = ["Subject", "Type", "Versions>", "Latest>", "Id>", "References>"]
        keys = ("subject", "type", "versions", "latest", "id", "references")
        print_table(columns, [[row[key] for key in keys] for row in rows])


def _rows(client: Any, prefix: str, deleted: bool) -> list[dict[str, Any]]:
    """One row for each subject, from a single request to the registry."""
    from urllib.parse import quote

    query = f"?subjectPrefix={quote(prefix, safe='')}{'&deleted=true' if deleted else ''}"
    answered = client.call("GET", f"/schemas{query}")
    answered.sort(key=lambda each: (each["subject"], each["version"]))
    rows = []
    for subject, group in groupby(answered, key=lambda each: each["subject"]):
        versions = list(group)
        last = versions[-1]
        rows.append(
            {
                "subject": subject,
                "type": last.get("schemaType") or "AVRO",
                "versions": len(versions),
                "latest": last["version"],
                "id": last["id"],
                "references": len(last.get("references") or ()),
            }
        )
    return rows


@schemas.command("show")
@click.argument("subject", required=False)
@click.option("--version", default="latest", show_default=True, help="A number, or latest.")
@click.option("--id", "schema_id", type=int, help="By its id, instead of a subject.")
@click.option("--deleted", is_flag=True, help="Also if it was deleted, but not for good.")
@click.option("--text", is_flag=True, help="Print the schema alone, as the registry holds it.")
@json_option
@registry_options
def show(
    subject: str | None, version: str, schema_id: int | None, deleted: bool, text: bool, as_json: bool
) -> None:
    """Show a schema, the versions of its subject and what applies to it.

    \b
    Examples:
      moldau schemas show orders-value
      moldau schemas show orders-value --version 2 --text > order.avsc
      moldau schemas show --id 42
    """
    if (subject is None) == (schema_id is None):
        raise click.UsageError("give a SUBJECT or an --id")
    with connected() as client:
        found: dict[str, Any]
        if schema_id is not None:
            schema = client.by_id(schema_id)
            used = client.call("GET", f"/schemas/ids/{schema_id}/versions")
            found = {"id": schema_id, "subjects": used}
        else:
            assert subject is not None
            schema = client.version(subject, version, deleted=deleted)
            found = {
                "subject": subject,
                "version": schema.version,
                "id": schema.schema_id,
                "versions": client.versions(subject, deleted=deleted),
                "compatibility": client.config(subject).get("compatibilityLevel"),
                "mode": client.mode(subject),
            }
    found["type"] = schema.schema_type
    found["references"] = [
        {"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references
    ]
    if text:
        echo(schema.text)
    elif as_json:
        print_json({**found, "schema": schema.text})
    else:
        _print_schema(found, pretty(schema.schema_type, schema.text))


def _print_schema(found: dict[str, Any], text: str) -> None:
    parts = {key: value for key, value in found.items() if value not in (None, [])}
    for key in ("subjects", "references"):
        if key in parts:
            named = (f"{each.get('name', '')} {each['subject']}:{each['version']}" for each in parts[key])
            parts[key] = ", ".join(each.strip() for each in named)
    if "versions" in parts:
        parts["versions"] = ", ".join(map(str, parts["versions"]))
    width = max(map(len, parts))
    for key, value in parts.items():
        click.echo(f"{click.style(key.ljust(width), dim=True)}  {shown(str(value))}")
    echo(f"\n{text}")


@schemas.command("register")
@click.argument("subject")
@click.argument("file", type=FILE)
@type_option
@reference_option
@click.option("--normalize", is_flag=True, help="Let the registry bring it into its normal form.")
@json_option
@registry_options
def register(
    subject: str,
    file: Path,
    schema_type: str | None,
    references: tuple[str, ...],
    normalize: bool,
    as_json: bool,
) -> None:
    """Register the schema in FILE as the next version of SUBJECT, unless it is there already.

    \b
    Examples:
      moldau schemas register orders-value order.avsc
      moldau schemas register users-value user.proto --reference address.proto=address:1
    """
    text, kind = file_schema(file, schema_type)
    with connected() as client:
        named = references_of(references)
        schema_id = client.register(subject, text, kind, named, normalize=normalize)
        version = client.lookup(subject, text, kind, named, normalize=normalize).version
    if as_json:
        print_json({"subject": subject, "version": version, "id": schema_id})
    else:
        echo(f"{subject} version {version} has the id {schema_id}")


@schemas.command("check")
@click.argument("subject")
@click.argument("file", type=FILE)
@type_option
@reference_option
@click.option("--version", default="all", show_default=True, help="A number, latest, or all that count.")
@json_option
@registry_options
def check(
    subject: str,
    file: Path,
    schema_type: str | None,
    references: tuple[str, ...],
    version: str,
    as_json: bool,
) -> None:
    """Ask the registry whether the schema in FILE may follow; nothing is registered.

    Exit code 1 when it may not.

    \b
    Examples:
      moldau schemas check orders-value order.avsc
      moldau schemas check orders-value order.avsc --version latest --json
    """
    text, kind = file_schema(file, schema_type)
    with connected() as client:
        level = client.config(subject).get("compatibilityLevel")
        messages = client.incompatibilities(subject, text, kind, references_of(references), version)
    if as_json:
        print_json({"subject": subject, "level": level, "compatible": not messages, "messages": messages})
    elif not messages:
        click.echo(f"{click.style('compatible', fg='green')}: {file} may follow in {subject} ({level})")
    else:
        click.echo(f"{click.style('incompatible', fg='red')}: {file} may not follow in {subject} ({level})")
        for each in [each for each in messages if is_a_reason(each)] or messages:
            echo(f"  {reason(each)}")
    if messages:
        raise SystemExit(1)


@schemas.command("delete")
@click.argument("subject")
@click.option("--version", help="Only this version: a number, or latest.")
@click.option("--permanent", is_flag=True, help="For good; what was deleted before only.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@registry_options
def delete(subject: str, version: str | None, permanent: bool, yes: bool, as_json: bool) -> None:
    """Delete a subject or one version of it. The schemas keep their ids, until --permanent takes them too.

    \b
    Examples:
      moldau schemas delete orders-value
      moldau schemas delete orders-value --version 2 --yes
      moldau schemas delete orders-value --permanent --yes
    """
    what = f"version {version} of {subject}" if version else f"subject {subject}"
    if not yes:
        click.confirm(f"Delete {what}{' for good' if permanent else ''}?", abort=True)
    with connected() as client:
        if version:
            gone = [client.delete_version(subject, version, permanent=permanent)]
        else:
            gone = client.delete_subject(subject, permanent=permanent)
    if as_json:
        print_json({"subject": subject, "deleted": gone, "permanent": permanent})
    else:
        numbers = ", ".join(map(str, gone))
        echo(f"deleted {what} (version{'' if len(gone) == 1 else 's'} {numbers})")
