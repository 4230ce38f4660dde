"""The tree of an Avro schema: one class for every type, one for the fields of records.

Pure. A name in a schema's text is the type itself here, so a record may contain itself: types are compared by
identity, and the fields of a record are filled in last.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.schemas.avro.logical import LogicalType

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(slots=True, eq=False)
class AvroField:
    """``default`` means something only where ``has_default`` says so (null is a default too)."""

    name: str
    type: "AvroType"
    has_default: bool = False
    default: Any = None
    order: str = "ascending"
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AvroType:
    """``kind`` is a primitive's name, or record, enum, fixed, array, map or union; an error is a record."""

    kind: str
    #: The full name of a record, an enum or a fixed.
    name: str = ""
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    #: Of an enum, in their order; a dict because an enum may have many.
    symbols: dict[str, None] = field(default_factory=dict)
    symbol_default: str | None = None
    #: Of a fixed.
    size: int = 0
    #: The items of an array, the values of a map.
    inner: "AvroType | None" = None
    #: Of a union.
    branches: tuple["AvroType", ...] = ()
    #: Attributes that Avro does not know, and those of logical types.
    properties: Mapping[str, Any] = field(default_factory=dict)
    #: None where there is none, or one that is unknown or not valid: Avro takes the plain type then.
    logical: LogicalType | None = None
    is_error: bool = False

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def called(self) -> str:
        """What names it as a branch of a union: the full name where it has one, else its kind."""
        return self.name or self.kind

    @property
    def item(self) -> "AvroType":
        """The items of an array, the values of a map."""
        assert self.inner is not None, self.kind
        return self.inner

    @property
    def nullable(self) -> bool:
        return self.kind == "null" or any(branch.kind == "null" for branch in self.branches)


@dataclass(frozen=True, slots=True, eq=False)
class AvroSchema:
    """A parsed schema and every named type that it can see; ``borrowed`` came in by references."""

    root: AvroType
    names: Mapping[str, AvroType]
    borrowed: frozenset[str] = frozenset()
    #: As it was given.
    text: str = ""
    #: What is wrong with names or defaults, where that did not keep it from being read.
    complaint: str | None = None

    @property
    def name(self) -> str | None:
        """What strategies that name subjects by records call it; a union has no name."""
        return None if self.root.kind == "union" else self.root.called

    @property
    def is_bytes(self) -> bool:
        """Such a value is written alone, without a length, as Confluent's serializers do."""
        return self.root.kind == "bytes" and "logicalType" not in self.root.properties
