"""Writing typed: which columns make the value, by which schema, and the schema's registration.

Invariant: decided once, on the driver, before any task begins: the schema is registered there, and one that
the registry refuses stops the query with the difference. Tasks only encode.
"""

import re
from dataclasses import dataclass

import pyarrow as pa

from moldau.client.registry.schema_registry import RegisteredSchema, RegistryClient, RegistryError
from moldau.schemas.schema_id import id_prefix
from moldau.spark.options import OptionError, WriteOptions
from moldau.spark.typed.formats import FORMATS, Encoder, Format, format_of
from moldau.spark.typed.options import LATEST_VERSION, SideOptions, TypedOptions
from moldau.spark.typed.registry import SchemaText, client_of, subject_schema, with_uses
from moldau.spark.typed.shapes import SchemaError

#: Columns that are a record's own; all others are fields of the value.
_RECORDS_OWN = ("key", "topic", "partition", "headers", "timestamp")
_SHOWN_DIFFERENCES = 3
_CONFLICT = 409


@dataclass(frozen=True, slots=True)
class SideWriting:
    """How keys or values are written; ``column`` is None where all that is left are fields of the value."""

    side: str
    format: str = "bytes"
    schema: SchemaText | None = None
    message: str | None = None
    header: bytes = b""
    column: str | None = None


@dataclass(frozen=True, slots=True)
class WritePlan:
    key: SideWriting | None
    value: SideWriting

    def encoding(self) -> "TypedRows":
        return TypedRows(self)


def plan_writing(options: TypedOptions, write: WriteOptions, schema: pa.Schema) -> WritePlan | None:
    """What the options mean for such rows; registers their schema. None where keys and values are bytes."""
    if options.plain:
        return None
    names = list(schema.names)
    if "topic" not in names and write.topic is None:
        raise OptionError("no topic to write to: set the option topic or give a column topic")
    fields = [name for name in names if name not in _RECORDS_OWN]
    if not fields:
        raise OptionError(f"no column is left for the value among {', '.join(names)}")
    alone = fields[0] if fields == ["value"] else None
    kind = schema.field(alone).type if alone else pa.struct([schema.field(name) for name in fields])
    key = None
    if "key" in names:
        key = _side(options.key, options, write, schema.field("key").type, "key")
    elif options.key.format not in (None, "bytes"):
        raise OptionError(f"key.format={options.key.format} needs a column key")
    return WritePlan(key, _side(options.value, options, write, kind, alone))


def _side(
    said: SideOptions, options: TypedOptions, write: WriteOptions, kind: pa.DataType, column: str | None
) -> SideWriting:
    plan = SideWriting(said.side, said.format or "bytes", None, said.message, b"", column)
    registry = options.registry
    if registry is not None and (said.format is None or FORMATS[said.format].has_schema):
        if said.format is not None or said.side == "value":
            plan = _registered(said, client_of(registry), write, kind, column)
    elif said.schema is not None:
        plan = SideWriting(said.side, plan.format, SchemaText(said.schema), said.message, b"", column)
    try:
        FORMATS[plan.format].encoder(plan.schema, plan.message, plan.header, kind)
    except SchemaError as error:
        raise OptionError(f"the {said.side} cannot be written as {plan.format}: {error}") from None
    return plan


def _registered(
    said: SideOptions, client: RegistryClient, write: WriteOptions, kind: pa.DataType, column: str | None
) -> SideWriting:
    """The schema with its id: a version that was named, or this one, registered."""
    if said.subject is None and write.topic is None:
        raise OptionError(f"topics come from a column: name the schema's subject with {said.side}.subject")
    subject = said.subject or f"{write.topic}-{said.side}"
    before = subject_schema(client, subject, said.version or LATEST_VERSION)
    if said.version is not None and before is None:
        raise OptionError(f"the registry has no version {said.version} of the subject {subject!r}")
    chosen = FORMATS[said.format] if said.format is not None else None
    if chosen is None and before is not None:
        chosen = format_of(before.schema_type)
    if chosen is None:
        raise OptionError(f"the subject {subject!r} has no schema yet: set {said.side}.format")
    if before is not None and said.version is not None:
        if before.schema_type != chosen.registry_type:
            raise OptionError(
                f"the subject {subject!r} holds {before.schema_type} schemas, not {chosen.name}"
            )
        text, schema_id = with_uses(client, before), before.schema_id
    else:
        try:
            made = said.schema or _schema_text(client, chosen, kind, _name(subject), before)
        except SchemaError as error:
            raise OptionError(f"the {said.side} cannot be written as {chosen.name}: {error}") from None
        assert chosen.registry_type is not None
        text, schema_id = SchemaText(made), _register(client, subject, made, chosen.registry_type)
    header = id_prefix(schema_id) + chosen.behind_id(text, said.message)
    return SideWriting(said.side, chosen.name, text, said.message, header, column)


def _schema_text(
    client: RegistryClient, chosen: Format, kind: pa.DataType, name: str, before: RegisteredSchema | None
) -> str:
    """The schema of a column as the registry keeps it; names are those of the version before."""
    alike = before is not None and before.schema_type == chosen.registry_type
    return chosen.schema_text(kind, name, with_uses(client, before) if before is not None and alike else None)


def _name(subject: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", subject)
    return name if re.match(r"[A-Za-z_]", name) else f"_{name}"


def _register(client: RegistryClient, subject: str, text: str, schema_type: str) -> int:
    differences = client.incompatibilities(subject, text, schema_type, version="all")
    if not differences:
        try:
            return client.register(subject, text, schema_type)
        except RegistryError as error:
            if error.status != _CONFLICT:
                raise
            differences = [error.message]
    # Beside what differs a registry answers with the old schema and its settings.
    differences = [each for each in differences if "errorType" in each] or differences
    shown = "; ".join(differences[:_SHOWN_DIFFERENCES])
    more = len(differences) - _SHOWN_DIFFERENCES
    raise OptionError(
        f"the registry refuses the schema of this DataFrame under the subject {subject!r}, as it does not "
        f"fit the versions before: {shown}{f' (and {more} more)' if more > 0 else ''}. Change the columns, "
        "or the compatibility level of the subject"
    )


class TypedRows:
    """Rows of a DataFrame to rows of bytes; a task makes its own."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan
        self._encoders: dict[str, Encoder] = {}

    def batch(self, given: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows with key and value encoded."""
        plan = self._plan
        columns = {name: given.column(index) for index, name in enumerate(given.schema.names)}
        out = {name: columns[name] for name in _RECORDS_OWN if name in columns}
        if plan.key is not None:
            out["key"] = self._encoded(plan.key, columns["key"])
        fields = [name for name in columns if name not in _RECORDS_OWN]
        if plan.value.column is not None:
            value = columns[plan.value.column]
        else:
            kept = [given.schema.field(name) for name in fields]
            value = pa.StructArray.from_arrays([columns[name] for name in fields], fields=kept)
        out["value"] = self._encoded(plan.value, value)
        return pa.RecordBatch.from_arrays(list(out.values()), names=list(out))

    def _encoded(self, side: SideWriting, column: pa.Array) -> pa.Array:
        try:
            encoder = self._encoders.get(side.side)
            if encoder is None:
                kind = FORMATS[side.format]
                encoder = kind.encoder(side.schema, side.message, side.header, column.type)
                self._encoders[side.side] = encoder
            return encoder.encode(column)
        except SchemaError as error:
            raise OptionError(f"the {side.side} cannot be written as {side.format}: {error}") from None
