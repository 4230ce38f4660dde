"""From texts to parsed schemas: references are followed, and what was parsed is remembered."""

import json

import pytest

from moldau.registry.errors import RegistryProblem
from moldau.registry.parsing import Parser, Task
from moldau.registry.records import Entry, SchemaKey, SchemaValue
from moldau.registry.schemas import Reference
from moldau.registry.state import State

MONEY = '{"type":"record","name":"Money","fields":[{"name":"cents","type":"long"}]}'
ORDER = '{"type":"record","name":"Order","fields":[{"name":"price","type":"Money"}]}'
TO_MONEY = (Reference("Money", "money", 1),)


@pytest.fixture
def state() -> State:
    state = State()
    state.apply(Entry(SchemaKey("money", 1), SchemaValue("money", 1, 1, MONEY)))
    return state


def test_a_schema_with_a_reference(state: State) -> None:
    parser = Parser()
    parsed = parser.parse(state, "orders", "AVRO", ORDER, TO_MONEY)
    assert json.loads(parsed.text)["name"] == "Order"
    assert parser.parse(state, "orders", "AVRO", ORDER, TO_MONEY) is parsed, "it is remembered"


@pytest.mark.parametrize(
    ("kind", "text", "references", "words"),
    [
        ("AVRO", '{"type":"nothing"}', (), "Invalid schema"),
        ("AVRO", ORDER, (), "Invalid schema"),
        ("AVRO", ORDER, (Reference("Money", "nowhere", 1),), "No schema reference found for Money"),
        ("XML", MONEY, (), "Invalid schema type XML"),
    ],
)
def test_a_schema_that_makes_no_sense(
    state: State, kind: str, text: str, references: tuple[Reference, ...], words: str
) -> None:
    with pytest.raises(RegistryProblem, match=words) as refused:
        Parser().parse(state, "orders", kind, text, references)
    assert refused.value.code == 42201


def test_a_stored_schema_that_makes_no_sense_is_none(state: State) -> None:
    broken = SchemaValue("odd", 1, 2, '{"type":"nothing"}')
    assert Parser().of(state, broken) is None
    found = Parser().of(state, state.version("money", 1))
    assert found is not None


def test_a_verdict_is_about_what_references_stand_for(state: State) -> None:
    """The same names mean something else in another context, and after a permanent delete."""
    parser = Parser()

    def put(subject: str, kind: str) -> None:
        text = MONEY.replace("long", kind)
        state.apply(Entry(SchemaKey(subject, 1)))
        state.apply(Entry(SchemaKey(subject, 1), SchemaValue(subject, 1, 5 if kind == "long" else 6, text)))

    def against(subject: str) -> list[str]:
        old = SchemaValue(subject, 1, 8, ORDER, references=(Reference("Money", "old-money", 1),))
        new = SchemaValue(subject, 2, 9, ORDER, references=(Reference("Money", "new-money", 1),))
        return parser.incompatibilities(state, subject, "BACKWARD", new, [old])

    put("old-money", "long")
    put("new-money", "long")
    assert not against("orders")
    put(":.eu:old-money", "string")
    put(":.eu:new-money", "long")
    assert against(":.eu:orders"), "text is no number, in whichever context the names were met first"
    put("old-money", "string")
    assert against("orders"), "version 1 is another schema since it was deleted for good"


def test_a_verdict_looks_through_references_of_references(state: State) -> None:
    parser = Parser()
    basket = '{"type":"record","name":"Basket","fields":[{"name":"order","type":"Order"}]}'
    to_order = (Reference("Order", "order", 1),)
    state.apply(Entry(SchemaKey("order", 1), SchemaValue("order", 1, 2, ORDER, references=TO_MONEY)))
    first = parser.parse(state, "b", "AVRO", basket, to_order)
    state.apply(Entry(SchemaKey("money", 1), SchemaValue("money", 1, 1, MONEY.replace("long", "string"))))
    second = parser.parse(state, "b", "AVRO", basket, to_order)
    assert first.fingerprint == second.fingerprint
    assert first.resolved != second.resolved


def test_what_speaks_against_a_schema(state: State) -> None:
    parser = Parser()
    narrowed = SchemaValue("money", 2, 2, MONEY.replace("long", "string"))
    against = parser.incompatibilities(state, "money", "BACKWARD", narrowed, state.versions("money"))
    assert any("oldSchemaVersion: 1" in each for each in against)
    assert against[-1].startswith("{oldSchema: ")
    same = state.version("money", 1)
    assert parser.incompatibilities(state, "money", "FULL", same, [same]) == []


def test_levels_however_they_are_written() -> None:
    assert Parser().level("backward_transitive") == "BACKWARD_TRANSITIVE"
    for bad in ("sideways", None, 3):
        with pytest.raises(RegistryProblem) as refused:
            Parser().level(bad)
        assert refused.value.code == 42203


def test_the_long_part_can_be_done_elsewhere(state: State) -> None:
    parser = Parser()
    work = parser.work(state, "orders", "AVRO", ORDER, TO_MONEY)
    assert work is not None
    work.keep(work.function(*work.arguments))
    assert parser.work(state, "orders", "AVRO", ORDER, TO_MONEY) is None, "there is nothing left to do"


def test_large_work_is_told_from_small(state: State) -> None:
    parser = Parser()
    many = json.dumps({"type": "enum", "name": "E", "symbols": [f"S{n}" for n in range(3_000)]})
    for kind, text, large, compiles in (
        ("AVRO", MONEY, False, False),
        ("AVRO", many, True, False),
        ("PROTOBUF", 'syntax = "proto3";', False, True),
    ):
        work = parser.work(state, "s", kind, text, ())
        assert work is not None
        assert (work.large, work.compiles) == (large, compiles)
    stored = SchemaValue("s", 1, 1, many)
    assert _large(parser.comparison(state, "s", "BACKWARD", stored, [stored]))


def _large(task: Task | None) -> bool:
    assert task is not None
    return task.large


def test_alternatives_each_of_which_meets_each_are_large_sooner(state: State) -> None:
    parser = Parser()
    plain = json.dumps({"type": "object", "properties": {f"a{n}": {"type": "string"} for n in range(150)}})
    several = json.dumps({"oneOf": [{"title": f"alternative {n}", "type": "integer"} for n in range(80)]})
    for text, large in ((plain, False), (several, True)):
        stored = SchemaValue("s", 1, 1, text, "JSON")
        assert 3_000 < len(text) < 5_000
        assert _large(parser.comparison(state, "s", "BACKWARD", stored, [stored])) is large
