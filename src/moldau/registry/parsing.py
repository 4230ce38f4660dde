"""From the texts of the state to parsed schemas: references are followed, what was parsed is remembered.

Invariant: pure but for what it remembers, which is bounded and could all be parsed again. A
schema of a client that makes no sense is error 42201. A stored one is read as leniently as possible; one
that makes no sense all the same (``of``) is None: it stays where it is, can be read, and nothing can be
registered that has to be compared with it. What is remembered is known by its text and by what its references
stand for, never by their names alone.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

from moldau.registry import errors, schemas
from moldau.registry.records import SchemaValue
from moldau.registry.rules.compatibility import Level, compared, conflicts
from moldau.registry.schemas import InvalidSchema, ParsedSchema, Reference, SchemaType
from moldau.registry.state import State
from moldau.registry.subjects import within

_Pairs: TypeAlias = list[tuple[Reference, ParsedSchema]]
#: What a parsed schema is known by: its type, its text, and what its references stand for.
_Key: TypeAlias = tuple[str, str, tuple[tuple[Reference, bytes], ...]]

#: Parsed schemas that are kept at hand.
_REMEMBERED = 2_000
#: Comparisons of two schemas whose outcome is kept.
_COMPARED = 5_000
_FAILURES = 100
#: Characters that are parsed in some tens of milliseconds, whatever they say.
_SMALL_TEXT = 10_000
#: The same for two schemas each part of which may meet each: characters of the one times those of the other.
_SMALL_PRODUCT = 2_500 * 2_500
#: What makes them so. Everything else is compared with what has its name or its number.
_EACH_WITH_EACH = re.compile(r'"(?:oneOf|anyOf|allOf|patternProperties)"')
#: A reference of a reference of a reference…: a circle in the log ends here.
_DEEPEST = 50


class _Schema(Protocol):
    """What both a stored schema and a wanted one have."""

    @property
    def schema(self) -> str: ...
    @property
    def schema_type(self) -> str: ...
    @property
    def references(self) -> tuple[Reference, ...]: ...


@dataclass(frozen=True, slots=True)
class Task:
    """Long work that touches nothing of ours: ``function(*arguments)``, anywhere, then ``keep`` with what it
    returned, where the parser lives.

    A ``large`` task may take seconds and belongs into a process of its own; its function and arguments can be
    pickled. One that ``compiles`` waits for protoc, which is such a process.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keep: Callable[[Any], None]
    large: bool
    compiles: bool = False


def parsed_forms(
    schema_type: SchemaType, text: str, pairs: _Pairs
) -> dict[str, ParsedSchema] | InvalidSchema:
    """A schema as it is and in its normal form, by their texts; or what is wrong with it."""
    try:
        found = {text: schemas.parse(schema_type, text, pairs, lenient=True)}
        normal = found[text].normalized
        found[normal] = schemas.parse(schema_type, normal, pairs, lenient=True)
    except InvalidSchema as error:
        return error
    return found


def all_conflicts(level: Level, new: ParsedSchema, olds: Sequence[ParsedSchema]) -> list[list[str]]:
    """What speaks against a schema beside each of the older ones."""
    return [conflicts(level, new, old) for old in olds]


class Parser:
    def __init__(self) -> None:
        self._parsed: OrderedDict[Any, ParsedSchema] = OrderedDict()
        #: What ``work`` found wrong, so that ``parse`` can say so at once; by a digest of the text.
        self._failed: dict[Any, InvalidSchema] = {}
        #: What speaks against a schema beside an older one, by level and what both stand for.
        self._against: OrderedDict[tuple[Level, bytes, bytes], list[str]] = OrderedDict()

    def parse(
        self,
        state: State,
        subject: str,
        schema_type: str,
        text: str,
        references: Sequence[Reference],
        *,
        new: bool = True,
    ) -> ParsedSchema:
        """A schema as a client gives it, in the context of the subject that it is for.

        One that is not ``new`` but sought, or brought over from elsewhere, is read like a stored one.
        """
        try:
            found = self._parse(state, subject, schema_type, text, references, 0)
        except InvalidSchema as error:
            raise errors.invalid_schema(error) from None
        if new and found.complaint is not None:
            raise errors.invalid_schema(found.complaint)
        return found

    def of(self, state: State, value: SchemaValue) -> ParsedSchema | None:
        """A stored schema; None when it cannot be parsed."""
        try:
            return self._parse(state, value.subject, value.schema_type, value.schema, value.references, 0)
        except InvalidSchema:
            return None

    def work(
        self, state: State, subject: str, schema_type: str, text: str, references: Sequence[Reference]
    ) -> Task | None:
        """The long part of ``parse``; None when there is nothing to do.

        What is wrong with the schema is reported by ``parse`` alone.
        """
        try:
            pairs = self._pairs(state, subject, schema_type, references, 0)
        except InvalidSchema:
            return None
        key = schema_type, text, _marks(pairs)
        if key in self._parsed or (self._failed and _digest(key) in self._failed):
            return None

        def keep(found: dict[str, ParsedSchema] | InvalidSchema) -> None:
            if isinstance(found, InvalidSchema):
                self._fail(key, found)
            else:
                self._remember(schema_type, pairs, found)

        kind = SchemaType[schema_type]
        size = len(text) + sum(target.size for _, target in pairs)
        return Task(
            parsed_forms, (kind, text, pairs), keep, size > _SMALL_TEXT, compiles=kind is SchemaType.PROTOBUF
        )

    def level(self, text: object) -> str:
        """The name of a level of compatibility, however it is written."""
        if not isinstance(text, str) or text.upper() not in Level.__members__:
            raise errors.invalid_level()
        return text.upper()

    def incompatibilities(
        self, state: State, subject: str, level: str, wanted: _Schema, previous: Sequence[SchemaValue]
    ) -> list[str]:
        """What speaks against a schema, with the version that it speaks for."""
        chosen = Level.__members__.get(level, Level.BACKWARD)
        new = self.parse(state, subject, wanted.schema_type, wanted.schema, wanted.references, new=False)
        found: list[str] = []
        for value in _compared(chosen, previous):
            old = self.of(state, value)
            against = (
                ["the old schema cannot be parsed"] if old is None else self._conflicts(chosen, new, old)
            )
            if against:
                where = [f"{{oldSchemaVersion: {value.version}}}", f"{{oldSchema: '{value.schema}'}}"]
                found += [*against, *where]
        return found

    def comparison(
        self, state: State, subject: str, level: str, wanted: _Schema, previous: Sequence[SchemaValue]
    ) -> Task | None:
        """The long part of ``incompatibilities``; None when there is nothing to do."""
        chosen = Level.__members__.get(level, Level.BACKWARD)
        new = self.parse(state, subject, wanted.schema_type, wanted.schema, wanted.references, new=False)
        parsed = [self.of(state, value) for value in _compared(chosen, previous)]
        pairs = {
            (chosen, new.resolved, old.resolved): old
            for old in parsed
            if old is not None and (chosen, new.resolved, old.resolved) not in self._against
        }
        if not pairs:
            return None

        large = any(_takes_long(new, old) for old in pairs.values())

        def keep(found: list[list[str]]) -> None:
            self._keep(dict(zip(pairs, found, strict=True)))

        return Task(all_conflicts, (chosen, new, list(pairs.values())), keep, large)

    def _conflicts(self, level: Level, new: ParsedSchema, old: ParsedSchema) -> list[str]:
        key = level, new.resolved, old.resolved
        if key not in self._against:
            self._keep({key: conflicts(level, new, old)})
        return self._against[key]

    def _keep(self, found: Mapping[tuple[Level, bytes, bytes], list[str]]) -> None:
        while len(self._against) + len(found) > _COMPARED and self._against:
            self._against.popitem(last=False)
        self._against.update(found)

    def formatted(self, state: State, value: SchemaValue, form: str) -> str:
        """The text in another form; as it is where there is no such form."""
        parsed = self.of(state, value) if form == "serialized" else None
        return value.schema if parsed is None else schemas.serialized(parsed)

    def _parse(
        self,
        state: State,
        subject: str,
        schema_type: str,
        text: str,
        references: Sequence[Reference],
        depth: int,
    ) -> ParsedSchema:
        pairs = self._pairs(state, subject, schema_type, references, depth)
        key = schema_type, text, _marks(pairs)
        if key in self._parsed:
            self._parsed.move_to_end(key)
            return self._parsed[key]
        if self._failed and (failure := self._failed.get(_digest(key))) is not None:
            raise failure
        parsed = schemas.parse(SchemaType[schema_type], text, pairs, lenient=True)
        self._remember(schema_type, pairs, {text: parsed})
        return parsed

    def _fail(self, key: _Key, error: InvalidSchema) -> None:
        if len(self._failed) >= _FAILURES:
            self._failed.clear()
        self._failed[_digest(key)] = error

    def _remember(self, schema_type: str, pairs: _Pairs, found: Mapping[str, ParsedSchema]) -> None:
        for text, parsed in found.items():
            # The text that is kept is the same schema as the one that was given.
            for name in (text, parsed.text):
                self._parsed[schema_type, name, _marks(pairs)] = parsed
        while len(self._parsed) > _REMEMBERED:
            self._parsed.popitem(last=False)

    def _pairs(
        self, state: State, subject: str, schema_type: str, references: Sequence[Reference], depth: int
    ) -> _Pairs:
        """The references with what they stand for."""
        if schema_type not in SchemaType.__members__:
            raise InvalidSchema(f"Invalid schema type {schema_type}")
        if depth > _DEEPEST:
            raise InvalidSchema("The references of the schema are nested too deeply")
        return [(each, self._target(state, subject, each, depth)) for each in references]

    def _target(self, state: State, subject: str, reference: Reference, depth: int) -> ParsedSchema:
        name = within(subject, reference.subject)
        try:
            value = state.version(name, reference.version, deleted=True)
        except errors.RegistryProblem as error:
            raise InvalidSchema(f"No schema reference found for {reference.name}: {error}") from None
        return self._parse(state, value.subject, value.schema_type, value.schema, value.references, depth + 1)


def _takes_long(new: ParsedSchema, old: ParsedSchema) -> bool:
    """Whether comparing the two may take more than some tens of milliseconds."""
    if new.size + old.size > 2 * _SMALL_TEXT:
        return True
    alike = new.schema_type is old.schema_type is SchemaType.JSON
    referring = bool(new.references or old.references)
    each_with_each = alike and (referring or _EACH_WITH_EACH.search(new.text) is not None)
    return each_with_each and new.size * old.size > _SMALL_PRODUCT


def _digest(key: _Key) -> Any:
    schema_type, text, marks = key
    return schema_type, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), marks


def _marks(pairs: _Pairs) -> tuple[tuple[Reference, bytes], ...]:
    return tuple((each, target.resolved) for each, target in pairs)


def _compared(level: Level, previous: Sequence[SchemaValue]) -> Sequence[SchemaValue]:
    """The versions that a level looks at, newest first.

    ``compared`` picks by position, so it takes any values.
    """
    pick = cast("Callable[[Level, Sequence[SchemaValue]], Sequence[SchemaValue]]", compared)
    return pick(level, previous)
