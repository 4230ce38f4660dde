"""From the texts of the state to parsed schemas: references are followed, what was parsed is remembered.

Invariant: pure but for what it remembers, which is bounded and could all be parsed again. A
schema of a client that makes no sense is error 42201. A stored one that makes none (``of``) is None: it
stays where it is, can be read, and nothing can be registered that has to be compared with it.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

from moldau.registry import errors, schemas
from moldau.registry.records import SchemaValue
from moldau.registry.rules.compatibility import Level, compared, conflicts
from moldau.registry.schemas import InvalidSchema, ParsedSchema, Reference, SchemaType
from moldau.registry.state import State
from moldau.registry.subjects import within

_Pairs: TypeAlias = list[tuple[Reference, ParsedSchema]]

#: Parsed schemas that are kept at hand.
_REMEMBERED = 2_000
#: Comparisons of two schemas whose outcome is kept.
_COMPARED = 5_000
_FAILURES = 100
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


class Parser:
    def __init__(self) -> None:
        self._parsed: OrderedDict[Any, ParsedSchema] = OrderedDict()
        #: What ``work`` found wrong and ``parse`` has not reported yet.
        self._failed: dict[Any, InvalidSchema] = {}
        #: What speaks against a schema beside an older one, by level and the marks of both.
        self._against: OrderedDict[tuple[Level, bytes, bytes], list[str]] = OrderedDict()

    def parse(
        self, state: State, subject: str, schema_type: str, text: str, references: Sequence[Reference]
    ) -> ParsedSchema:
        """A schema as a client gives it, in the context of the subject that it is for."""
        try:
            return self._parse(state, subject, schema_type, text, references, 0)
        except InvalidSchema as error:
            raise errors.invalid_schema(error) from None

    def of(self, state: State, value: SchemaValue) -> ParsedSchema | None:
        """A stored schema; None when it cannot be parsed."""
        try:
            return self._parse(state, value.subject, value.schema_type, value.schema, value.references, 0)
        except InvalidSchema:
            return None

    def work(
        self, state: State, subject: str, schema_type: str, text: str, references: Sequence[Reference]
    ) -> Callable[[], Callable[[], None]] | None:
        """The long part of ``parse``, for another thread: it touches nothing of ours, and returns what does.

        None when there is nothing to do; what is wrong with the schema is reported by ``parse`` alone.
        """
        try:
            pairs = self._pairs(state, subject, schema_type, references, 0)
        except InvalidSchema:
            return None
        key = schema_type, text, _marks(pairs)
        if key in self._parsed:
            return None

        def run() -> Callable[[], None]:
            try:
                found = {text: schemas.parse(SchemaType[schema_type], text, pairs)}
                normal = found[text].normalized
                found[normal] = schemas.parse(SchemaType[schema_type], normal, pairs)
            except InvalidSchema as error:
                return partial(self._fail, key, error)
            return lambda: self._remember(schema_type, pairs, found)

        return run

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
        new = self.parse(state, subject, wanted.schema_type, wanted.schema, wanted.references)
        found: list[str] = []
        for value in _compared(chosen, previous):
            old = self.of(state, value)
            against = (
                ["the old schema cannot be parsed"] if old is None else self._conflicts(chosen, new, old)
            )
            if against:
                where = [f"{{oldSchemaVersion: {value.version}}}", f"{{oldSchema: '{value.schema}'}}"]
                found += [*against, *where]
        return [*found, f"{{compatibility: '{chosen.value}'}}"] if found else []

    def comparison(
        self, state: State, subject: str, level: str, wanted: _Schema, previous: Sequence[SchemaValue]
    ) -> Callable[[], Callable[[], None]] | None:
        """The long part of ``incompatibilities``, for another thread, like ``work``; None when it is done."""
        chosen = Level.__members__.get(level, Level.BACKWARD)
        new = self.parse(state, subject, wanted.schema_type, wanted.schema, wanted.references)
        parsed = [self.of(state, value) for value in _compared(chosen, previous)]
        pairs = {
            (chosen, new.fingerprint, old.fingerprint): old
            for old in parsed
            if old is not None and (chosen, new.fingerprint, old.fingerprint) not in self._against
        }
        if not pairs:
            return None

        def run() -> Callable[[], None]:
            found = {key: conflicts(chosen, new, old) for key, old in pairs.items()}
            return lambda: self._keep(found)

        return run

    def _conflicts(self, level: Level, new: ParsedSchema, old: ParsedSchema) -> list[str]:
        key = level, new.fingerprint, old.fingerprint
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
        if (failure := self._failed.pop(key, None)) is not None:
            raise failure
        parsed = schemas.parse(SchemaType[schema_type], text, pairs)
        self._remember(schema_type, pairs, {text: parsed})
        return parsed

    def _fail(self, key: Any, error: InvalidSchema) -> None:
        if len(self._failed) >= _FAILURES:
            self._failed.clear()  # not asked for: parsing them again is all that this costs
        self._failed[key] = error

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


def _marks(pairs: _Pairs) -> tuple[tuple[Reference, bytes], ...]:
    return tuple((each, target.fingerprint) for each, target in pairs)


def _compared(level: Level, previous: Sequence[SchemaValue]) -> Sequence[SchemaValue]:
    """The versions that a level looks at, newest first.

    ``compared`` picks by position, so it takes any values.
    """
    pick = cast("Callable[[Level, Sequence[SchemaValue]], Sequence[SchemaValue]]", compared)
    return pick(level, previous)
