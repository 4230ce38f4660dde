"""The service of the page ``services.md`` runs: two instances, one leader, writes through both."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from moldau.testing import Broker

PAGE = Path(__file__).parent.parent.parent / "docs" / "services.md"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), found)
    return found


@contextmanager
def running(run: Callable[..., Any], servers: str) -> Iterator[str]:
    started: Future[str] = Future()
    stopping: Future[Callable[[], object]] = Future()

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stopping.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        await run(servers, started.set_result, stop)

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    try:
        yield started.result(30)
    finally:
        stopping.result(1)()
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.slow
def test_the_service_of_the_page(example: dict[str, Any]) -> None:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        servers = broker.bootstrap_servers
        with running(example["run"], servers) as first, running(example["run"], servers) as second:
            urls = (first, second)
            with httpx.Client(timeout=30, trust_env=False) as http:
                for number, url in enumerate(urls):
                    made = http.put(f"{url}/notes/n{number}", json={"text": f"note {number}"})
                    assert made.json() == {"written": f"n{number}"}, made.text
                missing = http.get(f"{first}/notes/none")
                assert (missing.status_code, missing.json()["error_code"]) == (404, 40401)
                assert "/notes/{name}" in http.get(f"{first}/openapi.json").json()["paths"]
        with running(example["run"], servers) as later, httpx.Client(trust_env=False) as http:
            assert http.get(f"{later}/notes/n1").json() == {"text": "note 1"}
