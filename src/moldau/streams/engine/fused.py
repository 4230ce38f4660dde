"""A fast way through a task: the operators of a topic written out as one loop over columns.

Known functions (count, reduce by min, max or +, column expressions) are written into the loop; other
functions are called. What the loop cannot express goes record by record through the operators themselves.

Invariant: results, state and counts are those of the operators; only the way there is shorter. The loop
changes the stores of the task directly, so a batch may go one way and the next one the other.
"""

import operator
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from moldau.streams.columns import Column
from moldau.streams.engine.aggregates import StreamAggregate, StreamReduce
from moldau.streams.engine.nodes import Node, PassThrough, Sink
from moldau.streams.engine.records import Headers, Output, TimedValue, Windowed
from moldau.streams.engine.sessions import SessionAggregate
from moldau.streams.engine.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    Peek,
    SelectKey,
    ToStream,
)
from moldau.streams.engine.stores.tables import TableStore
from moldau.streams.engine.table_joins import StreamTableJoin
from moldau.streams.engine.tables import TableMapValues, TableSource
from moldau.streams.engine.windows import TimeWindowAggregate


class Columns(NamedTuple):
    """Records of one topic and partition as columns, in order."""

    keys: Sequence[Any]
    values: Sequence[Any]
    timestamps: Sequence[int]
    #: None where no record has headers.
    headers: Sequence[Headers] | None = None
    offsets: Sequence[int] | None = None


class Results(NamedTuple):
    """What a topic gets, as columns that grow; ``headers`` stays empty where the input had none."""

    keys: list[Any]
    values: list[Any]
    timestamps: list[int]
    headers: list[Headers]

    def add(self, output: Output) -> None:
        self.keys.append(output.key)
        self.values.append(output.value)
        self.timestamps.append(output.timestamp)
        self.headers.append(output.headers)

    def rows(self, topic: str) -> list[Output]:
        headers = self.headers or [()] * len(self.keys)
        return [
            Output(topic, *row) for row in zip(self.keys, self.values, self.timestamps, headers, strict=True)
        ]


#: Takes the columns of a batch and the results by topic; gives how many records were dropped as they
#: lack a key or a value, and how many as they came too late.
Loop = Callable[[Columns, dict[str, Results]], tuple[int, int]]

#: The name of the "file" that loops are compiled from, by which tracebacks show them.
LOOP_FILE = "<the loop of a topic>"
_NEW = tuple.__new__
#: Reducers that are written out: the reduced value first.
_REDUCERS: dict[Any, str] = {
    min: "{b} if {b} < {a} else {a}",
    max: "{b} if {b} > {a} else {a}",
    operator.add: "{a} + {b}",
}


class NotFusible(Exception):
    """An operator that the loop cannot express."""


def failed_record(loop: Loop, traceback: TracebackType | None) -> str:
    """The operator and the record that a loop was at when an exception was raised."""
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_filename == LOOP_FILE:
            operators: list[str] = loop.operators  # type: ignore[attr-defined]
            key, timestamp = frame.f_locals.get("key"), frame.f_locals.get("timestamp")
            line = traceback.tb_lineno
            name = operators[line] if line < len(operators) else "unknown"
            return f"processor={name}, key={key!r}, timestamp={timestamp}"
        traceback = traceback.tb_next
    return "processor=unknown"


class Loops(NamedTuple):
    """The two loops of a topic: for records without and with headers."""

    plain: Loop
    with_headers: Loop


def fused_loops(topics: dict[str, Node]) -> dict[str, Loops]:
    """The loops of those topics whose operators can all be written out."""
    loops: dict[str, Loops] = {}
    for topic, source in topics.items():
        try:
            loops[topic] = Loops(
                _Writer(has_headers=False).loop(source), _Writer(has_headers=True).loop(source)
            )
        except NotFusible:
            continue
    return loops


class _Writer:
    """Writes the loop of one topic: operators depth first, each with variables of its own."""

    def __init__(self, *, has_headers: bool) -> None:
        self._has_headers = has_headers
        #: The variable that has the headers of what is sent on, or none.
        self._headers = "headers"
        self._lines: list[str] = []
        self._names: dict[str, Any] = {"new": _NEW, "TimedValue": TimedValue, "Windowed": Windowed}
        #: The operator of each line, and the one that is being written.
        self._operators: list[str] = []
        self._current = ""
        self._setup: list[str] = []
        self._end: list[str] = []
        self._count = 0

    def loop(self, source: Node) -> Loop:
        for child in source.children:
            self._write(child, "key", "value", "timestamp", 2)
        body = self._lines or ["        pass"]
        setup = [f"    {line}" for line in self._setup]
        head = ["def loop(columns, results):", "    dropped = late = 0", *setup]
        if self._has_headers:
            head.append("    for key, value, timestamp, headers in zip(*columns[:4], strict=True):")
        else:
            head.append("    for key, value, timestamp in zip(*columns[:3], strict=True):")
        tail = [f"    {line}" for line in (*self._end, "return dropped, late")]
        exec(compile("\n".join([*head, *body, *tail]), LOOP_FILE, "exec"), self._names)
        made: Loop = self._names["loop"]
        made.operators = ["", *[""] * len(head), *self._operators]  # type: ignore[attr-defined]
        return made

    # --- names --------------------------------------------------------------------------------------

    def _new_name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self._count}"

    def _constant(self, value: Any, prefix: str = "given") -> str:
        name = self._new_name(prefix)
        self._names[name] = value
        return name

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)
        self._operators.append(self._current)

    def _call(self, function: Any, key: str, value: str) -> str:
        """A function of key and value: a column expression is written out."""
        if isinstance(function, Column):
            return function.inlined(key, value, [self._constant(each) for each in function.constants])
        return f"{self._constant(function, 'function')}({key}, {value})"

    # --- operators ----------------------------------------------------------------------------------

    def _write(self, node: Node, key: str, value: str, timestamp: str, depth: int) -> None:
        write = _WRITERS.get(type(node))
        if write is None:
            raise NotFusible(type(node).__name__)
        outer, self._current = self._current, node.name
        write(self, node, key, value, timestamp, depth)
        self._current = outer

    def _children(self, node: Node, key: str, value: str, timestamp: str, depth: int) -> None:
        for child in node.children:
            self._write(child, key, value, timestamp, depth)
        if not node.children:
            self._line(depth, "pass")

    def _pass_through(self, node: Node, key: str, value: str, timestamp: str, depth: int) -> None:
        self._children(node, key, value, timestamp, depth)

    def _filter(self, node: Filter, key: str, value: str, timestamp: str, depth: int) -> None:
        self._line(depth, f"if {'' if node.keep else 'not '}{self._call(node.predicate, key, value)}:")
        self._children(node, key, value, timestamp, depth + 1)

    def _map(self, node: Map, key: str, value: str, timestamp: str, depth: int) -> None:
        new_key, new_value = self._new_name("key"), self._new_name("value")
        self._line(depth, f"{new_key}, {new_value} = {self._call(node.function, key, value)}")
        self._children(node, new_key, new_value, timestamp, depth)

    def _map_values(self, node: MapValues, key: str, value: str, timestamp: str, depth: int) -> None:
        new_value = self._new_name("value")
        self._line(depth, f"{new_value} = {self._call(node.function, key, value)}")
        self._children(node, key, new_value, timestamp, depth)

    def _select_key(self, node: SelectKey, key: str, value: str, timestamp: str, depth: int) -> None:
        new_key = self._new_name("key")
        self._line(depth, f"{new_key} = {self._call(node.function, key, value)}")
        self._children(node, new_key, value, timestamp, depth)

    def _flat_map(self, node: FlatMap, key: str, value: str, timestamp: str, depth: int) -> None:
        new_key, new_value = self._new_name("key"), self._new_name("value")
        self._line(depth, f"for {new_key}, {new_value} in {self._call(node.function, key, value)}:")
        self._children(node, new_key, new_value, timestamp, depth + 1)

    def _flat_map_values(self, node: FlatMapValues, key: str, value: str, timestamp: str, depth: int) -> None:
        new_value = self._new_name("value")
        self._line(depth, f"for {new_value} in {self._call(node.function, key, value)}:")
        self._children(node, key, new_value, timestamp, depth + 1)

    def _peek(self, node: Peek, key: str, value: str, timestamp: str, depth: int) -> None:
        self._line(depth, self._call(node.function, key, value))
        self._children(node, key, value, timestamp, depth)

    def _sink(self, node: Sink, key: str, value: str, timestamp: str, depth: int) -> None:
        if node.topic is None:
            raise NotFusible("a topic for each record")
        out = self._new_name("out")
        self._setup.append(f"{out} = results[{node.topic!r}]")
        columns = {"keys": key, "values": value, "timestamps": timestamp}
        if self._has_headers:
            columns["headers"] = self._headers
        for column, what in columns.items():
            add = self._new_name(f"add_{column}")
            self._setup.append(f"{add} = {out}.{column}.append")
            self._line(depth, f"{add}({what})")

    # --- tables: a change is its new value, as nobody needs the old one -------------------------------

    def _table_store(self, node: Any) -> tuple[str, str]:
        """Names for the rows of a plain store and for adding to what changed."""
        store = node.store
        if type(store) is not TableStore or node.sends_old:
            raise NotFusible("a versioned store, or old values")
        return self._rows_of(store)

    def _rows_of(self, store: Any) -> tuple[str, str]:
        held, rows, changed = (
            self._constant(store, "store"),
            self._new_name("rows"),
            self._new_name("changed"),
        )
        self._setup.append(f"{rows} = {held}._rows")
        self._setup.append(f"{changed} = {held}._changed.add")
        return rows, changed

    def _counted(self, store: Any) -> str:
        """A counter for what the changelog would get."""
        puts = self._new_name("puts")
        self._setup.append(f"{puts} = 0")
        self._end.append(f"{self._constant(store, 'store')}.changelog_records += {puts}")
        return puts

    def _table_source(self, node: TableSource, key: str, value: str, timestamp: str, depth: int) -> None:
        rows, changed = self._table_store(node)
        puts = self._counted(node.store)
        self._line(depth, f"if {key} is None:")
        self._line(depth + 1, "dropped += 1")
        self._line(depth, "else:")
        self._line(depth + 1, f"{puts} += 1")
        self._line(depth + 1, f"{changed}({key})")
        self._line(depth + 1, f"if {value} is None:")
        self._line(depth + 2, f"{rows}.pop({key}, None)")
        self._line(depth + 1, "else:")
        self._line(depth + 2, f"{rows}[{key}] = new(TimedValue, ({value}, {timestamp}))")
        self._children(node, key, value, timestamp, depth + 1)

    def _to_stream(self, node: ToStream, key: str, value: str, timestamp: str, depth: int) -> None:
        self._children(node, key, value, timestamp, depth)

    def _table_map_values(
        self, node: TableMapValues, key: str, value: str, timestamp: str, depth: int
    ) -> None:
        if node.store is not None or node.sends_old:
            raise NotFusible("a store of a mapped table")
        new_value = self._new_name("value")
        self._line(
            depth, f"{new_value} = None if {value} is None else {self._call(node.function, key, value)}"
        )
        self._children(node, key, new_value, timestamp, depth)

    def _aggregate(self, node: StreamAggregate, key: str, value: str, timestamp: str, depth: int) -> None:
        first = self._aggregated(node, key, value, f"{self._constant(node.initializer)}()")
        self._keyed(
            node, key, value, timestamp, depth, first, lambda old: self._aggregated(node, key, value, old)
        )

    def _aggregated(self, node: Any, key: str, value: str, old: str) -> str:
        if getattr(node.aggregator, "is_count", False):
            return "1" if old.endswith("()") else f"{old} + 1"
        return f"{self._constant(node.aggregator, 'aggregator')}({key}, {value}, {old})"

    def _reduce(self, node: StreamReduce, key: str, value: str, timestamp: str, depth: int) -> None:
        self._keyed(
            node, key, value, timestamp, depth, value, lambda old: self._reduced(node.reducer, old, value)
        )

    def _reduced(self, reducer: Any, old: str, value: str) -> str:
        try:
            return _REDUCERS[reducer].format(a=old, b=value)
        except (KeyError, TypeError):
            return f"{self._constant(reducer, 'reducer')}({old}, {value})"

    def _keyed(
        self,
        node: Any,
        key: str,
        value: str,
        timestamp: str,
        depth: int,
        first: str,
        following: Callable[[str], str],
    ) -> None:
        """An aggregate for all time: the row, its next value, the largest timestamp."""
        rows, changed = self._table_store(node)
        puts = self._counted(node.store)
        row, old, new_value, newest = (self._new_name(each) for each in ("row", "old", "value", "newest"))
        self._line(depth, f"if {key} is None or {value} is None:")
        self._line(depth + 1, "dropped += 1")
        self._line(depth, "else:")
        depth += 1
        self._line(depth, f"{row} = {rows}.get({key})")
        self._line(depth, f"if {row} is None:")
        self._line(depth + 1, f"{new_value} = {first}")
        self._line(depth + 1, f"{newest} = {timestamp}")
        self._line(depth, "else:")
        self._line(depth + 1, f"{old}, {newest} = {row}")
        self._line(depth + 1, f"{new_value} = {following(old)}")
        self._line(depth + 1, f"if {timestamp} > {newest}:")
        self._line(depth + 2, f"{newest} = {timestamp}")
        self._line(depth, f"{puts} += 1")
        self._line(depth, f"{changed}({key})")
        self._line(depth, f"if {new_value} is None:")
        self._line(depth + 1, f"{rows}.pop({key}, None)")
        self._line(depth, "else:")
        self._line(depth + 1, f"{rows}[{key}] = new(TimedValue, ({new_value}, {newest}))")
        self._children(node, key, new_value, newest, depth)

    def _windowed(self, node: TimeWindowAggregate, key: str, value: str, timestamp: str, depth: int) -> None:
        """An aggregate for each window of a record; a window that is there is changed in place."""
        if node.on_close or node.sends_old:
            raise NotFusible("results on window close, or old values")
        rows, changed = self._rows_of(node.store)
        held, itself = self._constant(node.store, "store"), self._constant(node, "operator")
        observed, puts = self._new_name("observed"), self._new_name("puts")
        self._setup += [f"{observed} = {itself}.observed", f"{puts} = 0"]
        self._end += [f"{itself}.observed = {observed}", f"{held}.changelog_records += {puts}"]
        start, row, part, old, new_value, newest, window = (
            self._new_name(each) for each in ("start", "row", "part", "old", "value", "newest", "window")
        )
        starts, end = self._window_bounds(node, timestamp, start)
        first = self._aggregated(node, key, value, f"{self._constant(node.initializer)}()")
        lines = f"""
if {key} is None:
    dropped += 1
else:
    if {timestamp} > {observed}:
        {observed} = {timestamp}
    {changed}({key})
    {row} = {rows}.get({key}, nothing)
    for {start} in {starts}:
        if {start} + {node.size_ms} <= {observed} - {node.grace_ms}:
            late += 1
            continue
        {part} = {row}.get({start})
        if {part} is None:
            {new_value} = {first}
            {newest} = {timestamp}
        else:
            {old}, {newest} = {part}
            {new_value} = {self._aggregated(node, key, value, old)}
            if {timestamp} > {newest}:
                {newest} = {timestamp}
        if {part} is None or {new_value} is None or {start} > {held}._observed:
            {held}.put({key}, {start}, {new_value}, {newest})
            {row} = {rows}.get({key}, nothing)
        else:
            {puts} += 1
            {row}[{start}] = new(TimedValue, ({new_value}, {newest}))
        {window} = new(Windowed, ({key}, {start}, {end}))"""
        self._names["nothing"] = {}
        for line in lines.strip().split("\n"):
            self._line(depth, line)
        self._children(node, window, new_value, newest, depth + 2)

    def _sessions(self, node: SessionAggregate, key: str, value: str, timestamp: str, depth: int) -> None:
        """Sessions that a record joins are taken back, then the merged one is sent, all without headers."""
        if node.on_close or node.sends_old:
            raise NotFusible("results on window close, or old values")
        rows, _ = self._rows_of(node.store)
        held, itself = self._constant(node.store, "store"), self._constant(node, "operator")
        observed = self._new_name("observed")
        self._setup.append(f"{observed} = {itself}.observed")
        self._end.append(f"{itself}.observed = {observed}")
        row, found, part, start, end = (
            self._new_name(each) for each in ("row", "found", "part", "start", "end")
        )
        new_value, updates, window, sent, newest = (
            self._new_name(each) for each in ("value", "updates", "window", "sent", "newest")
        )
        gap = node.gap_ms
        is_count = getattr(node.aggregator, "is_count", False)
        merged = (
            f"{new_value} + {row}[{part}]"
            if is_count
            else f"{self._constant(node.merger, 'merger')}({key}, {new_value}, {row}[{part}])"
        )
        lines = f"""
if {key} is None:
    dropped += 1
else:
    if {timestamp} > {observed}:
        {observed} = {timestamp}
    {start} = {end} = {timestamp}
    {new_value} = {"0" if is_count else f"{self._constant(node.initializer)}()"}
    {row} = {rows}.get({key})
    {found} = () if {row} is None else {held}.parts({row}, {timestamp} - {gap}, {timestamp} + {gap})
    for {part} in {found}:
        {new_value} = {merged}
        if {part}[0] < {start}:
            {start} = {part}[0]
        if {part}[1] > {end}:
            {end} = {part}[1]
    if {end} < {observed} - {node.grace_ms + node.gap_ms}:
        late += 1
    else:
        {updates} = []
        if {found} and ({start} != {timestamp} or {end} != {timestamp}):
            for {part} in {found}:
                {held}.remove({key}, *{part})
                {updates}.append((new(Windowed, ({key}, *{part})), None, {part}[1]))
        {new_value} = {self._aggregated(node, key, value, new_value)}
        {held}.put({key}, {start}, {end}, {new_value})
        {updates}.append((new(Windowed, ({key}, {start}, {end})), {new_value}, {end}))
        for {window}, {sent}, {newest} in {updates}:"""
        for line in lines.strip().split("\n"):
            self._line(depth, line)
        outer, self._headers = self._headers, "()"
        self._children(node, window, sent, newest, depth + 3)
        self._headers = outer

    def _window_bounds(self, node: TimeWindowAggregate, timestamp: str, start: str) -> tuple[str, str]:
        """The starts of a record's windows, and the end of one; written out where they are on a grid."""
        windows = getattr(node.windows_for, "__self__", None)
        size, advance = getattr(windows, "size_ms", None), getattr(windows, "advance_ms", None)
        if size is None or advance is None:
            end = f"{self._constant(node.store.end_of, 'end_of')}({start})"
            return f"{self._constant(node.windows_for, 'windows_for')}({timestamp})", end
        if size == advance:
            return f"({timestamp} // {size} * {size},)", f"{start} + {size}"
        first = f"({timestamp} - {size - advance} if {timestamp} > {size - advance} else 0)"
        return f"range({first} // {advance} * {advance}, {timestamp} + 1, {advance})", f"{start} + {size}"

    def _stream_table_join(
        self, node: StreamTableJoin, key: str, value: str, timestamp: str, depth: int
    ) -> None:
        if node.buffer is not None or node.select_key is not None or type(node.getter) is not TableStore:
            raise NotFusible("a join with grace, with a global or with a versioned table")
        rows, _ = self._rows_of(node.getter)
        row, joined, joiner = (
            self._new_name("row"),
            self._new_name("value"),
            self._constant(node.joiner, "joiner"),
        )
        observed, held = self._new_name("observed"), self._constant(node, "operator")
        self._setup.append(f"{observed} = {held}.observed")
        self._end.append(f"{held}.observed = {observed}")
        self._line(depth, f"if {timestamp} > {observed}:")
        self._line(depth + 1, f"{observed} = {timestamp}")
        self._line(depth, f"if {value} is None" + (":" if node.is_left else f" or {key} is None:"))
        self._line(depth + 1, "dropped += 1")
        self._line(depth, "else:")
        depth += 1
        self._line(depth, f"{row} = {rows}.get({key})")
        if node.is_left:
            self._line(depth, f"{joined} = {joiner}({key}, {value}, {row}[0] if {row} is not None else None)")
        else:
            self._line(depth, f"if {row} is not None:")
            depth += 1
            self._line(depth, f"{joined} = {joiner}({key}, {value}, {row}[0])")
        self._children(node, key, joined, timestamp, depth)


_WRITERS: dict[type[Node], Callable[..., None]] = {
    PassThrough: _Writer._pass_through,
    Filter: _Writer._filter,
    Map: _Writer._map,
    MapValues: _Writer._map_values,
    SelectKey: _Writer._select_key,
    FlatMap: _Writer._flat_map,
    FlatMapValues: _Writer._flat_map_values,
    Peek: _Writer._peek,
    Sink: _Writer._sink,
    TableSource: _Writer._table_source,
    ToStream: _Writer._to_stream,
    TableMapValues: _Writer._table_map_values,
    StreamAggregate: _Writer._aggregate,
    StreamReduce: _Writer._reduce,
    TimeWindowAggregate: _Writer._windowed,
    SessionAggregate: _Writer._sessions,
    StreamTableJoin: _Writer._stream_table_join,
}
