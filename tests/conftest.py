"""What all tests share: those that take long begin first, so that short ones fill the gaps behind them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes says more about the machine than about the code.
settings.register_profile("moldau", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("moldau")


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One Spark for all tests of a worker: it takes seconds to start."""
    from moldau.spark import JavaNotFound, find_java, spark_session

    try:
        find_java()
    except JavaNotFound as missing:
        pytest.skip(str(missing))
    session = spark_session(
        "moldau tests",
        master="local[2]",
        spark_sql_shuffle_partitions=2,
        spark_driver_memory="1g",
        # Short lives: what a better compiler saves is less than what it costs.
        spark_driver_extraJavaOptions="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        spark_sql_codegen_wholeStage="false",
        spark_sql_execution_pyspark_udf_faulthandler_enabled="true",
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, else as collected: a file stays together, as each goes to one worker."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")  # before pytest looks which markers are wanted
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
