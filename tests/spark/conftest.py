import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

import pytest

from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[str]:
    """The URL of a schema registry that runs on the module's broker."""
    from moldau.registry.server import ServerOptions, serve

    started: Future[str] = Future()
    stopping: Future[Callable[[], object]] = Future()

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stopping.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        options = ServerOptions(bootstrap_servers=broker.bootstrap_servers, port=0)
        await serve(options, lambda url, _: started.set_result(url), stop)

    def body() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=body, name="registry", daemon=True)
    thread.start()
    yield started.result(30)
    stopping.result(1)()
    thread.join(30)
