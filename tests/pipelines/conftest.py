from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One Spark for all tests of a worker: that of the other tests with Spark, where they ran first."""
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
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as running:
        yield running
