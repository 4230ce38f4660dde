"""Which records a chain of transforms drops for certain, said of records as they lie in a topic.

A sink on Spark has records as columns until they go to Python. What is certain there need not go: a filter by
a predicate becomes a condition on columns, wherever nothing before it may fail unnoticed or change what the
predicate asks for. All other transforms work on what converters make of a key or value, which is no column.

Invariant: pure. Where the condition holds, the chain drops the record, or leaves it out because of an error
that nobody is told of; where it does not hold, nothing is said.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from moldau.connect.converters.primitives import ByteArrayConverter
from moldau.connect.converters.simple_header import SimpleHeaderConverter
from moldau.connect.converters.strings import StringConverter
from moldau.connect.errors import JavaError
from moldau.connect.records import SinkRecord
from moldau.connect.transforms.base import Side, SidedTransformation, Transformation
from moldau.connect.transforms.headers import DropHeaders, HeaderFrom, InsertHeader
from moldau.connect.transforms.insert_field import InsertField
from moldau.connect.transforms.predicates import (
    Filter,
    HasHeaderKey,
    Predicate,
    RecordIsTombstone,
    TopicNameMatches,
)
from moldau.connect.transforms.python import PythonTransform
from moldau.connect.transforms.routers import RegexRouter, TimestampRouter
from moldau.connect.worker.tasks.handling import ErrorHandling
from moldau.connect.worker.tasks.processing import Named, Processing, RawRecord, Step

# --- conditions -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OfTopic:
    name: str


@dataclass(frozen=True, slots=True)
class HasHeader:
    name: str


@dataclass(frozen=True, slots=True)
class HasHeaders:
    pass


@dataclass(frozen=True, slots=True)
class IsNull:
    side: Side


@dataclass(frozen=True, slots=True)
class IsText:
    """Valid UTF-8, or null."""

    side: Side


@dataclass(frozen=True, slots=True)
class Not:
    inner: "Condition"


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: "tuple[Condition, ...]"


Condition = OfTopic | HasHeader | HasHeaders | IsNull | IsText | Not | AllOf | AnyOf
ALWAYS, NEVER = AllOf(()), AnyOf(())


def holds(condition: Condition, raw: RawRecord) -> bool:
    """What a condition means."""
    match condition:
        case OfTopic(name):
            return raw.topic == name
        case HasHeader(name):
            return any(each == name for each, _ in raw.headers)
        case HasHeaders():
            return bool(raw.headers)
        case IsNull(side):
            return _content(side, raw) is None
        case IsText(side):
            try:
                (_content(side, raw) or b"").decode("utf-8")
            except UnicodeDecodeError:
                return False
            return True
        case Not(inner):
            return not holds(inner, raw)
        case AllOf(parts):
            return all(holds(each, raw) for each in parts)
        case AnyOf(parts):
            return any(holds(each, raw) for each in parts)


def sql_of(condition: Condition) -> str:
    """The same on the columns of ``format("moldau")``, in Spark's SQL; it is never null."""
    match condition:
        case OfTopic(name):
            return f"topic = {_literal(name)}"
        case HasHeader(name):
            return f"coalesce(exists(headers, each -> each.key = {_literal(name)}), false)"
        case HasHeaders():
            return "coalesce(size(headers) > 0, false)"
        case IsNull(side):
            return f"{side.value.lower()} IS NULL"
        case IsText(side):
            return f"coalesce(is_valid_utf8(CAST({side.value.lower()} AS STRING)), true)"
        case Not(inner):
            return f"NOT ({sql_of(inner)})"
        case AllOf(parts):
            return " AND ".join(f"({sql_of(each)})" for each in parts) or "true"
        case AnyOf(parts):
            return " OR ".join(f"({sql_of(each)})" for each in parts) or "false"


def _literal(text: str) -> str:
    """A text of a configuration, in digits: there is nothing in it that SQL could take for its own."""
    return f"CAST(X'{text.encode('utf-8', 'replace').hex()}' AS STRING)"


def _content(side: Side, raw: RawRecord) -> bytes | None:
    return raw.key if side is Side.KEY else raw.value


def all_of(*parts: Condition) -> Condition:
    needed = tuple(each for each in parts if each != ALWAYS)
    if NEVER in needed:
        return NEVER
    return needed[0] if len(needed) == 1 else AllOf(needed)


def any_of(*parts: Condition) -> Condition:
    possible = tuple(each for each in parts if each != NEVER)
    if ALWAYS in possible:
        return ALWAYS
    return possible[0] if len(possible) == 1 else AnyOf(possible)


# --- what is certain --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Answer:
    """When a predicate is certainly true, and when it is certainly false."""

    yes: Condition
    no: Condition

    @classmethod
    def of(cls, truth: bool) -> "_Answer":
        return cls(ALWAYS, NEVER) if truth else cls(NEVER, ALWAYS)


_UNKNOWN = _Answer(NEVER, NEVER)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of all records at a place in the chain."""

    #: The topic that they have by now.
    topic: str | None
    is_null: _Answer
    #: Headers that transforms have added or removed, by name; None of those that they may have.
    headers: dict[str, bool | None]
    any_header_may_be_new: bool = False

    def has_header(self, name: str) -> _Answer:
        changed = self.headers.get(name, name)
        if changed is None or (changed is not True and self.any_header_may_be_new):
            return _UNKNOWN
        if isinstance(changed, bool):
            return _Answer.of(changed)
        return _Answer(HasHeader(name), Not(HasHeader(name)))

    def answer(self, predicate: Predicate) -> _Answer:
        if isinstance(predicate, RecordIsTombstone):
            return self.is_null
        if isinstance(predicate, HasHeaderKey):
            return self.has_header(predicate.name)
        if isinstance(predicate, TopicNameMatches) and self.topic is not None:
            return _Answer.of(predicate.test(_empty(self.topic)))
        return _UNKNOWN


def certain_drops(processing: Processing, handling: ErrorHandling, topics: Sequence[str]) -> Condition | None:
    """The condition for records of these topics, which have to be known by name; None if nothing is
    certain."""
    silent = handling.tolerates_all and not handling.logs and not handling.dead_letters
    found = (
        all_of(OfTopic(topic), _converted(processing, silent), _dropped(processing, silent, topic))
        for topic in topics
    )
    condition = any_of(*found)
    return None if condition == NEVER else condition


def _converted(processing: Processing, silent: bool) -> Condition:
    """When no converter fails, or nobody hears of it."""
    if silent:
        return ALWAYS
    headers = isinstance(processing.header.converter, SimpleHeaderConverter | ByteArrayConverter)
    return all_of(
        _readable(processing.key, Side.KEY),
        _readable(processing.value, Side.VALUE),
        ALWAYS if headers else Not(HasHeaders()),
    )


def _readable(named: Named, side: Side) -> Condition:
    converter = named.converter
    if isinstance(converter, ByteArrayConverter):
        return ALWAYS
    if isinstance(converter, StringConverter) and converter.reads_utf8:
        return ALWAYS if converter.like_kafka else IsText(side)
    return IsNull(side)  # which all converters read


def _dropped(processing: Processing, silent: bool, topic: str) -> Condition:
    null = IsNull(Side.VALUE)
    plain = isinstance(processing.value.converter, ByteArrayConverter | StringConverter)
    known: _Known | None = _Known(topic, _Answer(null, Not(null) if plain else NEVER), {})
    found: list[Condition] = []
    for step in processing.chain:
        assert known is not None
        applies = _applies(step, known)
        if applies.no == ALWAYS:
            continue
        if isinstance(step.transform, Filter):
            found.append(applies.yes)
            continue
        known = _behind(step.transform, known, applies.yes == ALWAYS, silent)
        if known is None:
            break
    return any_of(*found)


def _applies(step: Step, known: _Known) -> _Answer:
    if step.predicate is None:
        return _Answer.of(True)
    answer = known.answer(step.predicate)
    return _Answer(answer.no, answer.yes) if step.negate else answer


def _behind(transform: Transformation, known: _Known, always: bool, silent: bool) -> _Known | None:
    """What is known behind a transform that all records take, or some of them; None if nothing is, or if it
    may fail and somebody hears of it."""
    if isinstance(transform, DropHeaders):
        return _with_headers(known, dict.fromkeys(transform.dropped, False if always else None))
    if isinstance(transform, InsertHeader):
        return _with_headers(known, {transform.header.key: True if always else None})
    if isinstance(transform, RegexRouter):
        if known.topic is None or not always:
            return replace(known, topic=None) if silent else None
        try:
            return replace(known, topic=transform.apply(_empty(known.topic)).topic)
        except JavaError:
            return None
    if not silent or isinstance(transform, PythonTransform):
        return None
    if isinstance(transform, TimestampRouter):
        return replace(known, topic=None)
    if isinstance(transform, HeaderFrom):
        known = replace(known, any_header_may_be_new=True)
    keeps_null = isinstance(transform, InsertField)
    of_value = isinstance(transform, SidedTransformation) and transform.side is Side.VALUE
    return replace(known, is_null=_UNKNOWN) if of_value and not keeps_null else known


def _with_headers(known: _Known, changes: dict[str, bool | None]) -> _Known:
    return replace(known, headers={**known.headers, **changes})


def _empty(topic: str) -> SinkRecord:
    return SinkRecord(topic=topic, offset=0)
