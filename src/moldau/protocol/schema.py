"""How messages are declared: one class per structure, for all versions.

    @struct
    class Topic:
        name: String = field("0-12")
        topic_id: UuidBytes = field("13+")
        partitions: list[Partition] = field()

    @request(ApiKey.PRODUCE)
    class ProduceRequest:
        topics: list[Topic] = field()

A declaration is a plain class with slots and an ``__init__`` that takes every field by position or name; a
field that does not exist in a version has its default there. ``codec`` compiles a declaration into a reader
and a writer for each version.

Invariant: a declaration is cheap, because a broker makes hundreds at start: no ``dataclasses``, no evaluation
of type hints, nothing compiled before it is used.
"""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, dataclass_transform, get_args, get_origin

from moldau.protocol.api_keys import VERSIONS, ApiKey

#: The largest version number; "3+" ends here.
LAST_VERSION = 32767

Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
Uint16 = Annotated[int, "uint16"]
Int32 = Annotated[int, "int32"]
Uint32 = Annotated[int, "uint32"]
Int64 = Annotated[int, "int64"]
Float64 = Annotated[float, "float64"]
Bool = Annotated[bool, "bool"]
String = Annotated[str, "string"]
Bytes = Annotated[bytes, "bytes"]
UuidBytes = Annotated[bytes, "uuid"]
#: Record batches: read as a view of the frame; written from bytes, or inserted from a file when sent.
Records = Annotated[Any, "records"]

_DEFAULTS: dict[str, object] = {
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "uuid": bytes(16),
    "records": b"",
}
_MISSING: Any = object()


class Versions(NamedTuple):
    """A range of versions, both ends included; empty when first > last."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NO_VERSIONS = Versions(0, -1)
ALL_VERSIONS = Versions(0, LAST_VERSION)


@cache
def parse_versions(text: str) -> Versions:
    """Parses "3+", "0-12", "4" and "none"."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), LAST_VERSION)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


class Field:
    """A declared field; ``kind`` is the name of a primitive type or a declared class."""

    __slots__ = ("default", "element", "kind", "name", "nullable", "present", "tag", "tagged")

    def __init__(
        self, present: str, nullable: str | None, tag: int | None, tagged: str, default: object
    ) -> None:
        self.name = ""
        self.kind: Any = None
        self.element = False
        self.present = parse_versions(present)
        self.nullable = NO_VERSIONS if nullable is None else parse_versions(nullable)
        self.tag = tag
        self.tagged = parse_versions(tagged) if tag is not None else NO_VERSIONS
        self.default = default

    @property
    def is_array(self) -> bool:
        return self.element

    def bind(self, name: str, annotation: Any) -> None:
        """Takes name and type from the class body; an annotation that allows None is nullable."""
        self.name = name
        origin = get_origin(annotation)
        if origin is not None and origin is not list and origin is not Annotated:  # T | None
            annotation = next(a for a in get_args(annotation) if a is not type(None))
            origin = get_origin(annotation)
            if self.nullable == NO_VERSIONS:
                self.nullable = ALL_VERSIONS
        else:
            assert self.nullable == NO_VERSIONS, f"{name} is nullable, but its type does not say so"
        if origin is list:
            self.element = True
            annotation = get_args(annotation)[0]
            origin = get_origin(annotation)
        self.kind = get_args(annotation)[1] if origin is Annotated else annotation
        if self.default is _MISSING:
            self.default = self._implied_default()

    def _implied_default(self) -> object:
        if self.element:
            return _MISSING  # a fresh list each time
        if self.nullable != NO_VERSIONS and (self.kind == "records" or not isinstance(self.kind, str)):
            return None
        return _DEFAULTS.get(self.kind, 0) if isinstance(self.kind, str) else _MISSING


def field(
    present: str = "0+",
    *,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str = "0+",
    default: Any = _MISSING,
) -> Any:
    """Declares in which versions a field exists, may be null, and is carried as a tagged field.

    A field whose type is ``T | None`` may be null in every version unless ``nullable`` says in which.
    """
    return Field(present, nullable, tag, tagged, default)


class Declaration(NamedTuple):
    """What ``codec`` needs to know about a class."""

    name: str
    fields: tuple[Field, ...]
    api_key: ApiKey | None
    versions: Versions
    flexible: Versions


_T = TypeVar("_T")

# ``field`` is not given as a field specifier: so type checkers see that every field has a default.


@dataclass_transform()
def struct(cls: type[_T]) -> type[_T]:
    """A structure inside a message, whose versions it has."""
    return _declare(cls, None, ALL_VERSIONS, NO_VERSIONS)


@dataclass_transform()
def request(api_key: ApiKey) -> Callable[[type[_T]], type[_T]]:
    """The request of an API, in the versions that ``api_keys.VERSIONS`` names."""
    return _api_message(api_key)


@dataclass_transform()
def response(api_key: ApiKey) -> Callable[[type[_T]], type[_T]]:
    """The response of an API, in the versions that ``api_keys.VERSIONS`` names."""
    return _api_message(api_key)


@dataclass_transform()
def data(*, versions: str, flexible: str) -> Callable[[type[_T]], type[_T]]:
    """A message inside another one or in a record, such as a group's subscription."""
    return _message(None, parse_versions(versions), parse_versions(flexible))


def _api_message(api_key: ApiKey) -> Callable[[type[_T]], type[_T]]:
    first, last, first_flexible = VERSIONS[api_key]
    flexible = NO_VERSIONS if first_flexible is None else Versions(first_flexible, LAST_VERSION)
    return _message(api_key, Versions(first, last), flexible)


def _message(api_key: ApiKey | None, spoken: Versions, flexible: Versions) -> Callable[[type[_T]], type[_T]]:
    def declare(cls: type[_T]) -> type[_T]:
        return _declare(cls, api_key, spoken, flexible)

    return declare


def _declare(cls: type[_T], api_key: ApiKey | None, range_: Versions, flexible: Versions) -> type[_T]:
    fields: list[Field] = []
    for name, annotation in cls.__annotations__.items():
        declared = cls.__dict__[name]
        assert isinstance(declared, Field), f"{cls.__name__}.{name} is not declared with field()"
        declared.bind(name, annotation)
        fields.append(declared)
    names = tuple(f.name for f in fields)
    namespace: dict[str, Any] = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__slots__": names,
        "__match_args__": names,
        "__init__": _lazy_init(fields),
        "__eq__": _equal,
        "__hash__": None,
        "__repr__": _represent,
        "__message__": Declaration(cls.__name__, tuple(fields), api_key, range_, flexible),
    }
    return type(cls.__name__, (), namespace)


def _lazy_init(fields: list[Field]) -> Callable[..., None]:
    """An ``__init__`` that compiles the real one when the first object is created."""

    def __init__(self: Any, *values: Any, **named: Any) -> None:  # noqa: N807
        self.__class__.__init__ = made = _make_init(fields)
        made(self, *values, **named)

    return __init__


def _make_init(fields: list[Field]) -> Callable[..., None]:
    parameters, body, scope = [], [], {"MISSING": _MISSING}
    for f in fields:
        scope[f"d_{f.name}"] = f.default
        parameters.append(f"{f.name}=d_{f.name}")
        if f.default is not _MISSING:
            body.append(f"self.{f.name} = {f.name}")
            continue
        scope[f"k_{f.name}"] = list if f.element else f.kind
        body.append(f"self.{f.name} = k_{f.name}() if {f.name} is MISSING else {f.name}")
    source = f"def __init__(self, {', '.join(parameters)}):\n    " + ("\n    ".join(body) or "pass")
    exec(source, scope)
    made: Callable[..., None] = scope["__init__"]
    return made


def declaration(cls: type) -> Declaration:
    found: Declaration = cls.__message__  # type: ignore[attr-defined]
    return found


def _equal(self: Any, other: object) -> Any:
    names = self.__slots__
    if self.__class__ is not other.__class__:
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in names)


def _represent(self: Any) -> str:
    inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{self.__class__.__name__}({inner})"
