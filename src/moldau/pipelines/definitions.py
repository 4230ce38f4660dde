"""What a pipeline is: functions that return DataFrames, and where each result goes.

    from moldau.pipelines import Context, to_topic

    @to_topic("revenue", key="product", value_format="json", mode="update")
    def revenue(context: Context):
        return context.stream("orders", value_format="json", schema="product STRING, price DOUBLE") ...

A function that carries a decorator is a step: its result is written. A function without one is a dataset
that steps ask for by its name. A file of SQL is read into the same values.

Pure: a decorator only marks its function. Nothing here knows Spark, a cluster or a directory.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from moldau.pipelines.errors import PipelineError
from moldau.spark.typed.formats import FORMATS

_F = TypeVar("_F", bound=Callable[..., Any])

#: The attribute in which a decorator puts the output of a function.
MARK = "__moldau_output__"
MODES = ("append", "update", "complete")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
#: Triggers with which a stream ends when it has caught up; any other one is an interval ("10 seconds").
AVAILABLE_NOW = ("available now", "availablenow", "once")


@dataclass(frozen=True, slots=True)
class TopicOutput:
    """Rows become records of a topic, exactly once where the result is a stream."""

    topic: str
    #: The column whose text is the key; None where there is a column ``key``, or no key.
    key: str | None = None
    #: How the columns become the value; None where there is a column ``value`` already.
    value_format: str | None = None
    mode: str = "append"
    trigger: str | None = None
    #: How many partitions the topic gets if it has to be created.
    partitions: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True)
class ParquetOutput:
    """Rows become Parquet files in a directory; a relative one is below the pipeline's directory."""

    path: str
    partition_by: tuple[str, ...] = ()
    mode: str = "append"
    trigger: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"table {self.path}"


@dataclass(frozen=True, slots=True)
class ConsoleOutput:
    """Rows are printed."""

    mode: str = "append"
    trigger: str | None = None
    rows: int = 20

    def __str__(self) -> str:
        return "the console"


Output = TopicOutput | ParquetOutput | ConsoleOutput


@dataclass(frozen=True, slots=True)
class Step:
    """A result that is written; ``build`` takes a Context and returns a DataFrame."""

    name: str
    build: Callable[[Any], Any]
    output: Output
    #: Its first line in the file.
    line: int = 0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A file: its steps in their order, and every function that a step may ask for by name."""

    name: str
    path: Path
    steps: tuple[Step, ...]
    datasets: Mapping[str, Callable[[Any], Any]]

    def query_name(self, step: str) -> str:
        """The name of a step's query, and of its consumer group."""
        return f"{self.name}-{step}"


def to_topic(
    topic: str,
    *,
    key: str | None = None,
    value_format: str | None = None,
    mode: str = "append",
    trigger: str | None = None,
    partitions: int | None = None,
    **options: object,
) -> Callable[[_F], _F]:
    """Writes what the function returns to a topic.

    ``key`` names the column that becomes the key. With ``value_format`` ("json", "avro", …) all columns
    together are the value; without it there is a column ``value``. More ``options`` are those of
    ``format("moldau")``, with underscores for dots: ``kafka_compression_type="zstd"``.
    """
    if not topic:
        raise PipelineError("to_topic wants the name of a topic: to_topic('revenue')")
    check_format("to_topic", value_format)
    check_mode("to_topic", mode)
    return _marked(TopicOutput(topic, key, value_format, mode, trigger, partitions, texts(options)))


def to_parquet(
    path: str,
    *,
    partition_by: str | Sequence[str] = (),
    mode: str = "append",
    trigger: str | None = None,
    **options: object,
) -> Callable[[_F], _F]:
    """Writes what the function returns to a directory of Parquet files, once for each row.

    A batch result replaces what the directory holds; a stream adds to it.
    """
    if not path:
        raise PipelineError("to_parquet wants a directory: to_parquet('revenue-table')")
    check_mode("to_parquet", mode)
    if mode != "append":
        raise PipelineError(f"to_parquet adds rows to files: mode is 'append', not {mode!r}")
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    return _marked(ParquetOutput(path, columns, mode, trigger, texts(options)))


def to_console(*, mode: str = "append", trigger: str | None = None, rows: int = 20) -> Callable[[_F], _F]:
    """Prints what the function returns, a few rows of each batch."""
    check_mode("to_console", mode)
    return _marked(ConsoleOutput(mode, trigger, rows))


def check_mode(where: str, mode: str) -> None:
    if mode not in MODES:
        raise PipelineError(f"{where}: mode is one of {', '.join(MODES)}, not {mode!r}")


def check_format(where: str, value_format: str | None) -> None:
    if value_format is not None and value_format not in FORMATS:
        raise PipelineError(f"{where}: value_format is one of {', '.join(FORMATS)}, not {value_format!r}")


def check_name(name: str) -> str:
    """The name, if it can be that of a directory and a part of a query's name and group id."""
    if not _NAME.fullmatch(name):
        raise PipelineError(
            f"{name!r} cannot be the name of a pipeline: it is made of letters, digits, '.', '_' and '-'"
        )
    return name


def texts(options: Mapping[str, object]) -> dict[str, str]:
    """The values of options as Spark expects them: strings."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }


def _marked(output: Output) -> Callable[[_F], _F]:
    def mark(function: _F) -> _F:
        if hasattr(function, MARK):
            name = getattr(function, "__name__", "the function")
            raise PipelineError(
                f"{name} has two outputs: let a second function return context.dataset({name!r}) for one"
            )
        setattr(function, MARK, output)
        return function

    return mark
