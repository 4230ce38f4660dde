import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from moldau.testing import Broker


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
        options = ServerOptions(bootstrap_servers=broker.bootstrap_servers)
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
