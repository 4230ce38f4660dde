"""Plays vectors of transforms, predicates and converters, and says of each whether the result is the expected
one.

``python -m tests.connect.play FILE ...`` prints ``id PASS`` or ``id FAIL why`` a line and ends with the
counts.
"""

import base64
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from moldau.connect.compatibility import Compatibility
from moldau.connect.converters.catalogue import converter
from moldau.connect.errors import JavaError, NullPointerException
from moldau.connect.transforms.catalogue import PREDICATES, predicate, transformation
from tests.connect.notation import (
    record_node,
    record_of,
    schema_node,
    schema_of,
    value_node,
    value_of,
    without_order,
)

TOPIC, HEADER = "t", "h"


class Result(NamedTuple):
    id: str
    #: What differs, or None.
    problem: str | None


def play(vector: dict[str, Any]) -> Result:
    try:
        actual = outcome(vector)
    except Exception as error:
        return Result(vector["id"], f"crashed with {type(error).__name__}: {error}")
    expected = expectation(vector)
    if actual == expected:
        return Result(vector["id"], None)
    return Result(vector["id"], f"expected {json.dumps(expected)}, got {json.dumps(actual)}")


def outcome(vector: dict[str, Any]) -> dict[str, Any]:
    """What happened, in the words of the vector."""
    phase = ["configure"]
    try:
        if "call" in vector:
            return run_converter(vector, phase)
        return run_transformation(vector, phase)
    except JavaError as error:
        cause = error.__cause__
        return comparable(
            {
                "phase": phase[0],
                "class": error.java_class,
                "message": error.message,
                "cause": cause.java_class if isinstance(cause, JavaError) else None,
            }
        )


def run_transformation(vector: dict[str, Any], phase: list[str]) -> dict[str, Any]:
    record = record_of(vector["in"], vector["record_kind"])
    if vector["class"] in PREDICATES:
        tested = predicate(vector["class"], vector["config"])
        phase[0] = "test"
        return {"result": tested.test(record)}
    transform = transformation(vector["class"], vector["config"], Compatibility.KAFKA)
    phase[0] = "apply"
    made = transform.apply(record)
    if made is None:
        return {"dropped": True}
    result = {"out": without_order(record_node(made))}
    if vector.get("same_object"):
        result["same_object"] = made is record
    return result


def run_converter(vector: dict[str, Any], phase: list[str]) -> dict[str, Any]:
    call = vector["call"]
    kind = "header" if call.endswith("Header") else "value"
    made = converter(vector["class"], vector["config"], kind, Compatibility.KAFKA)
    phase[0] = "convert"
    if call.startswith("from"):
        schema = schema_of(vector["schema"])
        value = value_of(vector["value"], schema)
        if kind == "header":
            raw = made.from_connect_header(TOPIC, HEADER, schema, value)
        else:
            raw = made.from_connect(TOPIC, schema, value)
        return {"bytes": None if raw is None else base64.b64encode(raw).decode()}
    raw = None if vector["bytes"] is None else base64.b64decode(vector["bytes"])
    found = made.to_connect_header(TOPIC, HEADER, raw) if kind == "header" else made.to_connect(TOPIC, raw)
    if found is None:  # as the program that made the vectors failed
        raise NullPointerException(
            'Cannot invoke "org.apache.kafka.connect.data.SchemaAndValue.schema()" because "<local5>" is null'
        )
    return without_order({"schema": schema_node(found.schema), "value": value_node(found.value)})


def expectation(vector: dict[str, Any]) -> dict[str, Any]:
    if "error" in vector:
        return comparable(vector["error"])
    if "result" in vector:
        return {"result": vector["result"]}
    if "call" in vector:
        if vector["call"].startswith("from"):
            return {"bytes": vector["bytes"]}
        return without_order({"schema": vector["schema"], "value": vector["value"]})
    if vector.get("out") is None:
        return {"dropped": True}
    result = {"out": without_order(vector["out"])}
    if vector.get("same_object"):
        result["same_object"] = True
    return result


def comparable(error: dict[str, Any]) -> dict[str, Any]:
    """An error without the message of its cause, which may come from a library, and without addresses."""
    message = error["message"]
    if message is not None:
        message = re.sub(r"@[0-9a-f]{1,8}\b", "@", message)
    return {"phase": error["phase"], "class": error["class"], "message": message, "cause": error.get("cause")}


def vectors(path: Path) -> Iterator[dict[str, Any]]:
    content = json.loads(path.read_text(encoding="utf-8"))
    yield from content["vectors"] if isinstance(content, dict) else content


def main(paths: list[str]) -> int:
    passed = failed = 0
    for path in paths:
        for vector in vectors(Path(path)):
            result = play(vector)
            passed += result.problem is None
            failed += result.problem is not None
            print(f"{result.id} PASS" if result.problem is None else f"{result.id} FAIL {result.problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
