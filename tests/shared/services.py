"""Services of ours for tests: each in a thread or a process, behind a real port, until the block ends."""

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import httpx

from moldau.broker.apis import TABLE

PATIENCE_SECONDS = 60


class Running:
    """A service that answers: its URL, and what else it gave when it was ready."""

    def __init__(self, url: str, service: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.url = url
        self.service = service
        self.loop = loop
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, trust_env=False)

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_SECONDS)


@contextmanager
def running(serve: Callable[..., Awaitable[None]], options: Any) -> Iterator[Running]:
    """Runs ``serve(options, ready, stop)``; ``ready`` takes the URL and perhaps the service."""
    started: Future[Running] = Future()
    stopping: Future[Callable[[], object]] = Future()

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stopping.set_result(lambda: loop.call_soon_threadsafe(stop.set))

        def ready(url: str, service: Any = None) -> None:
            started.set_result(Running(url, service, loop))

        await serve(options, ready, stop)

    def body() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=body, name="service", daemon=True)
    thread.start()
    found = started.result(PATIENCE_SECONDS)
    try:
        yield found
    finally:
        found.http.close()
        stopping.result(1)()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


@contextmanager
def running_registry(bootstrap_servers: str, **options: Any) -> Iterator[Running]:
    """A schema registry; ``options`` are fields of its ``ServerOptions``."""
    from moldau.registry.server import ServerOptions, serve

    with running(serve, ServerOptions(bootstrap_servers=bootstrap_servers, **options)) as found:
        yield found


@contextmanager
def service_process(
    *arguments: object, ready: str = r"ready: (\S+)"
) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """``moldau`` with these arguments in a process, once it is ready: the process, and its URL."""
    command = [sys.executable, "-m", "moldau", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(ready, line)
        assert found is not None, line + process.communicate(timeout=10)[1]
        yield process, found[1]
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)


def load_handlers() -> None:
    """Loads every handler of the broker, which does so when one is first asked for, in a thread of its own.

    Under pytest that means rewriting, and CPython 3.11 fails when two threads rewrite at once (gh-106905).
    """
    for api in TABLE.values():
        assert api.handle
