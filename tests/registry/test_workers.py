"""Where schemas are parsed and compared: small ones in threads, large ones in processes that can be ended."""

import asyncio
import json

import pytest

from moldau.registry import parsing, workers
from moldau.registry.parsing import Task
from moldau.registry.rules.compatibility import Level
from moldau.registry.schemas import InvalidSchema, SchemaType, parse
from moldau.registry.workers import Workers

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def alternatives(kind: str, count: int) -> str:
    """A JSON Schema each of whose parts has to be compared with each part of another one."""
    parts = [{"type": "object", "properties": {f"a{n}": {"type": kind}}} for n in range(count)]
    return json.dumps({"oneOf": parts})


def run(*tasks: Task):
    async def work():
        found = []
        pool = Workers()
        try:
            for task in tasks:
                try:
                    found.append(await pool.run(task))
                except TimeoutError as error:
                    found.append(error)
        finally:
            pool.close()
        return found

    return asyncio.run(work())


def task(function, *arguments, large: bool = True) -> Task:
    return Task(function, arguments, lambda found: None, large)


def test_a_process_finds_what_a_thread_finds():
    text = json.dumps({"type": "enum", "name": "E", "symbols": [f"S{n}" for n in range(2_000)]})
    arguments = (parsing.parsed_forms, SchemaType.AVRO, text, [])
    here, there = run(task(*arguments, large=False), task(*arguments))
    assert here == there
    assert here[text].fingerprint == there[text].fingerprint


def test_what_is_wrong_comes_back():
    (found,) = run(task(parsing.parsed_forms, SchemaType.AVRO, "{", []))
    assert isinstance(found, InvalidSchema)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SchemaType.AVRO, ORDER),
        (SchemaType.JSON, alternatives("integer", 3)),
        (SchemaType.PROTOBUF, 'syntax = "proto3";\nmessage M { map<string, M> more = 1; }\n'),
    ],
)
def test_schemas_of_every_kind_are_compared_there(kind, text):
    schema = parse(kind, text)
    assert run(task(parsing.all_conflicts, Level.FULL, schema, [schema])) == [[[]]]


@pytest.mark.slow
def test_one_that_takes_too_long_is_ended_and_the_next_one_is_not(monkeypatch):
    old, new = (parse(SchemaType.JSON, alternatives(kind, 200)) for kind in ("integer", "number"))
    bomb = task(parsing.all_conflicts, Level.FULL, new, [old])
    small = task(parsing.parsed_forms, SchemaType.AVRO, ORDER, [], large=False)
    monkeypatch.setattr(workers, "_TIMEOUT_MS", 100)
    *ended, found = run(bomb, bomb, bomb, small)
    assert [type(each) for each in ended] == [TimeoutError] * 3
    assert ORDER.replace(" ", "") in found


class Deep:
    def __reduce__(self):
        raise RecursionError


def test_a_schema_that_is_too_deep_to_be_sent_is_looked_at_here():
    deep = Deep()
    assert run(task(id, deep)) == [id(deep)]
