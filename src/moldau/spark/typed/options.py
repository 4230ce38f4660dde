"""The options about formats and schemas, checked: ``value.format`` and its neighbours.

Pure. Nothing is asked of a registry here; ``plan`` does that, once, on the driver.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.spark.options import READ, OptionError, check_names
from moldau.spark.typed.formats import FORMATS

LATEST_VERSION = "latest"
#: A schema that is found out by looking at records; with a colon and types behind it, one that was.
INFER = "infer"


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_location: str | None = None


@dataclass(frozen=True, slots=True)
class SideOptions:
    """The options of keys or of values."""

    side: str
    #: None where nothing was said.
    format: str | None = None
    schema: str | None = None
    subject: str | None = None
    version: int | str | None = None
    message: str | None = None

    @property
    def infers(self) -> bool:
        return self.schema is not None and self.schema.partition(":")[0].strip().lower() == INFER

    @property
    def inferred(self) -> str | None:
        """The types that were found out already; None where that has to be done."""
        return (self.schema or "").partition(":")[2].strip() or None


@dataclass(frozen=True, slots=True)
class TypedOptions:
    key: SideOptions = SideOptions("key")
    value: SideOptions = SideOptions("value")
    registry: RegistryOptions | None = None
    #: fail, null or dead-letter.
    decode_errors: str = "fail"
    dead_letter_topic: str | None = None
    error_column: str = "_error"
    flatten: bool = False

    @property
    def plain(self) -> bool:
        """Whether keys and values stay bytes."""
        said = (self.key.format, self.value.format)
        return self.registry is None and all(each in (None, "bytes") for each in said) and not self.flatten


def typed_options(given: Mapping[str, str], applies: str) -> TypedOptions:
    """The options about formats among all that were given."""
    options = check_names(given, applies)
    registry = _registry(options)
    key, value = _side(options, "key"), _side(options, "value")
    for side in (key, value):
        _check_side(side, registry, reading=applies == READ)
    errors = options.get("decode.errors", "fail").lower()
    if errors not in ("fail", "null", "dead-letter"):
        raise OptionError(f"decode.errors is fail, null or dead-letter, not {errors!r}")
    if "dead.letter.topic" in options and errors != "dead-letter":
        raise OptionError("dead.letter.topic needs decode.errors=dead-letter")
    if "error.column" in options and errors != "null":
        raise OptionError("error.column needs decode.errors=null")
    flatten = options.get("flatten", "false").lower()
    if flatten not in ("true", "false"):
        raise OptionError(f"flatten is true or false, not {flatten!r}")
    return TypedOptions(
        key,
        value,
        registry,
        errors,
        options.get("dead.letter.topic"),
        options.get("error.column", "_error"),
        flatten == "true",
    )


def _registry(options: Mapping[str, str]) -> RegistryOptions | None:
    url = options.get("schema.registry.url", "").strip()
    if not url:
        for name in ("schema.registry.basic.auth.user.info", "schema.registry.ssl.ca.location"):
            if name in options:
                raise OptionError(f"{name} needs schema.registry.url")
        return None
    user = password = None
    if (info := options.get("schema.registry.basic.auth.user.info")) is not None:
        user, colon, password = info.partition(":")
        if not colon:
            raise OptionError("schema.registry.basic.auth.user.info is user:password")
    return RegistryOptions(url, user, password, options.get("schema.registry.ssl.ca.location"))


def _side(options: Mapping[str, str], side: str) -> SideOptions:
    kind = options.get(f"{side}.format")
    if kind is not None and (kind := kind.lower()) not in FORMATS:
        *names, last = FORMATS
        raise OptionError(f"{side}.format is {', '.join(names)} or {last}, not {kind!r}")
    version: int | str | None = options.get(f"{side}.schema.version")
    if version is not None and version != LATEST_VERSION:
        if not str(version).isdecimal() or int(version) < 1:
            raise OptionError(f"{side}.schema.version is a number from 1 on or latest, not {version!r}")
        version = int(version)
    schema, subject = options.get(f"{side}.schema"), options.get(f"{side}.subject")
    return SideOptions(side, kind, schema, subject, version, options.get(f"{side}.message"))


def _check_side(side: SideOptions, registry: RegistryOptions | None, *, reading: bool) -> None:
    name, kind = side.side, side.format
    format_ = FORMATS[kind] if kind is not None else None
    if format_ is not None and not format_.has_schema:
        for said, option in ((side.schema, "schema"), (side.subject, "subject"), (side.message, "message")):
            if said is not None:
                raise OptionError(f"{name}.{option} has no meaning with {name}.format={kind}")
        return
    if side.schema is not None and kind is None:
        raise OptionError(f"{name}.schema needs {name}.format: json, avro or protobuf")
    if side.infers and not (reading and kind == "json"):
        raise OptionError(f"{name}.schema=infer is for reading with {name}.format=json")
    if side.schema is not None and side.version is not None:
        raise OptionError(f"{name}.schema and {name}.schema.version both say which schema: set one of them")
    if registry is None and (side.subject is not None or side.version is not None):
        raise OptionError(f"{name}.subject and {name}.schema.version need schema.registry.url")
    if side.message is not None and format_ is not None and not format_.has_messages:
        raise OptionError(f"{name}.message is for {name}.format=protobuf")
    needs_schema = format_ is not None and (reading or format_.writes_by_schema)
    if needs_schema and registry is None and side.schema is None:
        raise OptionError(
            f"{name}.format={kind} needs a schema: "
            f"set schema.registry.url, or {name}.schema to the schema itself"
            f"{f', or to {INFER}' if reading and kind == 'json' else ''}"
        )
