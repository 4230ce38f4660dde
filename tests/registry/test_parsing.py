"""From texts to parsed schemas: references are followed, and what was parsed is remembered."""

import json

import pytest

from moldau.registry.errors import RegistryProblem
from moldau.registry.parsing import Parser
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


def test_what_speaks_against_a_schema(state: State) -> None:
    parser = Parser()
    narrowed = SchemaValue("money", 2, 2, MONEY.replace("long", "string"))
    against = parser.incompatibilities(state, "money", "BACKWARD", narrowed, state.versions("money"))
    assert any("oldSchemaVersion: 1" in each for each in against)
    assert against[-1] == "{compatibility: 'BACKWARD'}"
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
    keep = work()
    keep()
    assert parser.work(state, "orders", "AVRO", ORDER, TO_MONEY) is None, "there is nothing left to do"
