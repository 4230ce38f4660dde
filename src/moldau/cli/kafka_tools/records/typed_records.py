"""Converts lines of the console tools to records with a schema (Avro, JSON Schema, Protobuf), and back.

Properties are those of Confluent's tools: ``value.schema`` or ``value.schema.file`` is registered under the
topic's subject (``auto.register=false`` looks it up), ``value.schema.id`` is the id of a registered one, and
``use.latest.version=true`` takes the subject's latest; the same with ``key``. ``schema.registry.url`` and
``basic.auth.user.info`` are address and login; the prefix ``schema.registry.`` of a name is ignored.

Every error is a ``ToolError`` with Java's name for it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.client.registry.schema_registry import Reference, RegisteredSchema, RegistryClient, RegistryError
from moldau.schemas.schema_id import Headers, SchemaRef, id_prefix
from moldau.serde.calls import unframed
from moldau.serde.errors import SerdeError
from moldau.serde.json_forms import Decode, decoder, encoder
from moldau.serde.registered import writer_schema

_CONFIG = "org.apache.kafka.common.config.ConfigException"
_SERIALIZATION = "org.apache.kafka.common.errors.SerializationException"
_NAMES = {"AVRO": "Avro", "JSON": "JSON", "PROTOBUF": "Protobuf"}


@dataclass(frozen=True, slots=True)
class Settings:
    """The properties of a tool."""

    properties: Mapping[str, str]

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "Settings":
        prefix = "schema.registry."
        short = {
            name.removeprefix(prefix): text
            for name, text in properties.items()
            if name.startswith(prefix) and name != "schema.registry.url"
        }
        return cls({**short, **properties})

    def flag(self, *names: str, default: bool) -> bool:
        found = next((self.properties[name] for name in names if name in self.properties), None)
        return default if found is None else found.strip().lower() == "true"

    def client(self) -> RegistryClient:
        url = self.properties.get("schema.registry.url", "http://localhost:8081")
        user, _, password = self.properties.get("basic.auth.user.info", "").partition(":")
        try:
            return RegistryClient(
                url,
                user=user or None,
                password=password or None,
                ca_location=self.properties.get("ssl.ca.location"),
            )
        except RegistryError as error:
            raise ToolError(_CONFIG, error.message) from error

    def text(self, part: str) -> str | None:
        """The schema of keys or values, from the property or from the file that it names."""
        path = self.properties.get(f"{part}.schema.file")
        if path is None:
            return self.properties.get(f"{part}.schema")
        try:
            return Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ToolError(_CONFIG, f"{part}.schema.file {path} cannot be read: {error}") from error

    def references(self, part: str) -> list[Reference]:
        text = self.properties.get(f"{part}.refs", "[]")
        try:
            return [Reference(each["name"], each["subject"], each["version"]) for each in json.loads(text)]
        except (ValueError, KeyError, TypeError) as error:
            form = '[{"name": …, "subject": …, "version": …}]'
            raise ToolError(_CONFIG, f"{part}.refs has not the form {form}: {error}") from error


def chosen_schema(
    client: RegistryClient, settings: Settings, schema_type: str, topic: str, part: str
) -> RegisteredSchema:
    """The registered schema that records are written with."""
    subject = f"{topic}-{part}"
    number = settings.properties.get(f"{part}.schema.id")
    try:
        if number is not None:
            if not number.strip().isdecimal():
                raise ToolError(_CONFIG, f"{part}.schema.id is a number, not {number!r}")
            found = client.by_id(int(number))
        elif settings.flag("use.latest.version", default=False):
            found = client.version(subject)
        else:
            found = _registered(client, settings, schema_type, subject, part)
    except RegistryError as error:
        raise ToolError(_SERIALIZATION, f"The schema of {subject} cannot be had: {error.message}") from error
    if found.schema_type != schema_type:
        message = f"The schema of {subject} is {found.schema_type}, not {schema_type}: use that tool"
        raise ToolError(_CONFIG, message)
    return found


def _registered(
    client: RegistryClient, settings: Settings, schema_type: str, subject: str, part: str
) -> RegisteredSchema:
    text = settings.text(part)
    if text is None:
        names = f"{part}.schema, {part}.schema.file, {part}.schema.id"
        raise ToolError(_CONFIG, f"Must provide one of {names} (or use.latest.version=true) as a property")
    references = settings.references(part)
    normalize = settings.flag("normalize.schemas", default=False)
    if not settings.flag("auto.register", "auto.register.schemas", default=True):
        return client.lookup(subject, text, schema_type, references, normalize=normalize)
    schema_id = client.register(subject, text, schema_type, references, normalize=normalize)
    return RegisteredSchema(schema_id, schema_type, text, tuple(references), subject)


class TypedWriter:
    """Serializes lines of JSON to keys or values."""

    def __init__(self, settings: Settings, schema_type: str, topic: str, part: str) -> None:
        client = settings.client()
        self._name = _NAMES[schema_type]
        schema = chosen_schema(client, settings, schema_type, topic, part)
        full_name = settings.properties.get(f"{part}.schema.full.name")
        try:
            self._encode = encoder(client, schema, full_name)
        except SerdeError as error:
            raise ToolError(_SERIALIZATION, str(error)) from error
        self._prefix = id_prefix(schema.schema_id)

    def write(self, line: bytes) -> bytes:
        text = line.decode("utf-8", "surrogateescape")
        try:
            return self._prefix + self._encode(json.loads(text))
        except (ValueError, SerdeError, OverflowError) as error:
            message = f"Error deserializing json {text} to {self._name}: {error}"
            raise ToolError(_SERIALIZATION, message) from error


class TypedReader:
    """Deserializes keys or values to lines of JSON, by the schema id in each."""

    def __init__(self, settings: Settings, schema_type: str, part: str) -> None:
        self._client = settings.client()
        self._schema_type = schema_type
        self._is_key = part == "key"
        self._decoders: dict[SchemaRef, Decode] = {}

    def read(self, data: bytes, headers: Headers) -> tuple[bytes, SchemaRef]:
        """The line, and the schema."""
        try:
            ref, frame, at = unframed(data, self._is_key, headers)
            decode = self._decoders.get(ref)
            if decode is None:
                schema = writer_schema(self._client, ref, self._schema_type)
                decode = self._decoders[ref] = decoder(self._client, schema, ref)
            # With an id in a header the data has no prefix; Protobuf's message indexes always follow the id.
            value = decode(data if frame is data else frame + data, at)
        except SerdeError as error:
            raise ToolError(_SERIALIZATION, str(error)) from error
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"), ref
