"""Records with a schema: which schema a request means, and the way from its JSON to bytes and back.

The registry is asked over HTTP in a thread, once for each schema; what was made of it is kept.

Invariant: the event loop never waits for the registry, and never more schemas than a limit are kept. Failures
are ``Problem``s with Confluent's codes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from moldau.client.registry.schema_registry import RegisteredSchema, RegistryClient, RegistryError
from moldau.rest import problems
from moldau.rest.formats import SCHEMA_TYPES, Format
from moldau.rest.schema_checks import SchemaChecks
from moldau.schemas.json_schema.work import is_quick
from moldau.schemas.schema_id import Headers, SchemaRef, id_prefix
from moldau.serde.calls import unframed
from moldau.serde.errors import SerdeError
from moldau.serde.json_forms import Decode, Encode, decoder, encoder
from moldau.serde.options import STRATEGIES
from moldau.serde.registered import referenced, writer_schema
from moldau.web.json_text import MAX_DEPTH
from moldau.web.problems import Problem

_T = TypeVar("_T")

_MAX_KEPT = 1_000
#: A registry's refusal of the schema itself.
_INVALID = frozenset({422, 42201})
_STRATEGIES = {"TOPIC_NAME": "topic", "RECORD_NAME": "record", "TOPIC_RECORD_NAME": "topic-record"}


@dataclass(frozen=True, slots=True)
class WantedSchema:
    """What a request says about the schema of its keys or values; a text, or which registered one."""

    form: Format | None = None
    text: str | None = None
    schema_id: int | None = None
    version: int | None = None
    subject: str | None = None
    #: TOPIC_NAME, RECORD_NAME or TOPIC_RECORD_NAME.
    strategy: str = "TOPIC_NAME"


@dataclass(frozen=True, slots=True)
class Writer:
    """How values are written with one registered schema."""

    form: Format
    schema: RegisteredSchema
    _encode: Encode
    #: Where that may take long: checks values before they are written.
    _check: Callable[[list[Any]], Awaitable[None]] | None = None

    @property
    def schema_id(self) -> int:
        return self.schema.schema_id

    async def check(self, values: Iterable[Any]) -> None:
        """To be asked before values are written: a ``Problem`` where one does not fit, or may not."""
        if self._check is not None:
            await self._check([each for each in values if each is not None])

    def write(self, value: Any) -> bytes | None:
        """No value is no bytes; a value that does not fit is a ``Problem``."""
        if value is None:
            return None
        try:
            return id_prefix(self.schema_id) + self._encode(value)
        except (SerdeError, OverflowError, ValueError, TypeError, RecursionError) as error:
            raise problems.conversion_failed(error) from None


class NotPrepared(Exception):
    """Data has a schema that has to be asked for first."""

    def __init__(self, form: Format, ref: SchemaRef) -> None:
        super().__init__(form, ref)
        self.form = form
        self.ref = ref


class SchemaFormats:
    """``registry`` is None where the proxy has none: then only binary and JSON records are taken."""

    def __init__(self, registry: RegistryClient | None) -> None:
        self._registry = registry
        self._checks = SchemaChecks()
        self._writers: dict[Hashable, Writer] = {}
        self._decoders: dict[tuple[SchemaRef, str], Decode] = {}

    def close(self) -> None:
        self._checks.close()
        if self._registry is not None:
            self._registry.close()

    async def writer(self, topic: str, is_key: bool, wanted: WantedSchema) -> Writer:
        """A schema in a request is registered under its subject, if it is not yet."""
        key = (topic, is_key, wanted)
        # The latest version may be another one tomorrow, and is asked for each time.
        keep = wanted.text is not None or wanted.schema_id is not None or wanted.version is not None
        found = self._writers.get(key)
        if found is None:
            found = await self._ask(lambda: self._make_writer(self._client(), topic, is_key, wanted))
            if keep:
                _keep(self._writers, key, found)
        return found

    def read(self, form: Format, data: bytes | None, is_key: bool, headers: Headers) -> Any:
        """The JSON value of a key or a value; ``NotPrepared`` where its schema is not known here yet."""
        if data is None:
            return None
        try:
            ref, frame, at = unframed(data, is_key, headers)
            decode = self._decoders.get((ref, SCHEMA_TYPES[form]))
            if decode is None:
                raise NotPrepared(form, ref)
            return decode(data if frame is data else frame + data, at)
        except SerdeError as error:
            raise problems.serialization_failed(f"Error deserializing: {error}") from None

    async def prepare(self, missing: "NotPrepared") -> None:
        """Asks for the schema that ``read`` missed."""
        form, ref = missing.form, missing.ref
        found = await self._ask(lambda: self._make_decoder(self._client(), ref, form))
        _keep(self._decoders, (ref, SCHEMA_TYPES[form]), found)

    def _client(self) -> RegistryClient:
        if self._registry is None:
            raise problems.serialization_failed(
                "This proxy has no schema registry: start it with --registry-url to use formats with a schema"
            )
        return self._registry

    async def _ask(self, question: Callable[[], _T]) -> _T:
        try:
            return await asyncio.to_thread(question)
        except RegistryError as error:
            raise _refused(error) from None
        except ImportError as error:
            raise problems.serialization_failed(
                f"This proxy has no {error.name}: install it with pip install 'moldau[rest]'"
            ) from None
        except SerdeError as error:
            if isinstance(error.__cause__, RegistryError):
                raise _refused(error.__cause__) from None
            raise problems.invalid_schema(error) from None

    def _make_writer(self, client: RegistryClient, topic: str, is_key: bool, wanted: WantedSchema) -> Writer:
        found = _registered(client, topic, is_key, wanted)
        forms = {name: form for form, name in SCHEMA_TYPES.items()}
        if wanted.form is not None and found.schema_type != SCHEMA_TYPES[wanted.form]:
            raise problems.invalid_schema(
                f"schema {found.schema_id} is {found.schema_type}, not {SCHEMA_TYPES[wanted.form]}"
            )
        form, encode = forms[found.schema_type], encoder(client, found)
        if form is Format.JSONSCHEMA:
            from moldau.serde.json_schema import encode_json

            references = referenced(client, found.references)
            if references or not is_quick(found.text, MAX_DEPTH):
                return Writer(form, found, encode_json, partial(self._checks.check, found.text, references))
        return Writer(form, found, encode)

    def _make_decoder(self, client: RegistryClient, ref: SchemaRef, form: Format) -> Decode:
        schema = writer_schema(client, ref, SCHEMA_TYPES[form])
        return decoder(client, schema, ref)


def _registered(client: RegistryClient, topic: str, is_key: bool, wanted: WantedSchema) -> RegisteredSchema:
    if wanted.text is not None:
        assert wanted.form is not None
        schema_type = SCHEMA_TYPES[wanted.form]
        name = None
        if wanted.subject is None and wanted.strategy != "TOPIC_NAME":
            name = _record_name(wanted.text, schema_type)
        subject = _subject(topic, is_key, wanted, name)
        client.register(subject, wanted.text, schema_type)
        return client.lookup(subject, wanted.text, schema_type)
    subject = _subject(topic, is_key, wanted, None) if wanted.strategy == "TOPIC_NAME" else ""
    if wanted.schema_id is not None:
        found = client.by_id(wanted.schema_id, wanted.subject)
        return RegisteredSchema(
            found.schema_id,
            found.schema_type,
            found.text,
            found.references,
            wanted.subject or subject or None,
        )
    if not subject and wanted.subject is None:
        raise problems.bad_request(
            f"subject_name_strategy={wanted.strategy} needs a schema or a schema_id: "
            "the name of the record is not known without"
        )
    version: int | str = "latest" if wanted.version is None else wanted.version
    return client.version(wanted.subject or subject, version)


def _subject(topic: str, is_key: bool, wanted: WantedSchema, record: str | None) -> str:
    if wanted.subject is not None:
        return wanted.subject
    return STRATEGIES[_STRATEGIES[wanted.strategy]](topic, is_key, record)


def _record_name(text: str, schema_type: str) -> str | None:
    """The name of the record that a schema describes."""
    if schema_type == "AVRO":
        from moldau.serde.avro import parse_avro

        return parse_avro(text, []).root.name
    if schema_type == "JSON":
        from moldau.serde.json_schema import schema_name

        return schema_name(text)
    raise problems.bad_request("the record name of a Protobuf schema is not known here: give the subject")


def _refused(error: RegistryError) -> Problem:
    if error.code in _INVALID:
        return problems.invalid_schema(error.message)
    return problems.serialization_failed(f"Schema registration or lookup failed: {error.message}")


def _keep(kept: dict[Any, Any], key: Hashable, value: Any) -> None:
    if len(kept) >= _MAX_KEPT:
        del kept[next(iter(kept))]
    kept[key] = value
