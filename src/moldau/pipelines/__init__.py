"""Pipelines: files of decorated functions that return DataFrames, run on Spark.

    from moldau.pipelines import Context, to_topic

    @to_topic("loud", key="key")
    def loud(context: Context):
        return context.stream("quiet").selectExpr("key", "upper(CAST(value AS STRING)) AS value")

``moldau pipeline run FILE`` runs such a file; ``run_file`` runs it from a program. Names are imported when
they are first used, so that a decorator needs no Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.pipelines.context import Context as Context
    from moldau.pipelines.definitions import to_console as to_console
    from moldau.pipelines.definitions import to_parquet as to_parquet
    from moldau.pipelines.definitions import to_topic as to_topic
    from moldau.pipelines.errors import PipelineError as PipelineError
    from moldau.pipelines.running import run_file as run_file

_EXPORTS = {
    "Context": "context",
    "PipelineError": "errors",
    "run_file": "running",
    "to_console": "definitions",
    "to_parquet": "definitions",
    "to_topic": "definitions",
}
__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    globals()[name] = found
    return found
