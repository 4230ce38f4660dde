"""Plays vectors: ``python -m tests.streams.play FILE …`` runs each through the engine and says whether all
agrees.

With ``--spark`` vectors go through a Structured Streaming query in random micro-batches, see
``spark_vectors``.

Invariant: everything that a vector states is compared: outputs update by update, side effects, rows of
stores, dropped records, records of internal topics, ``describe()``, errors.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from moldau.streams import StreamsError, TestDriver, Topology, TopologyError
from moldau.streams.engine.stores.store import Store
from moldau.streams.engine.stores.windows import SessionStore, WindowStore
from moldau.streams.errors import DecodeError, NullKeyError
from moldau.streams.topology.copartitioning import PartitionCount, repartition_counts
from tests.streams.expressions import plain
from tests.streams.programs import built

Vector = dict[str, Any]
_START_MS = 1_000_000
_APPLICATION = "app"

_JAVA_CLASSES: list[tuple[type[BaseException], str]] = [
    (TopologyError, "org.apache.kafka.streams.errors.TopologyException"),
    (NullKeyError, "java.lang.NullPointerException"),
    (StreamsError, "org.apache.kafka.streams.errors.StreamsException"),
    (LookupError, "java.lang.IllegalStateException"),
    (RuntimeError, "java.lang.IllegalStateException"),
    (ValueError, "java.lang.IllegalArgumentException"),
]


def play(vector: Vector) -> list[str]:
    """Runs one vector; gives what does not agree."""
    got = run(vector)
    return differences(vector, got)


class Play:
    """One run of a vector."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector
        self.outputs: list[dict[str, Any]] = []
        self.side_effects: list[dict[str, Any]] = []
        self.number = 0
        self.config = vector.get("config") or {}

    def saw(self, label: str, key: Any, value: Any) -> None:
        self.side_effects.append({"i": self.number, "step": label, "key": plain(key), "value": plain(value)})

    def topology(self) -> Topology:
        builder = built(self.vector["topology"], self.saw)
        return builder.build(self.config.get("topology.optimization", "none"))

    def driver(self, topology: Topology) -> TestDriver:
        def on_error(setting: str) -> Any:
            return "continue" if "LogAndContinue" in self.config.get(setting, "") else "fail"

        return TestDriver(
            topology,
            wall_clock_ms=_START_MS,
            processing_errors=on_error("processing.exception.handler"),
            decoding_errors=on_error("deserialization.exception.handler"),
            application_id=_APPLICATION,
        )

    def feed(self, driver: TestDriver, given: dict[str, Any]) -> None:
        if "advance_wall_clock_ms" in given:
            results = driver.advance_wall_clock(given["advance_wall_clock_ms"])
        else:
            headers = tuple((name, value) for name, value in given.get("headers") or ())
            topic, time = given["topic"], given["timestamp"]
            if "raw_value" in given or "raw_key" in given:
                key = given["raw_key"].encode() if "raw_key" in given else _json_bytes(given["key"])
                value = given["raw_value"].encode() if "raw_value" in given else _json_bytes(given["value"])
                results = driver.pipe_raw_input(topic, key, value, time, headers)
            else:
                results = driver.pipe_input(topic, given["key"], given["value"], time, headers)
        for output in sorted(results, key=lambda each: each.topic):
            row = {
                "i": self.number,
                "topic": output.topic,
                "key": plain(output.key),
                "value": plain(output.value),
                "timestamp": output.timestamp,
            }
            if output.headers:
                row["headers"] = [list(header) for header in output.headers]
            self.outputs.append(row)


def _json_bytes(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value).encode()


def run(vector: Vector) -> dict[str, Any]:
    """What the engine makes of a vector, in the vector's own form."""
    playing = Play(vector)
    try:
        topology = playing.topology()
    except Exception as error:
        return {"error": described_error("build", error)}
    try:
        driver = playing.driver(topology)
    except Exception as error:
        return {"error": described_error("start", error)}
    got: dict[str, Any] = {"outputs": playing.outputs, "describe": topology.describe()}
    got["internal_topics"] = internal_topics(driver)
    for number, given in enumerate(vector["inputs"]):
        playing.number = number
        try:
            playing.feed(driver, given)
        except Exception as error:
            return {**got, "error": {**described_error("input", error), "i": number}}
        got["internal_topics"] = internal_topics(driver)
    return {
        **got,
        "side_effects": playing.side_effects,
        "stores": named_stores(vector, driver),
        "dropped_records": driver.dropped_records,
    }


def internal_topics(driver: TestDriver) -> dict[str, int]:
    counts = {f"{_APPLICATION}-{topic}": count for topic, count in driver.internal_records.items()}
    for name, store in driver.stores.items():
        spec = driver.topology.stores[name]
        is_logged = spec.is_logged and name not in driver.topology.reused_topics
        if is_logged and store.changelog_records:
            counts[f"{_APPLICATION}-{spec.changelog}"] = store.changelog_records
    return counts


def named_stores(vector: Vector, driver: TestDriver) -> dict[str, list[dict[str, Any]]]:
    """The rows of the stores that the vector's steps name."""
    names = {step["store"] for step in vector["topology"] if "store" in step}
    return {name: rows_of(driver.store(name)) for name in sorted(names) if name in driver.stores}


def rows_of(store: Store) -> list[dict[str, Any]]:
    rows = []
    for entry in store.entries():
        row: dict[str, Any] = {"key": plain(entry.key)}
        if isinstance(store, WindowStore | SessionStore):
            row = dict(row["key"])
        row["value"] = plain(entry.value)
        if entry.timestamp is not None:
            row["timestamp"] = entry.timestamp
        rows.append(row)
    return rows


def described_error(at: str, error: BaseException) -> dict[str, Any]:
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    described = {"at": at, "class": java_class(error), "message": message_of(error)}
    if root is not error:
        described |= {"root_class": java_class(root), "root_message": message_of(root)}
    return described


def java_class(error: BaseException) -> str:
    return next((name for kind, name in _JAVA_CLASSES if isinstance(error, kind)), type(error).__name__)


def message_of(error: BaseException) -> str:
    return error.kafka_message if isinstance(error, TopologyError) else str(error)


# --- comparing --------------------------------------------------------------------------------------


def differences(vector: Vector, got: dict[str, Any]) -> list[str]:
    """Field by field, what the vector says and what the engine did."""
    found: list[str] = []
    for field in ("outputs", "side_effects", "stores", "dropped_records", "internal_topics", "error"):
        if field == "error":
            expected, actual = comparable_errors(vector.get("error"), got.get("error"))
        elif "error" in vector and field not in vector:
            continue
        else:
            default: Any = {"dropped_records": 0, "stores": {}, "internal_topics": {}}.get(field, [])
            expected, actual = vector.get(field, default), got.get(field, default)
        if not same(expected, actual):
            found.append(f"{field}: {difference(expected, actual)}")
    if "describe" in vector and without_classes(vector["describe"]) != without_classes(
        got.get("describe", "")
    ):
        found.append(f"describe: expected\n{vector['describe']}but got\n{got.get('describe')}")
    return found


def comparable_errors(expected: Any, actual: Any) -> tuple[Any, Any]:
    """The root of a record that does not decode is an exception of some Java library: any will do."""
    if expected and actual and actual.get("root_class") in ("TypeError", "AttributeError"):
        # A function of the vector met a null where it wants a value; how that is called is the language's.
        actual = {**actual, "root_class": "null in a function", "root_message": ""}
        if str(expected.get("root_class")).endswith(("NullPointerException", "ClassCastException")):
            expected = {**expected, "root_class": "null in a function", "root_message": ""}
    if expected and actual and actual.get("message") == expected.get("message"):
        roots = ("root_class", "root_message")
        library = not str(expected.get("root_class", "")).startswith(("java.lang.", "org.apache.kafka."))
        if "Deserialization" in actual["message"] or library:
            return (
                {name: value for name, value in expected.items() if name not in roots},
                {name: value for name, value in actual.items() if name not in roots},
            )
    return expected, actual


def without_classes(text: str) -> str:
    """Kafka prints the class and the address of a function that chooses topics."""
    lines = text.split("\n")
    return "\n".join(
        line.split("(extractor class:")[0] if "extractor class" in line else line for line in lines
    )


def same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def difference(expected: Any, actual: Any) -> str:
    if isinstance(expected, list) and isinstance(actual, list):
        for number in range(max(len(expected), len(actual))):
            one = expected[number] if number < len(expected) else "nothing"
            other = actual[number] if number < len(actual) else "nothing"
            if not same(one, other):
                return f"number {number}: expected {json.dumps(one)}, got {json.dumps(other)}"
    return f"expected {json.dumps(expected)}, got {json.dumps(actual)}"


# --- co-partitioning: cases of another form ---------------------------------------------------------


def play_copartitioning(case: dict[str, Any]) -> list[str]:
    counts: dict[str, PartitionCount] = {}
    for topic, count in case["topics"].items():
        if isinstance(count, str):
            asked = count.split(" ")[0]
            counts[topic] = PartitionCount(int(asked) if asked.isdigit() else None, is_repartition=True)
        else:
            counts[topic] = PartitionCount(count)
    try:
        chosen = repartition_counts(counts)
    except (TopologyError, LookupError) as error:
        got: Any = {"class": java_class(error), "message": error.args[0]}
        if isinstance(error, TopologyError):
            got["message"] = error.kafka_message
        expected = case.get("error")
    else:
        got = "accepted" + "".join(f", {topic} gets {count}" for topic, count in chosen.items())
        expected = case.get("result")
    return [] if same(expected, got) else [difference(expected, got)]


def cases(path: Path) -> list[tuple[str, Any, Any]]:
    """Name, case and how it is played, of every case of a file."""
    content = json.loads(path.read_text())
    if isinstance(content, dict) and "cases" in content:
        return [
            (f"{path.stem}/{number}", case, play_copartitioning)
            for number, case in enumerate(content["cases"])
        ]
    vectors = content["vectors"] if isinstance(content, dict) else content
    return [(vector["name"], vector, play) for vector in vectors]


def play_on_spark(arguments: list[tuple[str, Any, Any]], seed: int, player: Any) -> dict[str, list[str]]:
    """Plays the cases of a file: what reaches Spark in one query, the rest by the engine."""
    from tests.streams.spark_vectors import continues, fails_to_decode, playable_on_spark

    vectors = [case for _, case, how in arguments if how is play and playable_on_spark(case)]
    found: dict[str, list[str]] = {}
    lonely = [vector for vector in vectors if fails_to_decode(vector)]
    together = [vector for vector in vectors if vector not in lonely]
    for handler in (False, True):
        chosen = [vector for vector in together if continues(vector) is handler]
        try:
            found |= player.play(chosen, seed, continues=handler) if chosen else {}
        except Exception as error:  # one query for all: who it was is in what the query says
            why = f"the query of {len(chosen)} vectors failed: {type(error).__name__}: {error}"
            found |= {vector["name"]: [why] for vector in chosen}
    for vector in lonely:
        # A record that does not decode ends the query, whoever else is in it.
        try:
            player.play([vector], seed)
            found[vector["name"]] = ["the query did not fail"]
        except Exception as error:
            ends = "does not decode" in str(error)
            found[vector["name"]] = [] if ends else [f"the query failed otherwise: {error}"]
    return found | {name: how(case) for name, case, how in arguments if name not in found}


USAGE = "usage: python -m tests.streams.play [--spark [--seed N]] FILE …"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(usage=USAGE[7:])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--spark", action="store_true", help="through a query, in random micro-batches")
    parser.add_argument("--seed", type=int, default=1, help="of the micro-batches")
    try:
        given = parser.parse_args(arguments)
    except SystemExit:
        return 2
    passed = failed = 0
    with on_spark() if given.spark else nullcontext() as player:
        for argument in given.files:
            found = _played(cases(Path(argument)), given.seed, player)
            for name, differing in found.items():
                passed, failed = (passed, failed + 1) if differing else (passed + 1, failed)
                why = "; ".join(differing).replace("\n", "\\n")
                print(f"{name} FAIL {why}" if differing else f"{name} PASS", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _played(found: list[tuple[str, Any, Any]], seed: int, player: Any) -> dict[str, list[str]]:
    if player is not None:
        return play_on_spark(found, seed, player)
    results = {}
    for name, case, how in found:
        try:
            results[name] = how(case)
        except Exception as error:
            results[name] = [f"the player failed: {type(error).__name__}: {error}"]
    return results


@contextmanager
def on_spark() -> Iterator[Any]:
    """A player with a Spark of its own."""
    from moldau.spark import spark_session
    from tests.streams.spark_vectors import SparkPlayer

    with tempfile.TemporaryDirectory() as directory:
        session = spark_session(
            "vectors",
            master="local[2]",
            spark_driver_memory="1g",
            spark_driver_extraJavaOptions="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            spark_ui_showConsoleProgress="false",
        )
        session.sparkContext.setLogLevel("OFF")
        try:
            yield SparkPlayer(session, Path(directory))
        finally:
            session.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


__all__ = ["DecodeError", "cases", "main", "play"]
