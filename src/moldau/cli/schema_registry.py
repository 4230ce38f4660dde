"""What the ``moldau schemas`` commands share: the registry's address, its errors, schemas with references.

Invariant: only here an error of the registry becomes one line with a next step. Only Confluent's API is
used, so that any registry works.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from moldau.cli.session import add_options, store_in_context

if TYPE_CHECKING:
    from moldau.client.registry.schema_registry import Reference, RegisteredSchema, RegistryClient
    from moldau.registry.schemas import ParsedSchema

_F = TypeVar("_F", bound=Callable[..., Any])

#: Under these names click's context keeps the values of the options below.
_URL = "moldau.registry_url"
_USER = "moldau.registry_user"
_CA = "moldau.registry_ca"

#: What to do next, by the registry's error code.
_NEXT_STEPS = {
    40401: "'moldau schemas list' shows what there is, with --deleted also what was deleted",
    40402: "'moldau schemas show SUBJECT' shows the versions that there are",
    40403: "'moldau schemas list' shows the ids that there are",
    409: "'moldau schemas diff SUBJECT --file FILE' shows what it breaks",
    42201: "correct the schema; --type says what it is, --reference what it refers to",
    42205: "the registry, or the subject, is closed to writes: see its mode",
    42206: "delete what refers to it first",
    40404: "--permanent deletes for good what was deleted before",
    40405: "delete it without --permanent first",
}
_TYPES = {".avsc": "AVRO", ".avro": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
_ERROR_TYPE = re.compile(r"""errorType:\s*['"](\w+)['"],\s*description:\s*(['"])(.*?)\2[,}]""")


def _stored(name: str, *flags: str, **settings: Any) -> Callable[[_F], _F]:
    return click.option(*flags, expose_value=False, callback=store_in_context(name), **settings)


_ca_option = _stored(
    _CA,
    "--ca",
    type=click.Path(exists=True, dir_okay=False),
    help="Certificates (PEM) that an https registry is checked against.",
)
_user_option = _stored(
    _USER,
    "--user",
    envvar="MOLDAU_SCHEMA_REGISTRY_USER",
    metavar="NAME:PASSWORD",
    show_envvar=True,
    help="Who you are, where the registry asks.",
)
_optional_registry_option = _stored(
    _URL, "-r", "--registry", metavar="URL[,…]", help="A schema registry, whose schemas belong to it."
)
_registry_option = _stored(
    _URL,
    "-r",
    "--registry",
    envvar="MOLDAU_SCHEMA_REGISTRY_URL",
    default="http://127.0.0.1:8081",
    show_default=True,
    show_envvar=True,
    metavar="URL[,…]",
    help="The schema registry: ours, Confluent's, Karapace or another with that API.",
)

#: ``--registry``, ``--user`` and ``--ca``, which ``connected`` reads.
registry_options = add_options(_registry_option, _user_option, _ca_option)
#: The same, but without ``--registry`` there is none: ``registry_url`` says whether one was given.
optional_registry_options = add_options(_optional_registry_option, _user_option, _ca_option)


def registry_url() -> str | None:
    """The registry that the running command was given."""
    url: str | None = click.get_current_context().meta[_URL]
    return url


@contextmanager
def connected() -> "Iterator[RegistryClient]":
    """A client of the registry, whose errors become one line and exit code 1."""
    from moldau.client.registry.schema_registry import RegistryClient, RegistryError
    from moldau.schemas.limits import InvalidSchema

    url, ca = registry_url(), click.get_current_context().meta[_CA]
    assert url is not None, "without a registry there is nothing to ask"
    name, _, password = (click.get_current_context().meta[_USER] or "").partition(":")
    try:
        with RegistryClient(url, user=name or None, password=password or None, ca_location=ca) as client:
            yield client
    except RegistryError as error:
        raise click.ClickException(explain(error.code, error.message)) from error
    except InvalidSchema as error:
        raise click.ClickException(f"the schema makes no sense: {error}") from error


def explain(code: int, message: str) -> str:
    """An error of the registry and the next step, in one line; code 0 is an error of the connection."""
    if not code:
        return message
    text = f"{' '.join(message.split()).rstrip('.')} ({code})"
    step = _NEXT_STEPS.get(code)
    return f"{text}. Next: {step}" if step else text


def file_schema(path: Path, schema_type: str | None) -> tuple[str, str]:
    """The text of a file, and its schema type: as given, or by the suffix of the file."""
    found = schema_type.upper() if schema_type else _TYPES.get(path.suffix.lower())
    if found is None:
        raise click.UsageError(f"what is {path.name}? Say --type avro, json or protobuf")
    try:
        return path.read_text("utf-8"), found
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from error


def references_of(given: tuple[str, ...]) -> "list[Reference]":
    """Reads ``NAME=SUBJECT:VERSION`` arguments; a subject may contain colons itself."""
    from moldau.client.registry.schema_registry import Reference

    found = []
    for text in given:
        name, equals, rest = text.partition("=")
        subject, colon, version = rest.rpartition(":")
        if not (equals and name and colon and subject and version.isdecimal()):
            raise click.UsageError(f"--reference {text!r}: it has the form NAME=SUBJECT:VERSION")
        found.append(Reference(name, subject, int(version)))
    return found


def parsed(client: "RegistryClient", schema: "RegisteredSchema", depth: int = 0) -> "ParsedSchema":
    """A schema, parsed with everything that it refers to."""
    from moldau.registry.schemas import Reference, SchemaType, parse
    from moldau.schemas.limits import InvalidSchema

    if depth > 50:
        raise InvalidSchema("its references lead in a circle")
    pairs = []
    for each in schema.references:
        target = client.version(each.subject, each.version, deleted=True)
        pairs.append((Reference(each.name, each.subject, each.version), parsed(client, target, depth + 1)))
    return parse(SchemaType(schema.schema_type), schema.text, pairs)


def reason(message: str) -> str:
    """The reason in a message of a compatibility check, without the JSON-like text around it."""
    found = _ERROR_TYPE.search(message)
    return f"{found[1]}: {found[3]}" if found else message


def is_a_reason(message: str) -> bool:
    """False for the old schema, its version and the level, which Confluent adds to the list of reasons."""
    return not re.match(r"""\{(oldSchemaVersion|oldSchema|validateFields|compatibility):""", message)


def pretty(schema_type: str, text: str) -> str:
    """The schema for people: JSON is indented, Protobuf stays as it is."""
    import json

    if schema_type == "PROTOBUF":
        return text.rstrip()
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text
