"""Topics as DataFrames: ``format("moldau")`` for Spark, and ``topic`` as its short form.

    from moldau.spark import spark_session, topic

    spark = spark_session()
    topic("orders", "localhost:9092").df(spark).show()

Spark finds the source by itself wherever this package is installed; nothing has to be registered. Names are
loaded when they are first used: a task that reads bytes does not wait for modules that only a driver needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.spark.options import OptionError as OptionError
    from moldau.spark.query.listener import listen as listen
    from moldau.spark.session.create import JavaNotFound as JavaNotFound
    from moldau.spark.session.create import find_java as find_java
    from moldau.spark.session.create import spark_session as spark_session
    from moldau.spark.topic_frames import Topic as Topic
    from moldau.spark.topic_frames import topic as topic

_EXPORTS = {
    "JavaNotFound": "session.create",
    "OptionError": "options",
    "Topic": "topic_frames",
    "find_java": "session.create",
    "listen": "query.listener",
    "spark_session": "session.create",
    "topic": "topic_frames",
}
__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    globals()[name] = found
    return found
