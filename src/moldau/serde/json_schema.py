"""JSON serializers and deserializers with the wire format of Confluent's, checked against JSON Schema.

Invariant: a schema is registered, fetched and compiled once. No schema makes this read from the network:
what it refers to is among its references in the registry, or it cannot be used. Formats are remarks, not
checks.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urljoin

import jsonschema_rs

from moldau.client.registry.schema_registry import Reference, RegisteredSchema, RegistryClient
from moldau.schemas.json_schema.documents import draft_of
from moldau.schemas.limits import InvalidSchema
from moldau.schemas.schema_id import SchemaRef
from moldau.serde.calls import MAX_KEPT, Deserializer, Serializer, Write, checked, framed, unframed
from moldau.serde.errors import SerdeError, path_text, shown
from moldau.serde.json_models import from_json, json_schema_of, to_json
from moldau.serde.models import is_model
from moldau.serde.options import ReaderOptions, WriterOptions
from moldau.serde.registered import (
    context_subject,
    latest,
    prefix_of,
    referenced,
    registered,
    writer_schema,
)

JSON = "JSON"
#: Where references are looked for that have no full address.
_BASE = "json-schema:///"
_VALIDATORS: dict[int, Any] = {
    4: jsonschema_rs.Draft4Validator,
    6: jsonschema_rs.Draft6Validator,
    7: jsonschema_rs.Draft7Validator,
    2019: jsonschema_rs.Draft201909Validator,
    2020: jsonschema_rs.Draft202012Validator,
}
Check = Callable[[Any], None]
_encoded = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def compile_check(text: str, references: dict[str, str]) -> Check:
    """A function that raises ``SerdeError`` with the path of what does not fit."""
    try:
        schema = json.loads(text)
        known = {name: json.loads(each) for name, each in references.items()}
        validator = _validator(schema, known)
    except (ValueError, RecursionError, InvalidSchema) as error:
        said = str(error).partition("\n")[0]
        raise SerdeError(f"The JSON Schema cannot be used: {said}.") from error

    def check(value: Any) -> None:
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            raise SerdeError(f"{error.message}.", path_text(list(error.instance_path))) from error
        except ValueError as error:
            raise SerdeError(f"The value is nothing that JSON has: {error}.") from error

    return check


def _validator(schema: Any, references: dict[str, Any]) -> Any:
    chosen = _VALIDATORS[draft_of(schema)]
    own = str(schema.get("$id") or schema.get("id") or "") if isinstance(schema, dict) else ""
    resources: dict[str, Any] = {}
    for name, each in references.items():
        resources[urljoin(_BASE, name)] = each
        if own:
            resources[urljoin(urljoin(_BASE, own), name)] = each
    registry = None
    if resources:
        draft = getattr(jsonschema_rs, chosen.__name__.removesuffix("Validator"))
        registry = jsonschema_rs.Registry(resources=list(resources.items()), draft=draft)
    return chosen(schema, registry=registry, validate_formats=False, offline=True)


def schema_name(text: str) -> str | None:
    """What record strategies call it."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise SerdeError(f"The JSON Schema cannot be used: {error}.") from error
    title = schema.get("title") if isinstance(schema, dict) else None
    return title if isinstance(title, str) else None


def encode_json(value: Any) -> bytes:
    try:
        return _encoded(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SerdeError(f"The value cannot be written as JSON: {error}.") from error


def decode_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SerdeError(f"The data is no JSON: {error}.") from error


class JsonSerializer(Serializer):
    """``schema`` is a JSON Schema, or a dataclass or pydantic model.

    Without one the latest version of the subject is used (``use_latest_version``), or the values are
    instances of dataclasses or pydantic models and bring their schemas. ``to_dict`` turns other objects into
    dicts.
    """

    def __init__(
        self,
        registry: RegistryClient | str,
        schema: str | type | None = None,
        *,
        references: Sequence[Reference] = (),
        to_dict: Callable[[Any], Any] | None = None,
        options: WriterOptions | None = None,
    ) -> None:
        super().__init__(registry, options)
        self._references = tuple(references)
        self._to_dict = to_dict
        self._schema = schema
        self._text = json_schema_of(schema) if isinstance(schema, type) else schema
        if self._text is not None:
            schema_name(self._text)

    def _prepared(self, topic: str, cls: type, is_key: bool) -> Write:
        found = self._schema_for(topic, cls, is_key)
        prefix, step = prefix_of(found, self._options), self._step(cls)
        in_header = self._options.schema_id_in == "header"
        check: Check | None = None
        if self._options.validate:
            check = compile_check(found.text, referenced(self._registry, found.references))

        def write(value: Any, headers: Any) -> bytes:
            if step is not None:
                value = step(value)
            if check is not None:
                check(value)
            return (framed(prefix, is_key, headers) if in_header else prefix) + encode_json(value)

        return write

    def _schema_for(self, topic: str, cls: type, is_key: bool) -> RegisteredSchema:
        text = self._text
        if text is None and is_model(cls):
            text = json_schema_of(cls)
        subject = self._strategy(topic, is_key, None if text is None else schema_name(text))
        if self._options.use_latest_version:
            return latest(self._registry, subject, JSON)
        if text is None:
            raise SerdeError(
                f"No schema is given for {shown(cls)}: pass one, or a dataclass, or set use_latest_version."
            )
        return registered(self._registry, subject, text, JSON, self._references, self._options)

    def _step(self, cls: type) -> Callable[[Any], Any] | None:
        if self._to_dict is not None:
            return self._to_dict
        model = self._schema if is_model(self._schema) else cls
        return to_json(model) if is_model(model) else None


class JsonDeserializer(Deserializer):
    """``reader`` is the schema to check with, or the class to make; without one it is the writer's schema."""

    def __init__(
        self,
        registry: RegistryClient | str,
        reader: str | type | None = None,
        *,
        references: Sequence[Reference] = (),
        from_dict: Callable[[Any], Any] | None = None,
        options: ReaderOptions | None = None,
    ) -> None:
        super().__init__(registry, options)
        self._step = from_dict
        self._check: Check | None = None
        if isinstance(reader, type):
            # The class itself is the check: it knows the fields that it can do without.
            self._step, self._check = from_json(reader), _nothing
        elif reader is not None:
            self._check = compile_check(reader, referenced(self._registry, references))
        self._ready: dict[tuple[SchemaRef, str, bool], Check] = {}

    def _read(self, topic: str, data: bytes, is_key: bool, headers: Any) -> Any:
        data = checked(data)
        ref, frame, position = unframed(data, is_key, headers)
        place = (ref, "" if self._any_topic else topic, is_key)
        check = self._ready.get(place)
        if check is None:
            if len(self._ready) >= MAX_KEPT:
                self._ready.clear()
            check = self._ready[place] = self._prepared(ref, topic, is_key)
        value = decode_json(data[position:] if frame is data else data)
        if self._options.validate:
            check(value)
        return value if self._step is None else self._step(value)

    def _prepared(self, ref: SchemaRef, topic: str, is_key: bool) -> Check:
        subject = context_subject(self._options.subject_name, topic, is_key)
        found = writer_schema(self._registry, ref, JSON, subject)
        if self._options.use_latest_version:
            found = latest(self._registry, self._strategy(topic, is_key, schema_name(found.text)), JSON)
        elif self._check is not None:
            return self._check
        return compile_check(found.text, referenced(self._registry, found.references))


def _nothing(value: Any) -> None:
    """Looks at nothing."""
