"""Schemas on their way from one registry to another, with the ids and versions that they have.

Invariant: a row has all that is needed to register its schema again as it is; rows are in an order in which a
registry takes them.
"""

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

if TYPE_CHECKING:
    from moldau.client.registry.schema_registry import RegistryClient

#: A version of a subject, and what is set for one, as a JSON object.
Row: TypeAlias = dict[str, Any]
_SCHEMA_FIELDS = ("schemaType", "schema", "references", "metadata", "ruleSet")


def schema_row(client: "RegistryClient", subject: str, version: int, *, deleted: bool) -> Row:
    """One version as the registry has it."""
    answer = client.call("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true")
    row = {"kind": "schema", "subject": subject, "version": version, "id": answer["id"]}
    row |= {name: answer[name] for name in _SCHEMA_FIELDS if answer.get(name) is not None}
    if deleted:
        row["deleted"] = True
    return row


def register_row(client: "RegistryClient", row: Row) -> None:
    """Registers a version under its id; the subject has to be in the mode IMPORT."""
    body = {name: row[name] for name in ("id", "version", *_SCHEMA_FIELDS) if row.get(name) is not None}
    client.call("POST", f"/subjects/{quote(row['subject'], safe='')}/versions", body)


def context_of(subject: str) -> str:
    """The context of a subject (``:.ctx:``), "" for the default context."""
    end = subject.find(":", 1)
    return subject[: end + 1] if subject.startswith(":.") and end > 0 else ""


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Sorts schemas after those that they refer to; otherwise by id, subject and version."""
    by_name = {(row["subject"], row["version"]): row for row in rows}
    ordered = sorted(by_name, key=lambda name: (by_name[name]["id"], *name))
    needs: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for name in ordered:
        context = context_of(name[0])
        referred = [(each["subject"], each["version"]) for each in by_name[name].get("references") or ()]
        wanted = [*referred, *((context + subject, version) for subject, version in referred)]
        needs[name] = [each for each in wanted if each in by_name]
    try:
        return [by_name[name] for name in TopologicalSorter(needs).static_order()]
    except CycleError:
        return [by_name[name] for name in ordered]
