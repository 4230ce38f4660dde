"""Dataclasses and pydantic models: their fields, and their values to plain ones and back.

Invariant: a class is looked at once and turned into functions. pydantic is never imported here: a class can
only be a model of its if the program has imported it.
"""

import dataclasses
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from moldau.serde.errors import SerdeError

#: From a value to another; None where the value stays as it is.
Step: TypeAlias = Callable[[Any], Any] | None
MISSING: Any = dataclasses.MISSING
_LISTS = (list, tuple, set, frozenset, Sequence, Set)
_MAPS = (dict, Mapping)


@dataclass(frozen=True, slots=True)
class ModelField:
    """``default`` is MISSING where the class has none, or one that is made for each instance."""

    name: str
    annotation: Any
    default: Any
    extras: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """How values of one type leave Python and come back."""

    outward: Step
    inward: Step


class Leaves(typing.Protocol):
    """What differs between the formats."""

    def leaf(self, annotation: Any) -> Leaf: ...

    def name(self, cls: type) -> str: ...

    @property
    def names_branches(self) -> bool:
        """Whether the branch of a union is given as (name, value), or has to be guessed."""


def is_model(cls: object) -> bool:
    return isinstance(cls, type) and (dataclasses.is_dataclass(cls) or is_pydantic(cls))


def is_pydantic(cls: object) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def model_fields(cls: type) -> list[ModelField]:
    if is_pydantic(cls):
        return [_pydantic_field(name, info) for name, info in cls.model_fields.items()]  # type: ignore[attr-defined]
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError) as error:
        said = f"The types of {cls.__name__} cannot be found out: {error}."
        raise SerdeError(
            f"{said} Define the classes that it names in a module, not in a function."
        ) from error
    found = []
    for field in dataclasses.fields(cls):
        if field.init:
            annotation, extras = plain(hints[field.name])
            found.append(
                ModelField(field.name, annotation, _default(field.default, field.default_factory), extras)
            )
    return found


def _pydantic_field(name: str, info: Any) -> ModelField:
    annotation, extras = plain(info.annotation)
    default = MISSING if info.is_required() else _default(info.default, info.default_factory or MISSING)
    return ModelField(name, annotation, default, (*info.metadata, *extras))


def _default(default: Any, factory: Any) -> Any:
    if factory is list or factory is dict:
        return factory()
    return default if factory is MISSING else MISSING


def plain(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without what ``Annotated`` adds, and that."""
    if get_origin(annotation) is Annotated:
        inner, *extras = get_args(annotation)
        return inner, tuple(extras)
    return annotation, ()


def members(annotation: Any) -> tuple[Any, ...] | None:
    """The types of a union, None among them as NoneType; None where it is no union."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return None


def item_type(annotation: Any) -> Any:
    """The type of a list's items; MISSING where it is no list."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin not in _LISTS:
        return MISSING
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        raise SerdeError(f"{annotation} has a type for each place, which no schema has: use tuple[X, ...].")
    return arguments[0]


def value_type(annotation: Any) -> Any:
    """The type of a dict's values; MISSING where it is none."""
    if get_origin(annotation) not in _MAPS:
        return MISSING
    key, value = get_args(annotation)
    if plain(key)[0] is not str:
        raise SerdeError(f"{annotation} has keys that are no strings, which no schema has.")
    return value


def outward(annotation: Any, leaves: Leaves) -> Step:
    """From values of a type to plain ones: dicts, lists, numbers, texts."""
    annotation, _ = plain(annotation)
    if is_model(annotation):
        return _Outward(annotation, leaves)
    if (choices := members(annotation)) is not None:
        return _union_outward(choices, leaves)
    if (item := item_type(annotation)) is not MISSING:
        step = outward(item, leaves)
        return list if step is None else _each(step, list)
    if (value := value_type(annotation)) is not MISSING:
        step = outward(value, leaves)
        return None if step is None else _each_value(step)
    if get_origin(annotation) is Literal or annotation in (Any, None, type(None)):
        return None
    return leaves.leaf(annotation).outward


def inward(annotation: Any, leaves: Leaves) -> Step:
    """From plain values to those of a type."""
    annotation, _ = plain(annotation)
    if is_model(annotation):
        return _Inward(annotation, leaves)
    if (choices := members(annotation)) is not None:
        return _union_inward(choices, leaves)
    if (item := item_type(annotation)) is not MISSING:
        step, origin = inward(item, leaves), get_origin(annotation)
        make = origin if origin in (tuple, set, frozenset) else list
        if step is None:
            return None if make is list else make
        return _each(step, make)
    if (value := value_type(annotation)) is not MISSING:
        step = inward(value, leaves)
        return None if step is None else _each_value(step)
    if get_origin(annotation) is Literal or annotation in (Any, None, type(None)):
        return None
    return leaves.leaf(annotation).inward


def _each(step: Callable[[Any], Any], make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: make([step(each) for each in value])


def _each_value(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: {key: step(each) for key, each in value.items()}


class _Outward:
    """A model's fields as a dict. A class may contain itself: its parts are made when first needed."""

    def __init__(self, cls: type, leaves: Leaves) -> None:
        self._cls = cls
        self._leaves = leaves
        self._fields: list[tuple[str, Step]] | None = None

    def __call__(self, value: Any) -> Any:
        if self._fields is None:
            self._fields = [(f.name, outward(f.annotation, self._leaves)) for f in model_fields(self._cls)]
        if value.__class__ is not self._cls and not isinstance(value, self._cls):
            return value  # a dict, or something that does not fit: the encoder will say so
        try:
            return {
                name: getattr(value, name) if step is None else step(getattr(value, name))
                for name, step in self._fields
            }
        except (TypeError, AttributeError, ValueError) as error:
            raise SerdeError(f"A {self._cls.__name__} does not hold what its types say: {error}.") from error


class _Inward:
    """A model from a dict."""

    def __init__(self, cls: type, leaves: Leaves) -> None:
        self._cls = cls
        self._leaves = leaves
        self._steps: list[tuple[str, Callable[[Any], Any]]] | None = None
        self._make = _maker(cls)

    def __call__(self, value: Any) -> Any:
        if self._steps is None:
            steps = ((f.name, inward(f.annotation, self._leaves)) for f in model_fields(self._cls))
            self._steps = [(name, step) for name, step in steps if step is not None]
        try:
            for name, step in self._steps:
                if name in value:
                    value[name] = step(value[name])
            return self._make(value)
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise SerdeError(f"The data makes no {self._cls.__name__}: {error}.") from error


def _maker(cls: type) -> Callable[[dict[str, Any]], Any]:
    if is_pydantic(cls):
        return lambda fields: cls.model_validate(fields, by_name=True)  # type: ignore[attr-defined]
    return lambda fields: cls(**fields)


def _union_outward(choices: tuple[Any, ...], leaves: Leaves) -> Step:
    """The steps by the type of the value; a model says its name where branches have names."""
    steps: list[tuple[type, Callable[[Any], Any]]] = []
    models = [each for each in choices if is_model(each)]
    for choice in choices:
        step = outward(choice, leaves)
        if step is None:
            continue
        python = get_origin(choice) or plain(choice)[0]
        if is_model(choice) and leaves.names_branches and len(models) > 1:
            step = _naming(leaves.name(choice), step)
        steps.append((python, step))
    if not steps:
        return None

    def convert(value: Any) -> Any:
        for python, step in steps:
            if isinstance(value, python):
                return step(value)
        return value

    return convert


def _naming(name: str, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: (name, step(value))


def _union_inward(choices: tuple[Any, ...], leaves: Leaves) -> Step:
    models = {leaves.name(each): inward(each, leaves) for each in choices if is_model(each)}
    others = [step for each in choices if not is_model(each) and (step := inward(each, leaves)) is not None]
    if not models and not others:
        return None
    optional = type(None) in choices

    def convert(value: Any) -> Any:
        if value is None and optional:
            return None
        if isinstance(value, tuple):
            name, value = value
            # A class without a namespace is in that of the class around it.
            step = models.get(name) or models.get(name.rpartition(".")[2])
            if step is None:
                raise SerdeError(f"The data holds a {name}, which is none of {', '.join(models)}.")
            return step(value)
        if isinstance(value, dict) and models:
            return _first_that_fits([step for step in models.values() if step is not None], value)
        return _first_that_fits(others, value)

    return convert


def _first_that_fits(steps: list[Callable[[Any], Any]], value: Any) -> Any:
    """Where data does not say which type it is, the first that takes it; else it stays as it is."""
    for step in steps:
        try:
            return step(dict(value) if isinstance(value, dict) else value)
        except (SerdeError, TypeError, ValueError, LookupError, AttributeError):
            continue
    return value


def enum_of(annotation: Any) -> type[Enum] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, Enum) else None
