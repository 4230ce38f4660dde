"""``moldau schemas export`` and ``import``: a whole registry as one file of JSON lines.

Invariant: ids, versions, references, deleted versions, configs and modes stay the same. An import writes only
while the registry is in the mode IMPORT, in which it accepts given ids; an import that fails leaves it in
that mode, and says so.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from moldau.cli.output import note
from moldau.cli.schema_registry import connected, registry_options
from moldau.client.registry.transfer import Row, context_of, in_order, register_row, schema_row

if TYPE_CHECKING:
    from moldau.client.registry.schema_registry import RegistryClient

_FORMAT = "moldau-schemas-1"
_EVERYWHERE = ":*:"
#: Error codes for a subject without a config or mode of its own.
_NOT_SET = (404, 40401, 40408, 40409)


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--prefix", default=_EVERYWHERE, show_default=True, help="Only subjects that begin with this.")
@registry_options
def export(file: Path, prefix: str) -> None:
    """Write every schema, config and mode of a registry to FILE (- for standard output).

    \b
    Examples:
      moldau schemas export schemas.jsonl -r https://old-registry:8081 --user ann:secret
      moldau schemas export - | wc -l
    """
    with connected() as client:
        rows = list(exported(client, prefix))
    lines = text_of(rows)
    if str(file) == "-":
        click.echo(lines, nl=False)
    else:
        _write(file, lines)
    schemas = [row for row in rows if row["kind"] == "schema"]
    deleted = sum(bool(row.get("deleted")) for row in schemas)
    subjects = len({row["subject"] for row in schemas})
    note(f"{len(schemas)} versions of {subjects} subjects, {deleted} of them deleted")


def text_of(rows: Iterable[Row]) -> str:
    """The lines of a file, as ``read`` takes them."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ({"format": _FORMAT}, *rows))


def _write(file: Path, text: str) -> None:
    """Replaces the file whole or not at all."""
    part = file.with_name(f"{file.name}.part")
    try:
        part.write_text(text, "utf-8")
        part.replace(file)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from error


def exported(client: "RegistryClient", prefix: str = _EVERYWHERE) -> Iterator[Row]:
    """Configs and modes, then all versions in an order in which they can be registered."""
    subjects = client.subjects(prefix, deleted=True)
    alive = set(client.subjects(prefix))
    contexts = sorted({found for each in subjects if (found := context_of(each))})
    for name in (None, *contexts, *subjects):
        yield from _settings(client, name)
    rows = []
    for subject in subjects:
        present = set(client.versions(subject)) if subject in alive else set()
        rows += [
            schema_row(client, subject, version, deleted=version not in present)
            for version in client.versions(subject, deleted=True)
        ]
    yield from in_order(rows)


def _settings(client: "RegistryClient", name: str | None) -> Iterator[Row]:
    from moldau.client.registry.schema_registry import RegistryError

    for kind in ("config", "mode"):
        try:
            answer = client.call("GET", _path(kind, name))
        except RegistryError as error:
            if error.code not in _NOT_SET:
                raise
            continue
        yield {"kind": kind, "subject": name, **answer}


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--force", is_flag=True, help="Even if the registry holds schemas already.")
@registry_options
def import_(file: Path, force: bool) -> None:
    """Fill a registry with what export wrote; ids stay what they are.

    \b
    Examples:
      moldau schemas import schemas.jsonl
      moldau schemas export - -r http://karapace:8081 | moldau schemas import - -r http://127.0.0.1:8081
    """
    text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    rows = read(text.splitlines())
    with connected() as client:
        import_rows(client, rows, force)
    note(f"{sum(row['kind'] == 'schema' for row in rows)} versions are in the registry")


def read(lines: Iterable[str]) -> list[Row]:
    """The rows of a file; UsageError if ``export`` did not write it."""
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if number == 1:
            if not isinstance(row, dict) or row.get("format") != _FORMAT:
                raise click.UsageError("the file is not one that 'moldau schemas export' wrote")
        elif not isinstance(row, dict) or row.get("kind") not in ("schema", "config", "mode"):
            raise click.UsageError(f"line {number} of the file makes no sense: {line[:80]}")
        else:
            rows.append(row)
    if not rows:
        raise click.UsageError("the file is empty: 'moldau schemas export' writes one")
    return rows


def import_rows(client: "RegistryClient", rows: list[Row], force: bool) -> None:
    """Registers everything with the ids that it has."""
    from moldau.client.registry.schema_registry import RegistryError

    schemas = in_order(row for row in rows if row["kind"] == "schema")
    contexts = sorted({found for row in schemas if (found := context_of(row["subject"]))})
    scopes = [None, *contexts]
    try:
        for scope in scopes:
            client.set_mode("IMPORT", scope, force=force)
    except RegistryError as error:
        step = "import into an empty registry, or take its schemas over with --force"
        raise click.ClickException(f"{error.message.rstrip('.')}. Next: {step}") from error
    try:
        for row in schemas:
            register_row(client, row)
        for row in reversed(schemas):
            if row.get("deleted"):
                client.delete_version(row["subject"], row["version"])
        _set(client, rows, scopes)
    except RegistryError as error:
        step = "mend what it says and import again with --force"
        message = f"{error.message.rstrip('.')}. The registry is left in the mode IMPORT"
        raise click.ClickException(f"{message}. Next: {step}") from error


def _set(client: "RegistryClient", rows: list[Row], scopes: list[str | None]) -> None:
    """Sets configs and then modes, because a mode may close the registry to writes."""
    for row in rows:
        if row["kind"] == "config":
            names = {"compatibilityLevel": "compatibility"}
            given = {
                names.get(key, key): value for key, value in row.items() if key not in ("kind", "subject")
            }
            client.call("PUT", _path("config", row["subject"]), given)
    modes = {row["subject"]: row["mode"] for row in rows if row["kind"] == "mode"}
    for subject, mode in modes.items():
        if subject not in scopes:
            client.set_mode(mode, subject, force=True)
    for scope in reversed(scopes):
        if scope is None or scope in modes:
            client.set_mode(modes.get(scope, "READWRITE"), scope, force=True)
        else:
            client.call("DELETE", _path("mode", scope))


def _path(kind: str, subject: str | None) -> str:
    return f"/{kind}" if subject is None else f"/{kind}/{_quoted(subject)}"


def _quoted(name: str) -> str:
    return quote(name, safe="")
