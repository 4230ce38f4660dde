"""A broker for the module, and workers that run on it in threads of their own, behind real ports."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from moldau.connect.worker.herder import Herder
from moldau.connect.worker.server import (
    DistributedOptions,
    Ready,
    StandaloneOptions,
    serve,
    serve_distributed,
)
from moldau.connect.worker.settings import distributed_settings, standalone_settings
from moldau.testing import Broker

JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


class Worker:
    def __init__(self, url: str, herder: Herder) -> None:
        self.url = url
        self.herder = herder
        self.http = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of an answer, or None where it has no body."""
        answer = self.http.request(method, path, json=body)
        assert answer.status_code < 300, (path, answer.text)
        return answer.json() if answer.content else None

    def task(self, name: str, task: int = 0) -> dict[str, Any]:
        for each in self.call("GET", f"/connectors/{name}/status")["tasks"]:
            if each["id"] == task:
                return dict(each)
        return {"state": None}


def worker_properties(broker: Broker, folder: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "key.converter": JSON,
        "value.converter": JSON,
        "offset.storage.file.filename": str(folder / "connect.offsets"),
        "offset.flush.interval.ms": "100",
        "listeners": "http://127.0.0.1:0",
    }


@contextmanager
def running(
    broker: Broker,
    folder: Path,
    connectors: Sequence[Mapping[str, str]] = (),
    users: Mapping[str, str] | None = None,
    **properties: str,
) -> Iterator[Worker]:
    """A standalone worker."""
    given = {**worker_properties(broker, folder), **{k.replace("_", "."): v for k, v in properties.items()}}
    options = StandaloneOptions(standalone_settings(given), connectors, users or {})
    with in_a_thread(lambda ready, stop: serve(options, ready, stop)) as (worker, _):
        yield worker


def clustered(broker: Broker, name: str) -> dict[str, str]:
    """The settings of a worker of the cluster ``name``."""
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "key.converter": JSON,
        "value.converter": JSON,
        "group.id": name,
        "config.storage.topic": f"{name}-configs",
        "offset.storage.topic": f"{name}-offsets",
        "status.storage.topic": f"{name}-status",
        "offset.flush.interval.ms": "100",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "50",
        "listeners": "http://127.0.0.1:0",
    }


@contextmanager
def in_cluster(broker: Broker, name: str, **properties: str) -> Iterator[tuple[Worker, Callable[[], None]]]:
    """A worker of a cluster, and how to stop it early."""
    given = {**clustered(broker, name), **{k.replace("_", "."): v for k, v in properties.items()}}
    options = DistributedOptions(distributed_settings(given))
    with in_a_thread(lambda ready, stop: serve_distributed(options, ready, stop)) as both:
        yield both


@contextmanager
def in_a_thread(
    work: Callable[[Ready, asyncio.Event], Coroutine[Any, Any, None]],
) -> Iterator[tuple[Worker, Callable[[], None]]]:
    started: Future[Worker] = Future()
    stopping: Future[Callable[[], None]] = Future()

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        stopping.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        await work(lambda url, herder: started.set_result(Worker(url, herder)), stop)

    def begin() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    thread = threading.Thread(target=begin, name="connect-worker")
    thread.start()

    def end() -> None:
        if thread.is_alive():
            stopping.result(60)()
        thread.join(60)
        assert not thread.is_alive()

    try:
        worker = started.result(60)
        yield worker, end
        worker.http.close()
    finally:
        end()
