"""What pipelines and streams applications say of themselves: each has a line in the topic of statuses.

Their processes run anywhere and write their progress into a compacted topic of the cluster; the console reads
it as any record. The topic is the history, too: what came before the newest status gives the plots.

Invariant: anybody who may write to the topic can put anything there: what is no status, or no number, is left
out, and everything has a bound. Pure: the records are arguments.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.console.seen.history import TimeSeries

#: As moldau.spark.query.listener has it, which needs Spark to be imported.
TOPIC = "__moldau_pipelines"
#: A query tells at least every ten seconds that it runs; a batch may take its time.
SILENT_MS = 60_000
ENDED = ("stopped", "failed")
SPARK, STREAMS = "spark", "streams"
_MAX_QUERIES = 1_000
_MAX_TOPICS = 500
_MAX_NODES = 300
_MAX_TEXT = 20_000
_MAX_NAME = 300


@dataclass(frozen=True, slots=True)
class PlanNode:
    """An operator or a topic in the picture of a program."""

    id: str
    kind: str
    label: str
    detail: str = ""
    #: Its name in the cluster, where it is a topic.
    topic: str = ""
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """One query at a moment; None is what it has not said."""

    name: str
    kind: str
    state: str
    time_ms: int
    pipeline: str = ""
    group: str = ""
    host: str = ""
    output: str = ""
    batch_id: int | None = None
    rows: int | None = None
    rows_per_second: float | None = None
    batch_ms: float | None = None
    #: Records that wait, by topic; None before anything was said.
    lag: Mapping[str, int] | None = None
    late_rows: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    state_rows: int | None = None
    state_bytes: int | None = None
    watermark: str = ""
    error: str = ""
    plan: tuple[PlanNode, ...] = ()

    @property
    def total_lag(self) -> int | None:
        return None if self.lag is None else sum(self.lag.values())

    def silent_ms(self, now_ms: int) -> int:
        """For how long it should have said something; 0 where it need not."""
        since = now_ms - self.time_ms
        return since if self.state not in ENDED and since > SILENT_MS else 0


@dataclass(slots=True)
class Told:
    """The newest status of a query, and what it was like before."""

    status: Status
    lag: TimeSeries = field(default_factory=TimeSeries)
    rate: TimeSeries = field(default_factory=TimeSeries)
    batch_ms: TimeSeries = field(default_factory=TimeSeries)


class Statuses:
    """All queries by name, as far as the topic was read."""

    def __init__(self) -> None:
        self.queries: OrderedDict[str, Told] = OrderedDict()
        #: Where to go on reading, by partition, and the topic that this is about.
        self.positions: dict[int, int] = {}
        self.topic_id: object = None

    def begin(self, topic_id: object) -> None:
        """A topic that was made again is another one."""
        if topic_id != self.topic_id:
            self.queries.clear()
            self.positions.clear()
            self.topic_id = topic_id

    def take(self, time_ms: int, key: bytes | None, value: Any) -> None:
        """A record: its value as JSON gave it, None where the query was forgotten."""
        name = (key or b"").decode("utf-8", "replace")[:_MAX_NAME]
        if value is None:
            self.queries.pop(name, None)
            return
        status = read_status(name, time_ms, value)
        if status is None:
            return
        told = self.queries.get(name)
        if told is None:
            told = self.queries[name] = Told(status)
        told.status = status
        self.queries.move_to_end(name)
        while len(self.queries) > _MAX_QUERIES:
            self.queries.popitem(last=False)
        for line, number in (
            (told.lag, status.total_lag),
            (told.rate, status.rows_per_second),
            (told.batch_ms, status.batch_ms),
        ):
            if number is not None:
                line.add(time_ms, number)


def parsed(value: bytes | None) -> Any:
    """What the record says; {} where it is no JSON."""
    if value is None:
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return {}


def read_status(name: str, time_ms: int, given: Any) -> Status | None:
    """None where it is no status of a query."""
    if not isinstance(given, Mapping) or not name or not _text(given.get("state")):
        return None
    kind = _text(given.get("kind")) or SPARK
    return Status(
        name=name,
        kind=kind if kind in (SPARK, STREAMS) else SPARK,
        state=_text(given.get("state"), 40),
        time_ms=time_ms,
        pipeline=_text(given.get("pipeline"), _MAX_NAME),
        group=_text(given.get("group"), _MAX_NAME),
        host=_text(given.get("host"), _MAX_NAME),
        output=_text(given.get("output") or given.get("sink"), 2_000),
        batch_id=_whole(given.get("batch_id"), least=0),
        rows=_whole(given.get("rows")),
        rows_per_second=_number(given.get("processed_rows_per_second")),
        batch_ms=_number(given.get("batch_duration_ms")),
        lag=_lag(given.get("lag")),
        late_rows=_whole(given.get("late_rows")),
        dropped=_counts(given.get("dropped")),
        state_rows=_whole(given.get("state_rows")),
        state_bytes=_whole(given.get("state_bytes")),
        watermark=_text(given.get("watermark"), 60),
        error=_text(given.get("error"), _MAX_TEXT),
        plan=_plan(given.get("plan")),
    )


def plan_of(status: Status) -> tuple[PlanNode, ...]:
    """What to draw: what the program has told, or the query between its topics."""
    if status.plan:
        return status.plan
    sources = [
        PlanNode(f"in:{topic}", "source", topic, topic=topic, after=("query",)) for topic in status.lag or ()
    ]
    keeps = "" if status.state_rows is None else f"keeps {status.state_rows:,} rows"
    query = PlanNode("query", "processor", status.name, keeps, after=("out",) if status.output else ())
    if not status.output:
        return (*sources, query)
    topic = status.output.removeprefix("topic ") if status.output.startswith("topic ") else ""
    return (*sources, query, PlanNode("out", "sink", topic or status.output, topic=topic))


def _plan(given: Any) -> tuple[PlanNode, ...]:
    if not isinstance(given, list) or len(given) > _MAX_NODES:
        return ()
    nodes: dict[str, PlanNode] = {}
    for each in given:
        if not isinstance(each, Mapping) or not (id_ := _text(each.get("id"), _MAX_NAME)):
            continue
        kind = _text(each.get("kind"))
        nodes[id_] = PlanNode(
            id_,
            kind if kind in ("source", "sink", "internal") else "processor",
            _text(each.get("label"), _MAX_NAME),
            ", ".join(_texts(each.get("stores"))),
            _text(each.get("topic"), _MAX_NAME),
            tuple(dict.fromkeys(_texts(each.get("after")))),
        )
    return tuple(nodes.values())


def _lag(given: Any) -> dict[str, int] | None:
    if not isinstance(given, list) or not given:
        return None
    found: dict[str, int] = {}
    for source in given[:_MAX_TOPICS]:
        for topic, number in _counts(source).items():
            found[topic] = found.get(topic, 0) + number
    return dict(list(found.items())[:_MAX_TOPICS])


def _counts(given: Any) -> dict[str, int]:
    if not isinstance(given, Mapping):
        return {}
    counted = [(str(name)[:_MAX_NAME], _whole(number)) for name, number in list(given.items())[:_MAX_TOPICS]]
    return {name: number for name, number in counted if number is not None}


def _text(given: Any, most: int = _MAX_NAME) -> str:
    return given[:most] if isinstance(given, str) else ""


def _texts(given: Any) -> list[str]:
    return [_text(each) for each in given[:_MAX_NODES] if _text(each)] if isinstance(given, list) else []


def _number(given: Any) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return float(given) if 0 <= given < 1e15 else None  # leaves out NaN, too


def _whole(given: Any, least: int = 0) -> int | None:
    number = _number(given)
    return None if number is None or number < least else int(number)
