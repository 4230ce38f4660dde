"""Every transform and predicate by the names that configurations use."""

from collections.abc import Callable, Mapping

from moldau.connect.compatibility import Compatibility
from moldau.connect.config.definition import ConfigDef
from moldau.connect.errors import ConnectException
from moldau.connect.transforms.base import Side, SidedTransformation, Transformation
from moldau.connect.transforms.cast import Cast
from moldau.connect.transforms.extract_field import ExtractField
from moldau.connect.transforms.flatten import Flatten
from moldau.connect.transforms.headers import DropHeaders, HeaderFrom, InsertHeader
from moldau.connect.transforms.hoist_field import HoistField
from moldau.connect.transforms.insert_field import InsertField
from moldau.connect.transforms.mask_field import MaskField
from moldau.connect.transforms.predicates import (
    Filter,
    HasHeaderKey,
    Predicate,
    RecordIsTombstone,
    TopicNameMatches,
)
from moldau.connect.transforms.replace_field import ReplaceField
from moldau.connect.transforms.routers import RegexRouter, TimestampRouter
from moldau.connect.transforms.set_schema_metadata import SetSchemaMetadata
from moldau.connect.transforms.timestamp_converter import TimestampConverter
from moldau.connect.transforms.value_to_key import ValueToKey

_PACKAGE = "org.apache.kafka.connect.transforms"
_SIDED: tuple[type[SidedTransformation], ...] = (
    Cast,
    ExtractField,
    Flatten,
    HeaderFrom,
    HoistField,
    InsertField,
    MaskField,
    ReplaceField,
    SetSchemaMetadata,
    TimestampConverter,
)
_WHOLE: tuple[type[Transformation], ...] = (
    DropHeaders,
    Filter,
    InsertHeader,
    RegexRouter,
    TimestampRouter,
    ValueToKey,
)
_PREDICATES: tuple[type[Predicate], ...] = (HasHeaderKey, RecordIsTombstone, TopicNameMatches)

Maker = Callable[[Mapping[str, object], Compatibility], Transformation]


def _sided(kind: type[SidedTransformation], side: Side) -> Maker:
    return lambda given, compatibility: kind(side, given, compatibility)


TRANSFORMS: dict[str, tuple[Maker, ConfigDef]] = {
    **{
        f"{_PACKAGE}.{kind.__name__}${side.value}": (_sided(kind, side), kind.config)
        for kind in _SIDED
        for side in Side
    },
    **{f"{_PACKAGE}.{kind.__name__}": (kind, kind.config) for kind in _WHOLE},
}
PREDICATES: dict[str, type[Predicate]] = {
    f"{_PACKAGE}.predicates.{kind.__name__}": kind for kind in _PREDICATES
}


#: Full names by their last part, where that is the name of one class.
_SHORT = {kind.__name__: f"{_PACKAGE}.{kind.__name__}" for kind in _WHOLE}
_SHORT |= {kind.__name__: f"{_PACKAGE}.predicates.{kind.__name__}" for kind in _PREDICATES}


def full_name(name: str) -> str:
    """The name of a class for one that a configuration has, such as ``RegexRouter``."""
    return _SHORT.get(name, name)


def transformation(
    name: str, given: Mapping[str, object], compatibility: Compatibility = Compatibility.STRICT
) -> Transformation:
    """The transform of this class, with these settings."""
    known = TRANSFORMS.get(full_name(name))
    if known is None:
        raise ConnectException(
            f"Failed to find any class that implements Transformation and which name matches {name}"
        )
    return known[0](given, compatibility)


def predicate(name: str, given: Mapping[str, object]) -> Predicate:
    known = PREDICATES.get(full_name(name))
    if known is None:
        raise ConnectException(
            f"Failed to find any class that implements Predicate and which name matches {name}"
        )
    return known(given)
