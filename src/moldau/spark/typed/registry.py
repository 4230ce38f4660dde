"""The schema registry as readers and writers use it: one client for each process, schemas with what they use.

Invariant: what the registry does not have is a ``SchemaError``, and belongs to the record or the option
that asked; a registry that does not answer is a ``RegistryError``, and fails the task or the query.
"""

import atexit
import os
from dataclasses import dataclass

from moldau.client.registry.schema_registry import (
    RegisteredSchema,
    RegistryClient,
    RegistryError,
    referenced_schemas,
)
from moldau.spark.typed.options import RegistryOptions
from moldau.spark.typed.shapes import SchemaError

_TIMEOUT_MS = 10_000
_NOT_FOUND = 404

_clients: dict[tuple[int, RegistryOptions], RegistryClient] = {}


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema and, by the names under which it uses them, those that it refers to, the deepest first."""

    text: str
    uses: tuple[tuple[str, str], ...] = ()

    @property
    def used_texts(self) -> list[str]:
        return [text for _, text in self.uses]


def client_of(options: RegistryOptions) -> RegistryClient:
    """The client of this process; one that was forked makes its own."""
    key = os.getpid(), options
    client = _clients.get(key)
    if client is None:
        client = _clients[key] = RegistryClient(
            options.url,
            user=options.user,
            password=options.password,
            ca_location=options.ca_location,
            timeout_ms=_TIMEOUT_MS,
        )
        atexit.register(client.close)
    return client


def with_uses(client: RegistryClient, schema: RegisteredSchema) -> SchemaText:
    """The schema with everything that it refers to."""
    found: dict[str, str] = {}
    for reference, used in referenced_schemas(
        schema.references, lambda each: client.version(each.subject, each.version, deleted=True)
    ):
        found.setdefault(reference.name, used.text)
    return SchemaText(schema.text, tuple(found.items()))


def written_schema(client: RegistryClient, schema_id: int, expected: str) -> SchemaText:
    """The schema that a value was written with; ``expected`` is the registry's name of the format."""
    try:
        schema = client.by_id(schema_id)
        if schema.schema_type != expected:
            raise SchemaError(f"schema id {schema_id} is {schema.schema_type}, and {expected} is to be read")
        return with_uses(client, schema)
    except RegistryError as error:
        if error.status == _NOT_FOUND:
            raise SchemaError(f"schema id {schema_id} is not in the registry: {error}") from None
        raise


def subject_schema(client: RegistryClient, subject: str, version: int | str) -> RegisteredSchema | None:
    """A version of a subject; None where there is no such subject or version."""
    try:
        return client.version(subject, version)
    except RegistryError as error:
        if error.status == _NOT_FOUND:
            return None
        raise
