"""A SQL server in a thread of its own, behind a real port, on a real broker; its queries are only noted."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import httpx

from moldau.sql.server.server import ServerOptions, serve

PATIENCE_SECONDS = 60


class NotedQueries:
    """Notes what is to run; their programs are run by tests of Spark."""

    def __init__(self) -> None:
        self.programs: dict[str, str] = {}

    async def start(self, query_id: str, program: str) -> None:
        self.programs[query_id] = program

    async def stop(self, query_id: str) -> None:
        self.programs.pop(query_id, None)

    async def states(self) -> dict[str, str]:
        return dict.fromkeys(self.programs, "running")


class RunningServer:
    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, trust_env=False)

    def ksql(self, text: str, **more: Any) -> Any:
        answer = self.http.post("/ksql", json={"ksql": text, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def running_server(options: ServerOptions) -> Iterator[RunningServer]:
    started: Future[str] = Future()
    stopping: Future[Callable[[], None]] = Future()

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stopping.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        await serve(options, lambda url, service: started.set_result(url), stop)

    def body() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=body, name="sql-server", daemon=True)
    thread.start()
    server = RunningServer(started.result(PATIENCE_SECONDS))
    try:
        yield server
    finally:
        server.http.close()
        stopping.result(1)()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
