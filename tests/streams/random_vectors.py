"""Random programs with random inputs, in the notation of the vectors.

Invariant: a seed gives one vector. Functions take whatever value comes, null included, so that a program
seldom fails and says something about order, time and state.
"""

import random
from typing import Any

Step = dict[str, Any]

_TOPICS = "abcdef"
_KEYS = ("k", "l", "m")
_TEXT = ["str", ["v"]]
_ERRORS = "org.apache.kafka.streams.errors"


class _Result:
    """What a step gave: a stream or a table, and what is known of its keys."""

    def __init__(
        self, name: str, kind: str, keys: str = "text", *, closes: bool = False, versioned: bool = False
    ) -> None:
        self.name = name
        self.kind = kind
        self.keys = keys
        #: Whether windows close in it, so that suppress may wait for that.
        self.closes = closes
        self.versioned = versioned


class RandomVector:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        #: The unit of all times: one that fits into a segment of a store, or one that does not.
        self.unit = self.dice.choice((1, 1, 1, 1, 7_000))
        self.steps: list[Step] = []
        self.results: list[_Result] = []
        self.used: set[str] = set()
        self.topics: list[str] = []
        self.values: dict[str, str] = {}
        self.numbers = 0
        #: How many records are not JSON.
        self.spoils = 0.001

    def made(self) -> dict[str, Any]:
        dice = self.dice
        for _ in range(dice.choice((1, 2, 2, 3))):
            self.add_source()
        for _ in range(dice.randint(1, 7)):
            self.add_step()
        self.add_sinks()
        config = self.config()
        vector: dict[str, Any] = {"config": config} if config else {}
        return vector | {"topology": self.steps, "inputs": self.inputs()}

    def config(self) -> Step:
        found: Step = {}
        if self.chance(0.25):
            chosen = (
                "all",
                "merge.repartition.topics",
                "reuse.ktable.source.topics",
                "single.store.self.join",
            )
            found["topology.optimization"] = self.dice.choice(chosen)
        if self.chance(0.1):
            found["processing.exception.handler"] = f"{_ERRORS}.LogAndContinueProcessingExceptionHandler"
        if self.chance(0.1):
            found["deserialization.exception.handler"] = f"{_ERRORS}.LogAndContinueExceptionHandler"
            self.spoils = 0.08
        return found

    # --- helpers ------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def add(self, op: str, kind: str | None, like: _Result | None = None, **arguments: Any) -> _Result:
        """A step whose result has a name; ``kind`` None says that nothing follows it."""
        step: Step = {"op": op}
        if like is not None:
            step["of"] = like.name
            self.used.add(like.name)
        step |= arguments
        name = f"r{self.number()}"
        if kind is not None:
            step["as"] = name
        self.steps.append(step)
        result = _Result(name, kind or "", like.keys if like is not None else "text")
        if kind in ("stream", "table"):
            self.results.append(result)
        return result

    def maybe_named(self, share: float = 0.12) -> Step:
        return {"name": f"n{self.number()}"} if self.chance(share) else {}

    def maybe_stored(self, share: float = 0.5) -> Step:
        return {"store": f"s{self.number()}"} if self.chance(share) else {}

    def ms(self, *choices: int) -> int:
        return self.dice.choice(choices) * self.unit

    def of_kind(self, kind: str, keys: str | None = None) -> _Result | None:
        found = [each for each in self.results if each.kind == kind and keys in (None, each.keys)]
        # What nothing follows yet comes first, so that programs get long.
        fresh = [each for each in found if each.name not in self.used]
        if fresh and self.chance(0.75):
            found = fresh
        return self.dice.choice(found) if found else None

    # --- functions ----------------------------------------------------------------------------------

    def digit(self) -> str:
        return str(self.dice.randint(0, 5))

    def nullable(self, made: Any, value: str = "v", share: float = 0.2) -> Any:
        if not self.chance(share):
            return made
        return ["if", ["contains", ["str", [value]], self.digit()], None, made]

    def predicate(self) -> Any:
        return self.dice.choice(
            (
                ["contains", _TEXT, self.digit()],
                ["not", ["contains", _TEXT, self.digit()]],
                ["ne", ["v"], int(self.digit())],
                ["gt", ["len", _TEXT], 1],
                ["eq", ["k"], self.dice.choice(_KEYS)],
                ["not", ["isnull", ["v"]]],
            )
        )

    def value_function(self) -> Any:
        if self.chance(0.03):
            return ["if", ["contains", _TEXT, self.digit()], ["fail", "boom"], ["v"]]
        return self.nullable(
            self.dice.choice(
                (
                    ["concat", ["v"], "!"],
                    ["len", _TEXT],
                    ["obj", {"n": ["len", _TEXT], "g": ["v"]}],
                    _TEXT,
                    ["v"],
                )
            )
        )

    def key_function(self) -> Any:
        plain = ["concat", "g", ["len", _TEXT]]
        return self.dice.choice((plain, plain, _TEXT, ["if", ["contains", _TEXT, self.digit()], None, plain]))

    def joiner(self) -> Any:
        return self.nullable(["concat", ["l"], "+", ["r"]], self.dice.choice(("l", "r")), 0.15)

    # --- sources and sinks --------------------------------------------------------------------------

    def add_source(self, kind: str | None = None) -> _Result:
        dice = self.dice
        kind = kind or dice.choice(("stream", "stream", "table"))
        if (
            kind == "stream"
            and self.chance(0.1)
            and any(s["op"] == "stream" and "topic" in s for s in self.steps)
        ):
            # Sources of one topic are merged.
            topic = dice.choice([s["topic"] for s in self.steps if s["op"] == "stream" and "topic" in s])
            return self.add("stream", "stream", topic=topic)
        topic = _TOPICS[len(self.topics)]
        self.topics.append(topic)
        if kind == "stream":
            extracted: Step = {"timestamp_field": "t"} if self.chance(0.06) else {}
            self.values[topic] = "timed" if extracted else "number"
            if self.chance(0.06) and len(self.topics) < len(_TOPICS) and not extracted:
                self.topics.append(_TOPICS[len(self.topics)])
                return self.add("stream", "stream", topics=self.topics[-2:], **self.maybe_named())
            return self.add("stream", "stream", topic=topic, **extracted, **self.maybe_named())
        if kind == "globalTable":
            return self.add("globalTable", "globalTable", topic=topic, store=f"s{self.number()}")
        stored = self.maybe_stored(0.6)
        versioned = bool(stored) and self.chance(0.25)
        if versioned:
            stored["versioned_history_ms"] = self.ms(5, 20, 1_000)
        arguments: Step = {**stored, **self.maybe_named()}
        table = self.add("table", "table", topic=topic, **arguments)
        table.versioned = versioned
        return table

    def add_sinks(self) -> None:
        for each in list(self.results):
            if each.name in self.used and not self.chance(0.15):
                continue
            stream = (
                each if each.kind == "stream" else self.add("toStream", "stream", each, **self.maybe_named())
            )
            if self.chance(0.08):
                self.add("to", None, stream, topic_fn=["if", ["eq", ["k"], "k"], "out", "other"])
            elif self.chance(0.05):
                self.add("foreach", None, stream, label=f"l{self.number()}")
            else:
                topic = self.dice.choice(("out", "out", f"out{self.number()}"))
                self.add("to", None, stream, topic=topic, **self.maybe_named())

    # --- steps --------------------------------------------------------------------------------------

    def add_step(self) -> None:
        of = self.dice.choice(("stream", "stream", "table"))
        result = self.of_kind(of) or self.of_kind("stream" if of == "table" else "table")
        assert result is not None
        (self.step_of_stream if result.kind == "stream" else self.step_of_table)(result)

    def step_of_stream(self, of: _Result) -> None:
        dice = self.dice
        match dice.choice(
            ("plain", "plain", "key", "group", "group", "group", "window", "window", "window", "window")
            + ("stream-join",) * 4
            + ("table-join",) * 3
            + (
                "global-join",
                "merge",
                "split",
                "repartition",
                "to-table",
                "process",
                "cogroup",
                "cogroup",
                "through",
            )
        ):
            case "plain":
                self.plain_step(of)
            case "key":
                self.new_keys(of)
            case "group":
                self.aggregate(self.grouped(of))
            case "window":
                self.windowed(self.grouped(of))
            case "stream-join":
                self.join_streams(of)
            case "table-join":
                self.join_table(of)
            case "global-join":
                if len(self.topics) < len(_TOPICS):
                    table = self.add_source("globalTable")
                    key = dice.choice((["k"], ["concat", "k", ""], ["if", ["eq", ["v"], 2], None, "k"]))
                    op = dice.choice(("join", "leftJoin"))
                    options = {"with": table.name, "key": key, "fn": self.joiner(), **self.maybe_named()}
                    self.add(op, "stream", of, **options)
            case "merge":
                other = self.of_kind("stream", of.keys)
                if other is not None and other is not of:
                    self.used.add(other.name)
                    self.add("merge", "stream", of, **{"with": other.name}, **self.maybe_named())
            case "split":
                self.split(of)
            case "repartition":
                self.add("repartition", "stream", of, **self.maybe_named(0.5))
            case "to-table":
                if of.keys == "text":
                    self.add("toTable", "table", of, **self.maybe_stored(), **self.maybe_named())
            case "process":
                self.process(of)
            case "cogroup":
                self.cogroup(of)
            case "through":
                if len(self.topics) < len(_TOPICS) and of.keys == "text":
                    topic = _TOPICS[len(self.topics)]
                    self.topics.append(topic)
                    self.add("to", None, of, topic=topic)
                    self.add("stream", "stream", topic=topic)

    def plain_step(self, of: _Result) -> None:
        op = self.dice.choice(("filter", "filterNot", "mapValues", "mapValues", "flatMapValues", "peek"))
        arguments: Step = {"fn": self.predicate()}
        if op == "mapValues":
            arguments = {"fn": self.value_function()}
        elif op == "flatMapValues":
            arguments = {"fn": ["list", ["v"], self.value_function()]}
        elif op == "peek":
            arguments = {"label": f"l{self.number()}"}
        self.add(op, "stream", of, **arguments, **self.maybe_named())

    def new_keys(self, of: _Result) -> None:
        op = self.dice.choice(("selectKey", "selectKey", "map", "flatMap"))
        if op == "selectKey":
            arguments = {"fn": self.key_function()}
        elif op == "map":
            arguments = {"key": self.key_function(), "value": self.value_function()}
        else:
            arguments = {"fn": ["list", ["list", self.key_function(), ["v"]], ["list", "g", ["v"]]]}
        self.add(op, "stream", of, **arguments, **self.maybe_named()).keys = "text"

    def split(self, of: _Result) -> None:
        names = [f"r{self.number()}" for _ in range(self.dice.randint(1, 3))]
        branches = [{"as": name, "fn": self.predicate()} for name in names]
        step: Step = {"op": "split", "of": of.name, "branches": branches, **self.maybe_named()}
        if self.chance(0.5):
            step["default"] = f"r{self.number()}"
            names.append(step["default"])
        self.used.add(of.name)
        self.steps.append(step)
        self.results += [_Result(name, "stream", of.keys) for name in names]

    def process(self, of: _Result) -> None:
        dice = self.dice
        op = dice.choice(("process", "process", "processValues"))
        kind = dice.choice(
            ("forward", "context", "count_forward", "twice", "add_header", "shift_time", "dedup")
        )
        if op == "process" and self.chance(0.4):
            kind = dice.choice(("fan_out", "count_store", "last_store", "drop"))
        if of.keys != "text" and kind == "fan_out":
            kind = "forward"
        step: Step = {"on_record": kind, **self.maybe_named()}
        if kind in ("count_forward", "dedup", "count_store", "last_store"):
            step["store"] = f"s{self.number()}"
        if kind == "dedup":
            step["ttl_ms"] = self.ms(3, 10)
        if kind == "shift_time":
            step["by_ms"] = self.ms(1, 20)
        if op == "process" and self.chance(0.6):
            step["punctuate"] = [self.punctuation(kind) for _ in range(dice.randint(1, 2))]
        result = self.add(op, "stream", of, **step)
        if "punctuate" in step:
            result.keys = "text" if of.keys == "text" else "mixed"

    def punctuation(self, kind: str) -> Step:
        actions = ["mark", "mark", "mark_once"]
        if kind in ("count_forward", "count_store"):
            actions += ["flush", "flush"]
        if kind == "last_store":
            actions += ["expire", "expire", "flush"]
        made: Step = {
            "type": self.dice.choice(("STREAM_TIME", "WALL_CLOCK_TIME")),
            "interval_ms": self.ms(1, 5, 10),
            "action": self.dice.choice(actions),
        }
        if made["action"] == "expire":
            made["ttl_ms"] = self.ms(3, 10)
        if self.chance(0.2):
            made["start_ms"] = self.ms(0, 3, 12)
        return made

    # --- groups -------------------------------------------------------------------------------------

    def grouped(self, of: _Result) -> _Result:
        if of.keys == "mixed" or self.chance(0.3):
            fn = self.key_function()
            group = self.add("groupBy", "group", of, fn=fn, **self.maybe_named(0.25))
            group.keys = "text"
            return group
        return self.add("groupByKey", "group", of, **self.maybe_named(0.25))

    def aggregate(
        self, group: _Result, *, windows: str = "", cogroup: bool = False, **options: Any
    ) -> _Result:
        op = "aggregate" if cogroup else self.dice.choice(("count", "count", "reduce", "aggregate"))
        arguments: Step = {}
        if op == "reduce":
            arguments["fn"] = self.nullable(["concat", ["a"], "/", ["b"]], "b", 0.1)
        elif op == "aggregate":
            arguments["init"] = self.dice.choice(("", "", None) if windows else ("", ""))
            if not cogroup:
                arguments["fn"] = self.nullable(["concat", ["agg"], ",", ["v"]], "v", 0.1)
            if windows == "session":
                arguments["merger"] = ["concat", ["a"], "&", ["b"]]
        made = {**arguments, **self.maybe_stored(0.75), **options, **self.maybe_named()}
        if "retention_ms" in made and "store" not in made:
            del made["retention_ms"]
        return self.add(op, "table", group, **made)

    def window(self) -> Step:
        grace = self.ms(0, 0, 1, 5, 20, 200)
        match self.dice.choice(("tumbling", "hopping", "sliding", "session", "session", "unlimited")):
            case "tumbling":
                return {"type": "tumbling", "size_ms": self.ms(1, 5, 10, 40), "grace_ms": grace}
            case "hopping":
                size, advance = self.dice.choice(((10, 3), (10, 5), (4, 1), (40, 15), (5, 5)))
                units = {"size_ms": size * self.unit, "advance_ms": advance * self.unit}
                return {"type": "hopping", **units, "grace_ms": grace}
            case "sliding":
                return {"type": "sliding", "difference_ms": self.ms(1, 4, 10, 30), "grace_ms": grace}
            case "session":
                return {"type": "session", "gap_ms": self.ms(0, 1, 4, 10, 30), "grace_ms": grace}
        return {"type": "unlimited", "start_ms": self.ms(0, 10)} if self.chance(0.3) else self.window()

    def windowed(self, group: _Result, *, cogroup: bool = False) -> None:
        window = self.window()
        windows = self.add("windowedBy", "group", group, window=window)
        kind = window["type"]
        if not cogroup and kind != "unlimited" and self.chance(0.25):
            windows = self.add("emitStrategy", "group", windows, strategy="onWindowClose")
        options: Step = {}
        if kind != "unlimited" and self.chance(0.2):
            length = {
                "tumbling": "size_ms",
                "hopping": "size_ms",
                "sliding": "difference_ms",
                "session": "gap_ms",
            }
            least = window[length[kind]] + window["grace_ms"]
            options["retention_ms"] = least * (2 if kind == "sliding" else 1) + self.ms(0, 1, 15, 300)
        table = self.aggregate(windows, windows=kind, cogroup=cogroup, **options)
        # Kafka Streams cannot read a windowed table of a cogroup, so nothing is joined with one.
        table.keys = "cogroup window" if cogroup else "window"
        table.closes = kind != "unlimited"

    def cogroup(self, of: _Result) -> None:
        groups = [self.grouped(of)]
        for _ in range(self.dice.randint(0, 2)):
            other = self.of_kind("stream", of.keys)
            if other is not None:
                groups.append(self.grouped(other))
        if len({group.keys for group in groups}) > 1:
            return
        both: _Result | None = None
        for number, group in enumerate(groups):
            fn = self.nullable(["concat", ["agg"], f"{number}:", ["v"]], "v", 0.1)
            if both is None:
                both = self.add("cogroup", "group", group, fn=fn)
            else:
                both = self.add("cogroup", "group", both, **{"with": group.name, "fn": fn})
        assert both is not None
        if self.chance(0.5):
            self.windowed(both, cogroup=True)
        else:
            self.aggregate(both, cogroup=True)

    # --- joins --------------------------------------------------------------------------------------

    def join_streams(self, of: _Result) -> None:
        other = self.of_kind("stream", of.keys)
        if other is None or of.keys == "mixed":
            return
        self.used.add(other.name)
        window: Step = {"difference_ms": self.ms(0, 2, 5, 10, 30), "grace_ms": self.ms(0, 0, 1, 5, 30)}
        if self.chance(0.3):
            window["before_ms"] = self.ms(0, 1, 6, 20)
        if self.chance(0.3):
            window["after_ms"] = self.ms(0, 1, 6, 20)
        op = self.dice.choice(("join", "leftJoin", "outerJoin"))
        options = {"with": other.name, "window": window, "fn": self.joiner(), **self.maybe_named()}
        self.add(op, "stream", of, **options)

    def join_table(self, of: _Result) -> None:
        table = self.of_kind("table", of.keys) or (self.add_source("table") if of.keys == "text" else None)
        if table is None or of.keys not in ("text", "window"):
            return
        self.used.add(table.name)
        grace = {"grace_ms": self.ms(0, 2, 5)} if table.versioned and self.chance(0.5) else {}
        op = self.dice.choice(("join", "leftJoin"))
        self.add(op, "stream", of, **{"with": table.name, "fn": self.joiner(), **grace, **self.maybe_named()})

    def step_of_table(self, of: _Result) -> None:
        dice = self.dice
        match dice.choice(
            (
                "filter",
                "mapValues",
                "stream",
                "group",
                "group",
                "suppress",
                "join",
                "join",
                "join",
                "foreign",
                "foreign",
            )
        ):
            case "filter":
                op = dice.choice(("filter", "filterNot"))
                stored = self.maybe_stored(0.4)
                result = self.add(op, "table", of, fn=self.predicate(), **stored, **self.maybe_named())
                result.closes, result.versioned = of.closes, of.versioned and not stored
            case "mapValues":
                stored = self.maybe_stored(0.4)
                fn = self.value_function()
                result = self.add("mapValues", "table", of, fn=fn, **stored, **self.maybe_named())
                result.closes, result.versioned = of.closes, of.versioned and not stored
            case "stream":
                if of.keys.endswith("window") and self.chance(0.5):
                    self.add("toStream", "stream", of, key=["get", ["k"], "key"]).keys = "text"
                else:
                    self.add("toStream", "stream", of, **self.maybe_named())
            case "group":
                self.group_table(of)
            case "suppress":
                self.suppress(of)
            case "join":
                if of.keys == "cogroup window":
                    return
                other = self.of_kind("table", of.keys)
                if other is None or (other is of and self.chance(0.7)):
                    if of.keys != "text" or len(self.topics) >= len(_TOPICS):
                        return
                    other = self.add_source("table")
                self.used.add(other.name)
                op = dice.choice(("join", "leftJoin", "outerJoin"))
                options = {**self.maybe_stored(0.4), **self.maybe_named()}
                result = self.add(op, "table", of, **{"with": other.name, "fn": self.joiner(), **options})
                result.closes = of.closes and other.closes
            case "foreign":
                self.join_foreign(of)

    def group_table(self, of: _Result) -> None:
        key = ["concat", "g", ["get", ["k"], "key"]] if of.keys.endswith("window") else self.key_function()
        group = self.add("groupBy", "group", of, key=key, value=["v"], **self.maybe_named(0.25))
        group.keys = "text"
        op = self.dice.choice(("count", "reduce", "aggregate"))
        arguments: Step = {}
        if op == "reduce":
            arguments = {
                "adder": self.nullable(["concat", ["a"], "+", ["b"]], "b", 0.1),
                "subtractor": self.nullable(["concat", ["a"], "-", ["b"]], "b", 0.1),
            }
        elif op == "aggregate":
            arguments = {
                "init": "",
                "adder": self.nullable(["concat", ["agg"], "+", ["v"]], "v", 0.1),
                "subtractor": self.nullable(["concat", ["agg"], "-", ["v"]], "v", 0.1),
            }
        self.add(op, "table", group, **arguments, **self.maybe_stored(0.75), **self.maybe_named())

    def suppress(self, of: _Result) -> None:
        if of.closes and self.chance(0.6):
            bound = {"max_records": 4, "when_full": "shutDown"} if self.chance(0.1) else {}
            result = self.add("suppress", "table", of, until="windowCloses", **bound, **self.maybe_named())
        else:
            bound = {"max_records": self.dice.randint(1, 3)} if self.chance(0.4) else {}
            if bound and self.chance(0.1):
                bound["when_full"] = "shutDown"
            elif self.chance(0.15):
                bound["max_bytes"] = self.dice.choice((40, 80, 200))
            limit = self.ms(0, 3, 10, 40)
            bound |= self.maybe_named()
            result = self.add("suppress", "table", of, until="timeLimit", time_limit_ms=limit, **bound)
        result.closes = of.closes

    def join_foreign(self, of: _Result) -> None:
        if of.keys != "text":
            return
        other = self.of_kind("table", "text")
        if other is None or (other is of and self.chance(0.5)):
            if len(self.topics) >= len(_TOPICS):
                return
            other = self.add_source("table")
        self.used.add(other.name)
        points = self.dice.choice(
            (
                ["if", ["contains", _TEXT, self.digit()], "k", "l"],
                ["if", ["contains", _TEXT, self.digit()], None, "k"],
                ["if", ["contains", _TEXT, self.digit()], "m", ["if", ["contains", _TEXT, "1"], "k", "l"]],
            )
        )
        op = self.dice.choice(("join", "leftJoin"))
        options = {**self.maybe_stored(), **self.maybe_named()}
        self.add(
            op, "table", of, **{"with": other.name, "foreign_key": points, "fn": self.joiner(), **options}
        )

    # --- inputs -------------------------------------------------------------------------------------

    def inputs(self) -> list[Step]:
        dice = self.dice
        written = {step["topic"] for step in self.steps if step["op"] == "to" and "topic" in step}
        topics = [topic for topic in self.topics if topic not in written] or self.topics
        time, made = dice.choice((0, 0, 20)) * self.unit, []
        for _ in range(dice.randint(6, 26)):
            if self.chance(0.04):
                made.append({"advance_wall_clock_ms": self.ms(1, 5, 10, 35)})
                continue
            moved = dice.choice((0, 0, 1, 1, 2, 5, 10, -1, -3, -12, 25, 60))
            time = max(0, time + moved * self.unit + dice.choice((0, 0, 0, 1, -1)))
            made.append(self.record(dice.choice(topics), time))
        return made

    def record(self, topic: str, time: int) -> Step:
        key = None if self.chance(0.05) else self.dice.choice(_KEYS)
        value: Any = None if self.chance(0.12) else self.dice.randint(0, 5)
        if self.values.get(topic) == "timed":
            value = {"t": time + self.ms(0, 3, -5), "n": value}
        record = {"topic": topic, "key": key, "value": value, "timestamp": time}
        if self.chance(0.1):
            record["headers"] = [["h", self.digit()]]
        if self.chance(self.spoils):
            record["raw_value"] = "no JSON"
        return record


def random_vectors(first_seed: int, count: int) -> list[dict[str, Any]]:
    return [
        {"name": f"random/{seed}", **RandomVector(seed).made()}
        for seed in range(first_seed, first_seed + count)
    ]
