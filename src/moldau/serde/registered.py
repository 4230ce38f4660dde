"""What serializers ask the registry: the subject, id and references of a schema.

Invariant: the registry is asked once for each subject and each id; its failures become ``SerdeError``.
Nothing here knows what a schema says.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from moldau.client.registry.schema_registry import (
    Reference,
    RegisteredSchema,
    RegistryClient,
    RegistryError,
    referenced_schemas,
)
from moldau.schemas.schema_id import SchemaRef, guid_prefix, id_prefix
from moldau.serde.errors import SerdeError
from moldau.serde.options import Strategy, WriterOptions

Found = TypeVar("Found")


def asked(what: str, question: Callable[[], Found]) -> Found:
    """Asks the registry; ``what`` begins the message of the ``SerdeError`` where that fails."""
    try:
        return question()
    except RegistryError as error:
        raise SerdeError(f"{what}: {error.message}") from error


def context_subject(chosen: Strategy, topic: str, is_key: bool) -> str | None:
    """A subject outside the default context, where ids mean something else; only a function names such."""
    if not callable(chosen) or not topic:
        return None
    subject = chosen(topic, is_key, None)
    return subject if subject.startswith(":.") else None


def writer_schema(
    registry: RegistryClient, ref: SchemaRef, schema_type: str, subject: str | None = None
) -> RegisteredSchema:
    """The schema that data names, of the type that its reader expects."""

    def question() -> RegisteredSchema:
        if ref.schema_id is not None:
            return registry.by_id(ref.schema_id, subject)
        assert ref.guid is not None
        return registry.by_guid(ref.guid)

    found = asked(f"The schema with the {ref} cannot be had", question)
    if found.schema_type != schema_type:
        raise SerdeError(
            f"The data was written with a schema of type {found.schema_type} ({ref}), not {schema_type}: "
            "read it with the deserializer of that type."
        )
    return found


def latest(registry: RegistryClient, subject: str, schema_type: str) -> RegisteredSchema:
    """The latest version of a subject, which has to be of this type."""
    what = f"The latest version of the subject {subject!r} cannot be had"
    found = asked(what, lambda: registry.version(subject))
    if found.schema_type != schema_type:
        raise SerdeError(f"The latest version of {subject!r} is {found.schema_type}, not {schema_type}.")
    return found


def registered(
    registry: RegistryClient,
    subject: str,
    text: str,
    schema_type: str,
    references: Sequence[Reference],
    options: WriterOptions,
) -> RegisteredSchema:
    """The schema under its subject: registered there, or looked up where that is not wanted."""

    def look_up() -> RegisteredSchema:
        return registry.lookup(subject, text, schema_type, references, normalize=options.normalize)

    if not options.auto_register:
        return asked(f"The schema is not registered under the subject {subject!r}", look_up)

    def register() -> RegisteredSchema:
        made = registry.register(subject, text, schema_type, references, normalize=options.normalize)
        if options.schema_id_in == "header":
            return look_up()  # only this answer has the guid
        return RegisteredSchema(made, schema_type, text, tuple(references), subject)

    return asked(f"The schema cannot be registered under the subject {subject!r}", register)


def prefix_of(schema: RegisteredSchema, options: WriterOptions) -> bytes:
    """The bytes that name a schema, before the payload or in a header."""
    if options.schema_id_in == "prefix":
        return id_prefix(schema.schema_id)
    if schema.guid is None:
        raise SerdeError(
            "This registry does not tell the guid of a schema, which a header needs: "
            "use schema_id_in='prefix'."
        )
    return guid_prefix(schema.guid)


def referenced(
    registry: RegistryClient, references: Sequence[Reference], read: Callable[[Reference], Any] | None = None
) -> dict[str, Any]:
    """The texts that a schema refers to, by the names under which it does: what others need comes first.

    ``read`` gives another form of a reference than its text.
    """

    def failure(each: Reference) -> str:
        return f"The schema {each.name!r} that is referred to cannot be had"

    def version_of(each: Reference) -> RegisteredSchema:
        return asked(failure(each), lambda: registry.version(each.subject, each.version, deleted=True))

    return {
        each.name: found.text if read is None else asked(failure(each), partial(read, each))
        for each, found in referenced_schemas(references, version_of)
    }
