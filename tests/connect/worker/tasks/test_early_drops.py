"""What is said to be dropped for certain is dropped by the chain: chains and records by hand, Apache's own
results, and chains at random."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from moldau.connect.transforms.base import Side
from moldau.connect.worker.settings import standalone_settings
from moldau.connect.worker.tasks.early_drops import (
    AllOf,
    AnyOf,
    Condition,
    HasHeader,
    HasHeaders,
    IsNull,
    IsText,
    Not,
    OfTopic,
    certain_drops,
    holds,
    sql_of,
)
from moldau.connect.worker.tasks.handling import ErrorHandling
from moldau.connect.worker.tasks.processing import Processing, RawRecord, StepFailed, processing_of
from tests.connect.play import vectors

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
VECTORS = Path(__file__).parents[2] / "vectors" / "transforms.json"
_PACKAGE = "org.apache.kafka.connect.transforms"
KEY_NULL, VALUE_NULL = IsNull(Side.KEY), IsNull(Side.VALUE)
HEADER = HasHeader("a")

Parts = list[tuple[str, dict[str, str]]]


def config(
    chain: Parts, predicates: dict[str, tuple[str, dict[str, str]]] | None = None, **more: str
) -> dict[str, str]:
    """A configuration; transforms and predicates by the ends of their names."""
    made = {
        "key.converter": BYTES,
        "value.converter": BYTES,
        "transforms": ",".join(map(str, range(len(chain)))),
        "predicates": ",".join(predicates or {}),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    for number, (kind, settings) in enumerate(chain):
        made[f"transforms.{number}.type"] = f"{_PACKAGE}.{kind}"
        made |= {f"transforms.{number}.{name}": value for name, value in settings.items()}
    for alias, (kind, settings) in (predicates or {}).items():
        made[f"predicates.{alias}.type"] = f"{_PACKAGE}.predicates.{kind}"
        made |= {f"predicates.{alias}.{name}": value for name, value in settings.items()}
    return made


def processing(given: dict[str, str]) -> Processing:
    nothing = dict.fromkeys(("key.converter", "value.converter"), JSON)
    return processing_of(given, standalone_settings({**nothing, "offset.storage.file.filename": "-"}))


def certain(given: dict[str, str], topics: tuple[str, ...] = ("t",)) -> Condition | None:
    return certain_drops(processing(given), ErrorHandling.of(given), topics)


def unless(predicate: str, **more: str) -> tuple[str, dict[str, str]]:
    """A filter by a predicate."""
    return "Filter", {"predicate": predicate, **more}


NULL = {"null": ("RecordIsTombstone", {})}
A = {"a": ("HasHeaderKey", {"name": "a"})}
OLD = {"old": ("TopicNameMatches", {"pattern": "old-.*"})}
IN_T = OfTopic("t")
SILENT = {"errors_tolerance": "all"}
INSERT: Parts = [("InsertField$Value", {"topic.field": "x"})]
HOIST: Parts = [("HoistField$Value", {"field": "x"})]

CASES: list[tuple[str, dict[str, str], Condition | None]] = [
    ("tombstones", config([unless("null")], NULL), AllOf((IN_T, VALUE_NULL))),
    ("all but tombstones", config([unless("null", negate="true")], NULL), AllOf((IN_T, Not(VALUE_NULL)))),
    ("a header", config([unless("a")], A), AllOf((IN_T, HEADER))),
    ("no header", config([unless("a", negate="true")], A), AllOf((IN_T, Not(HEADER)))),
    ("everything", config([("Filter", {})]), IN_T),
    ("nothing", config(INSERT), None),
    ("another topic", config([unless("old")], OLD), None),
    (
        "two filters",
        config([unless("null"), unless("a")], NULL | A),
        AllOf((IN_T, AnyOf((VALUE_NULL, HEADER)))),
    ),
    # What converters may fail of comes first, as in Kafka.
    (
        "keys that are texts",
        config([unless("null")], NULL, key_converter=STRING),
        AllOf((IN_T, IsText(Side.KEY), VALUE_NULL)),
    ),
    (
        "texts as Kafka reads them",
        config([unless("null")], NULL, key_converter=STRING, compatibility="kafka"),
        AllOf((IN_T, VALUE_NULL)),
    ),
    (
        "texts of another encoding",
        config(
            [unless("null")], NULL, key_converter=STRING, **{"key_converter.converter.encoding": "UTF-16"}
        ),
        AllOf((IN_T, KEY_NULL, VALUE_NULL)),
    ),
    (
        "values of JSON",
        config([unless("null")], NULL, value_converter=JSON),
        AllOf((IN_T, VALUE_NULL, VALUE_NULL)),
    ),
    ("a JSON null is one too", config([unless("null", negate="true")], NULL, value_converter=JSON), None),
    (
        "headers of JSON",
        config([unless("null")], NULL, header_converter=JSON),
        AllOf((IN_T, Not(HasHeaders()), VALUE_NULL)),
    ),
    (
        "errors that nobody hears of",
        config([unless("null")], NULL, key_converter=JSON, header_converter=JSON, **SILENT),
        AllOf((IN_T, VALUE_NULL)),
    ),
    (
        "errors that become dead letters",
        config([unless("a")], A, key_converter=JSON, **{"errors_deadletterqueue.topic.name": "d"}, **SILENT),
        AllOf((IN_T, KEY_NULL, HEADER)),
    ),
    (
        "errors in the log",
        config([unless("a")], A, key_converter=JSON, errors_log_enable="true", **SILENT),
        AllOf((IN_T, KEY_NULL, HEADER)),
    ),
    # What transforms before it do.
    ("one that may fail", config([*INSERT, unless("null")], NULL), None),
    ("in silence", config([*INSERT, unless("null")], NULL, **SILENT), AllOf((IN_T, VALUE_NULL))),
    ("one that makes a value", config([*HOIST, unless("null")], NULL, **SILENT), None),
    (
        "a filter before one that may fail",
        config([unless("null"), *INSERT, unless("a")], NULL | A),
        AllOf((IN_T, VALUE_NULL)),
    ),
    ("a header that is gone", config([("DropHeaders", {"headers": "a"}), unless("a")], A), None),
    (
        "a header that is gone is missing",
        config([("DropHeaders", {"headers": "a"}), unless("a", negate="true")], A),
        IN_T,
    ),
    (
        "a header that is gone for some",
        config([("DropHeaders", {"headers": "a", "predicate": "null"}), unless("a")], A | NULL),
        None,
    ),
    (
        "a header that was added",
        config([("InsertHeader", {"header": "a", "value.literal": "1"}), unless("a")], A),
        IN_T,
    ),
    (
        "headers of fields",
        config(
            [
                ("HeaderFrom$Value", {"fields": "x", "headers": "a", "operation": "copy"}),
                unless("a", negate="true"),
            ],
            A,
            **SILENT,
        ),
        None,
    ),
    (
        "another name",
        config([("RegexRouter", {"regex": "(.*)", "replacement": "old-$1"}), unless("old")], OLD),
        IN_T,
    ),
    (
        "a name that cannot be made",
        config([("RegexRouter", {"regex": "(.*)", "replacement": "$7"}), unless("null")], NULL),
        None,
    ),
    ("a name by the time", config([("TimestampRouter", {}), unless("old")], OLD, **SILENT), None),
]


@pytest.mark.parametrize(("name", "settings", "expected"), CASES, ids=[case[0] for case in CASES])
def test_what_is_certain(name: str, settings: dict[str, str], expected: Condition | None) -> None:
    assert certain(settings) == expected


def test_each_topic_has_its_own_condition() -> None:
    settings = config([unless("old"), unless("null")], OLD | NULL)
    assert certain(settings, ("old-1", "new")) == AnyOf(
        (OfTopic("old-1"), AllOf((OfTopic("new"), VALUE_NULL)))
    )
    assert certain(settings, ()) is None  # topics by an expression


def test_a_name_is_no_sql() -> None:
    assert sql_of(HasHeader("x') OR (1=1")) == (
        "coalesce(exists(headers, each -> each.key = CAST(X'782729204f522028313d31' AS STRING)), false)"
    )


def test_predicates_are_those_of_apache() -> None:
    """Each vector of a predicate whose record may lie in a topic, as a filter, as it is and negated."""
    played = 0
    for vector in vectors(VECTORS):
        if ".predicates." not in vector["class"] or "result" not in vector:
            continue
        record = vector["in"]
        headers = tuple((header["key"], b"1") for header in record["headers"])
        raw = RawRecord(record["topic"], 3, b"k", record["value"] and b"v", headers, 5, 7)
        predicates = {"p": (vector["class"].rpartition(".")[2], vector["config"])}
        for negate in (False, True):
            settings = config([unless("p", negate=str(negate).lower())], predicates)
            found = certain(settings, (record["topic"],))
            assert (found is not None and holds(found, raw)) == (vector["result"] != negate), vector["id"]
            played += 1
    assert played >= 12


# --- at random --------------------------------------------------------------------------------------

NAMES = some.sampled_from(["a", "b"])
TOPICS = some.sampled_from(["t", "old-t"])
CONTENTS = some.sampled_from([None, b"", b"x", b"\xff", b"null", b'{"a": 1}', b"\xed\xa0\x80", b"1"])
STEPS: list[Any] = [
    ("Filter", {}),
    ("DropHeaders", {"headers": "a"}),
    ("InsertHeader", {"header": "b", "value.literal": "1"}),
    ("RegexRouter", {"regex": "t", "replacement": "old-$0"}),
    ("RegexRouter", {"regex": "old-(.)", "replacement": "$1$2"}),
    ("TimestampRouter", {"topic.format": "old-${timestamp}"}),
    *INSERT,
    *HOIST,
    ("ExtractField$Value", {"field": "a"}),
    ("Cast$Key", {"spec": "int8"}),
    ("ValueToKey", {"fields": "a"}),
    ("HeaderFrom$Value", {"fields": "a", "headers": "a", "operation": "move"}),
]
PREDICATES = NULL | A | OLD | {"b": ("HasHeaderKey", {"name": "b"})}


@some.composite
def chains(draw: some.DrawFn) -> Parts:
    made: Parts = []
    for _ in range(draw(some.integers(1, 5))):
        kind, settings = draw(some.one_of(some.just(STEPS[0]), some.sampled_from(STEPS)))
        if draw(some.booleans()) or kind == "Filter":
            predicate = draw(some.sampled_from([*PREDICATES]))
            settings = {
                **settings,
                "predicate": predicate,
                "negate": draw(some.sampled_from(["true", "false"])),
            }
        made.append((kind, settings))
    return made


@some.composite
def configurations(draw: some.DrawFn) -> dict[str, str]:
    converters = some.sampled_from([BYTES, STRING, JSON])
    more = {f"{side}_converter": draw(converters) for side in ("key", "value")}
    if draw(some.booleans()):
        more["header_converter"] = draw(converters)
    more["value_converter.schemas.enable"] = "false"
    return config(
        draw(chains()),
        PREDICATES,
        compatibility=draw(some.sampled_from(["strict", "kafka"])),
        errors_tolerance=draw(some.sampled_from(["all", "none"])),
        errors_log_enable=draw(some.sampled_from(["true", "false"])),
        **more,
    )


@some.composite
def raw_records(draw: some.DrawFn) -> RawRecord:
    headers = tuple(draw(some.lists(some.tuples(NAMES, CONTENTS), max_size=2)))
    timestamp = draw(some.sampled_from([None, 5]))
    return RawRecord(draw(TOPICS), 0, draw(CONTENTS), draw(CONTENTS), headers, timestamp, 7)


@given(configurations(), some.lists(raw_records(), min_size=1, max_size=8))
def test_what_is_certain_is_what_the_chain_does(settings: dict[str, str], raws: list[RawRecord]) -> None:
    whole, handling = processing(settings), ErrorHandling.of(settings)
    condition = certain_drops(whole, handling, ("t", "old-t"))
    for raw in raws:
        if condition is not None and holds(condition, raw):
            try:
                assert whole.incoming(raw) is None
            except StepFailed:
                assert handling.tolerates_all
                assert not handling.logs
