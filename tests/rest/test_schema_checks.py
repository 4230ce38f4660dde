"""Values with JSON Schemas that may take long: checked beside the proxy, and given up in time."""

import asyncio
import json

import pytest

from moldau.rest import schema_checks
from moldau.rest.schema_checks import SchemaChecks
from moldau.web.problems import Problem


def doubled(count):
    """Each definition refers twice to the one before it: one number is looked at 2**count times."""
    definitions = {"a0": {"type": "integer"}}
    for place in range(1, count):
        definitions[f"a{place}"] = {"allOf": [{"$ref": f"#/$defs/a{place - 1}"}] * 2}
    return json.dumps({"$defs": definitions, "$ref": f"#/$defs/a{count - 1}"})


def checked(*questions):
    """What is said of each: a schema, what it refers to, and values."""

    async def ask():
        checks, found = SchemaChecks(), []
        try:
            for question in questions:
                try:
                    found.append(await checks.check(*question))
                except Problem as problem:
                    found.append(problem.message.partition(" failed: ")[2])
        finally:
            checks.close()
        return found

    return asyncio.run(ask())


def test_what_fits_and_what_does_not():
    schema = json.dumps({"properties": {"id": {"$ref": "id.json"}}})
    references = {"id.json": json.dumps({"type": "integer"})}
    good, bad = {"id": 1}, {"id": "x"}
    found = checked((schema, references, [good, good]), (schema, references, [good, bad]))
    assert found == [None, 'id: "x" is not of type "integer".']


def test_a_schema_that_takes_for_ever_is_given_up(monkeypatch):
    monkeypatch.setattr(schema_checks, "_TIMEOUT_MS", 300)
    found = checked((doubled(60), {}, [1]), (doubled(10), {}, [1]))
    assert found == ["to check the values of the request with this schema takes more than 0.3 s", None]


def test_a_schema_that_cannot_be_used_says_so():
    (said,) = checked(('{"type": 7}', {}, [1]))
    assert said.startswith("The JSON Schema cannot be used")


@pytest.mark.slow
def test_a_request_with_such_a_schema_is_refused_and_others_are_answered(broker, typed, refusal, monkeypatch):
    monkeypatch.setattr(schema_checks, "_TIMEOUT_MS", 1_000)
    broker.create_topic("t", 1)
    headers = {"Content-Type": "application/vnd.kafka.jsonschema.v2+json"}
    body = {"value_schema": doubled(60), "records": [{"value": 1}]}
    assert refusal(typed.post("/topics/t", json=body, headers=headers)) == (422, 42203)
    cluster = typed.get("/v3/clusters").json()["data"][0]["cluster_id"]
    record = {"value": {"type": "JSONSCHEMA", "schema": doubled(60), "data": 1}}
    answer = typed.post(f"/v3/clusters/{cluster}/topics/t/records", json=record)
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42203)
    few = {"value_schema": doubled(12), "records": [{"value": 1}]}
    assert typed.post("/topics/t", json=few, headers=headers).status_code == 200
    assert [json.loads(each.value[5:]) for each in broker.records("t")] == [1]
