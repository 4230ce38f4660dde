"""The topologies of the vectors as programs in the DSL.

Invariant: every step is one call of the DSL, so that the vectors test it too.
"""

import json
from collections.abc import Callable
from typing import Any

from moldau.serde.plain import PlainSerde
from moldau.streams import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    Repartitioned,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    Windowed,
)
from tests.streams.expressions import function_of, plain, text

Step = dict[str, Any]
Seen = Callable[[str, Any, Any], None]


def _window_or_object(found: dict[str, Any]) -> Any:
    """Keys of windows are written as objects; read again they are keys as before."""
    return Windowed(**found) if found.keys() == {"key", "start", "end"} else found


def _json(value: Any) -> bytes:
    written = json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return written.encode()


def _parsed(data: bytes) -> Any:
    return json.loads(data, object_hook=_window_or_object)


class _KeySerde(PlainSerde):
    """JSON in topics; in stores texts are as they are."""

    def store_bytes(self, key: Any) -> bytes:
        return key.encode() if isinstance(key, str) else _json(key)


JSON = PlainSerde("JSON", _json, _parsed)
KEY = _KeySerde("JSON", _json, _parsed)


def built(steps: list[Step], seen: Seen) -> StreamsBuilder:
    """The program of a vector; ``seen`` hears what peek and foreach see."""
    return Program(steps, seen).builder


class Program:
    """Steps work on the result of the step before, or on one that they name."""

    def __init__(self, steps: list[Step], seen: Seen) -> None:
        self.builder = StreamsBuilder(KEY, JSON)
        self.results: dict[str, Any] = {}
        self.seen = seen
        self.last: Any = None
        for step in steps:
            self.take(step)

    def take(self, step: Step) -> None:
        of = self.results[step["of"]] if "of" in step else self.last
        self.last = getattr(self, f"do_{snake_case(step['op'])}")(of, step)
        if "as" in step:
            self.results[step["as"]] = self.last

    # --- sources and sinks ----------------------------------------------------------------------

    def consumed(self, step: Step) -> Consumed:
        extractor = None
        if "timestamp_field" in step:
            field = step["timestamp_field"]

            def extractor(record: Any, partition_time: int) -> int:
                return int(record.value[field])

        return Consumed.with_(KEY, JSON, timestamp_extractor=extractor, name=step.get("name"))

    def do_stream(self, of: Any, step: Step) -> Any:
        return self.builder.stream(step.get("topics") or step["topic"], self.consumed(step))

    def do_table(self, of: Any, step: Step) -> Any:
        return self.builder.table(step["topic"], materialized(step), self.consumed(step))

    def do_global_table(self, of: Any, step: Step) -> Any:
        return self.builder.global_table(step["topic"], materialized(step), self.consumed(step))

    def do_to(self, of: Any, step: Step) -> Any:
        topic = function_of(step["topic_fn"], "k", "v") if "topic_fn" in step else step["topic"]
        of.to(topic, Produced.with_(KEY, JSON, name=step.get("name")))
        return of

    # --- record by record -----------------------------------------------------------------------

    def do_filter(self, of: Any, step: Step) -> Any:
        return of.filter(function_of(step["fn"], "k", "v"), *rest(of, step))

    def do_filter_not(self, of: Any, step: Step) -> Any:
        return of.filter_not(function_of(step["fn"], "k", "v"), *rest(of, step))

    def do_map_values(self, of: Any, step: Step) -> Any:
        return of.map_values(function_of(step["fn"], "k", "v"), *rest(of, step))

    def do_map(self, of: Any, step: Step) -> Any:
        return of.map(pair(step), step.get("name"))

    def do_select_key(self, of: Any, step: Step) -> Any:
        return of.select_key(function_of(step["fn"], "k", "v"), step.get("name"))

    def do_flat_map(self, of: Any, step: Step) -> Any:
        return of.flat_map(function_of(step["fn"], "k", "v"), step.get("name"))

    def do_flat_map_values(self, of: Any, step: Step) -> Any:
        return of.flat_map_values(function_of(step["fn"], "k", "v"), step.get("name"))

    def do_peek(self, of: Any, step: Step) -> Any:
        return of.peek(self.watching(step["label"]), step.get("name"))

    def do_foreach(self, of: Any, step: Step) -> Any:
        return of.for_each(self.watching(step["label"]), step.get("name"))

    def watching(self, label: str) -> Callable[[Any, Any], None]:
        return lambda key, value: self.seen(label, key, value)

    def do_split(self, of: Any, step: Step) -> Any:
        split = of.split(step.get("name"))
        for branch in step["branches"]:
            split.branch(function_of(branch["fn"], "k", "v"))
        names = [branch["as"] for branch in step["branches"]]
        if "default" in step:
            split.default_branch()
            names.append(step["default"])
        self.results.update(zip(names, split.branches.values(), strict=True))
        return of

    def do_merge(self, of: Any, step: Step) -> Any:
        return of.merge(self.results[step["with"]], step.get("name"))

    def do_repartition(self, of: Any, step: Step) -> Any:
        return of.repartition(
            Repartitioned.with_(KEY, JSON, name=step.get("name"), number_of_partitions=step.get("partitions"))
        )

    def do_to_table(self, of: Any, step: Step) -> Any:
        return of.to_table(materialized(step), step.get("name"))

    def do_to_stream(self, of: Any, step: Step) -> Any:
        key = function_of(step["key"], "k", "v") if "key" in step else None
        return of.to_stream(key, step.get("name"))

    # --- groups and aggregates ------------------------------------------------------------------

    def do_group_by_key(self, of: Any, step: Step) -> Any:
        return of.group_by_key(Grouped.with_(KEY, JSON, name=step.get("name")))

    def do_group_by(self, of: Any, step: Step) -> Any:
        grouped = Grouped.with_(KEY, JSON, name=step.get("name"))
        if "key" in step:
            return of.group_by(pair(step), grouped)
        return of.group_by(function_of(step["fn"], "k", "v"), grouped)

    def do_cogroup(self, of: Any, step: Step) -> Any:
        function = function_of(step["fn"], "k", "v", "agg")
        if "with" in step:
            return of.cogroup(self.results[step["with"]], function)
        return of.cogroup(function)

    def do_windowed_by(self, of: Any, step: Step) -> Any:
        return of.windowed_by(windows(step["window"]))

    def do_emit_strategy(self, of: Any, step: Step) -> Any:
        on_close = step["strategy"] == "onWindowClose"
        return of.emit_strategy(
            EmitStrategy.on_window_close() if on_close else EmitStrategy.on_window_update()
        )

    def do_count(self, of: Any, step: Step) -> Any:
        return of.count(materialized(step), step.get("name"))

    def do_reduce(self, of: Any, step: Step) -> Any:
        if "adder" in step:
            adder, subtractor = (function_of(step[each], "a", "b") for each in ("adder", "subtractor"))
            return of.reduce(adder, subtractor, materialized(step), step.get("name"))
        return of.reduce(function_of(step["fn"], "a", "b"), materialized(step), step.get("name"))

    def do_aggregate(self, of: Any, step: Step) -> Any:
        init = function_of(step["init"])
        options: dict[str, Any] = {"materialized": materialized(step), "named": step.get("name")}
        if "merger" in step:
            options["merger"] = function_of(step["merger"], "k", "a", "b")
        names = ("fn",) if "fn" in step else ("adder", "subtractor") if "adder" in step else ()
        functions = [function_of(step[name], "k", "v", "agg") for name in names]
        return of.aggregate(init, *functions, **options)

    def do_suppress(self, of: Any, step: Step) -> Any:
        return of.suppress(suppressed(step))

    # --- joins and processors -------------------------------------------------------------------

    def do_join(self, of: Any, step: Step) -> Any:
        return self.joined(of.join, step)

    def do_left_join(self, of: Any, step: Step) -> Any:
        return self.joined(of.left_join, step)

    def do_outer_join(self, of: Any, step: Step) -> Any:
        return self.joined(of.outer_join, step)

    def joined(self, join: Callable[..., Any], step: Step) -> Any:
        other = self.results[step["with"]]
        joiner = function_of(step["fn"], "k", "l", "r")
        if "window" in step:
            options = StreamJoined.with_(KEY, JSON, JSON, name=step.get("name"))
            return join(other, joiner, join_windows(step["window"]), options)
        if "foreign_key" in step:
            foreign_key = function_of(step["foreign_key"], "k", "v")
            return join(other, joiner, *store_and_name(step), foreign_key=foreign_key)
        if type(join.__self__).__name__ == "KTable":  # type: ignore[attr-defined]
            return join(other, joiner, *store_and_name(step))
        joined = Joined.with_(KEY, JSON, grace=step.get("grace_ms"), name=step.get("name"))
        if "key" in step:
            return join(other, joiner, options=joined, key=function_of(step["key"], "k", "v"))
        return join(other, joiner, options=joined)

    def do_process(self, of: Any, step: Step) -> Any:
        return self.processed(of.process, step)

    def do_process_values(self, of: Any, step: Step) -> Any:
        return self.processed(of.process_values, step)

    def processed(self, process: Callable[..., Any], step: Step) -> Any:
        from moldau.streams import Stores
        from tests.streams.processors import VectorProcessor

        stores = [Stores.key_value(step["store"], key_serde=KEY)] if "store" in step else []
        return process(lambda: VectorProcessor(step), stores=stores, named=step.get("name"))


def snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def pair(step: Step) -> Callable[[Any, Any], tuple[Any, Any]]:
    key, value = (function_of(step[each], "k", "v") for each in ("key", "value"))
    return lambda k, v: (key(k, v), value(k, v))


def materialized(step: Step) -> Materialized | None:
    if "store" not in step:
        return None
    if "versioned_history_ms" in step:
        return Materialized.as_versioned(step["store"], step["versioned_history_ms"])
    options = Materialized.as_(step["store"]).with_value_serde(JSON)
    return options.with_retention(step["retention_ms"]) if "retention_ms" in step else options


def store_and_name(step: Step) -> list[Any]:
    """What follows the function in calls of tables."""
    options = materialized(step)
    return [options.with_key_serde(KEY) if options else None, step.get("name")]


def rest(of: Any, step: Step) -> list[Any]:
    """What follows the function in calls of tables, and in calls of streams."""
    return store_and_name(step) if type(of).__name__ == "KTable" else [step.get("name")]


def windows(window: Step) -> Any:
    grace = window.get("grace_ms", 0)
    match window["type"]:
        case "tumbling":
            return TimeWindows.of_size_and_grace(window["size_ms"], grace)
        case "hopping":
            made = TimeWindows.of_size_and_grace(window["size_ms"], grace)
            return made.advance_by(window["advance_ms"])
        case "sliding":
            return SlidingWindows.of_time_difference_and_grace(window["difference_ms"], grace)
        case "session":
            return SessionWindows.of_inactivity_gap_and_grace(window["gap_ms"], grace)
        case "unlimited":
            return UnlimitedWindows.of().start_on(window.get("start_ms", 0))
        case other:
            raise ValueError(f"no window of the type {other}")


def join_windows(window: Step) -> JoinWindows:
    made = JoinWindows.of_time_difference_and_grace(window.get("difference_ms", 0), window.get("grace_ms", 0))
    if "before_ms" in window:
        made = made.before(window["before_ms"])
    return made.after(window["after_ms"]) if "after_ms" in window else made


def suppressed(step: Step) -> Suppressed:
    is_final = step["until"] == "windowCloses"
    buffer = BufferConfig.unbounded()
    if "max_records" in step:
        buffer = BufferConfig.max_records(step["max_records"])
    if "max_bytes" in step:
        buffer = buffer.with_max_bytes(step["max_bytes"]).emit_early_when_full()
    if is_final or step.get("when_full") == "shutDown":
        buffer = buffer.shut_down_when_full()
    made = (
        Suppressed.until_window_closes(buffer)
        if is_final
        else Suppressed.until_time_limit(step["time_limit_ms"], buffer)
    )
    return made.with_name(step["name"]) if "name" in step else made


__all__ = ["JSON", "built", "text"]
