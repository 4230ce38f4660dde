"""A real broker inside the process, for tests: own thread, own event loop, own port, in memory.

Law: everything that touches the broker's state runs on its loop; the methods here only hand work
over and wait. Nothing is left behind: no thread, no file, no port.
"""

import asyncio
import inspect
import re
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from moldau.base.clock import SteppedClock
from moldau.broker.dispatch import DROP
from moldau.node import Node, new_event_loop
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.records import Record, batches, decode_records
from moldau.testing.interception import Delay, Drop, Interception

_T = TypeVar("_T")

#: A test's batches are small; anything larger than this is a mistake or an attack.
_DECODED_LIMIT = 256 * 1024 * 1024


class Broker:
    """``with Broker() as broker:`` starts one; ``broker.bootstrap_servers`` is its address.

    ``settings`` are Kafka's names, as in a ``server.properties`` file. With a ``data_dir`` the broker
    writes to disk; without one it keeps everything in memory. ``port`` 0 is a free port.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        data_dir: str | None = None,
        port: int = 0,
        clock: SteppedClock | None = None,
    ) -> None:
        self.clock = SteppedClock() if clock is None else clock
        self._properties = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", **(settings or {})}
        if data_dir is not None:
            self._properties["log.dirs"] = str(data_dir)
        self._in_memory = data_dir is None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._node: Node | None = None

    # --- life -----------------------------------------------------------------------------------

    def start(self) -> "Broker":
        if self._thread is not None:
            raise RuntimeError("this broker is running already")
        ready: Future[Node] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="moldau-broker", daemon=True)
        self._thread.start()
        try:
            self._node = ready.result()
        except BaseException:
            self._thread.join()
            self._thread = None
            raise
        return self

    def stop(self) -> None:
        """Stops in good order; a second call does nothing."""
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        self._thread = self._loop = self._node = None

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _run(self, ready: "Future[Node]") -> None:
        loop = self._loop = new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            node = Node(self._properties, clock=self.clock, in_memory=self._in_memory)
            loop.run_until_complete(node.start())
        except BaseException as error:
            loop.close()
            ready.set_exception(error)
            return
        ready.set_result(node)
        try:
            loop.run_forever()
            loop.run_until_complete(node.stop())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    # --- what a test sees -----------------------------------------------------------------------

    @property
    def node(self) -> Node:
        """The broker itself; touch it only on its own loop (``broker.run``)."""
        if self._node is None:
            raise RuntimeError("the broker is not running: use it in a with statement, or call start()")
        return self._node

    @property
    def bootstrap_servers(self) -> str:
        host, port = self.node.address()
        return f"{host}:{port}"

    @property
    def port(self) -> int:
        return self.node.address()[1]

    def topics(self) -> list[str]:
        return sorted(self.node.metadata.image.topics_by_name)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Everything that a topic holds, in order within each partition, without a consumer."""

        async def read() -> list[Record]:
            held = self.node.replicas.by_name.get(topic)
            if held is None:
                raise KeyError(f"there is no topic {topic!r}; there are {self.topics()}")
            found: list[Record] = []
            for index, replica in enumerate(held.partitions):
                if replica is not None and replica.log is not None and partition in (None, index):
                    found += _read_all(replica.log)
            return found

        return self.run(read())

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        self.run(self.node.create_topic(name, partitions, configs or {}))

    def reset(self) -> None:
        """Back to an empty broker: topics, configs, sessions and interceptors go; the port stays."""
        self.run(self.node.reset())

    # --- what a test does -----------------------------------------------------------------------

    def intercept(self, api: ApiKey | int | str, function: Callable[..., Any]) -> Interception:
        """Puts ``function`` in front of an API, named as ``"Produce"``, ``"PRODUCE"`` or by its key."""
        interception = Interception(self, _api_key(api), function)
        takes_context = len(inspect.signature(function).parameters) > 1

        def intercept(request: Any, context: Any) -> Any:
            interception.calls += 1
            verdict = function(request, context) if takes_context else function(request)
            return self._verdict(verdict)

        self.run(self._set_interceptor(interception.api_key, intercept))
        return interception

    def remove_interception(self, interception: Interception) -> None:
        self.run(self._set_interceptor(interception.api_key, None))

    async def _set_interceptor(self, api_key: int, function: Callable[..., Any] | None) -> None:
        interceptors = self.node.dispatch.interceptors
        if function is None:
            interceptors.pop(api_key, None)
        else:
            interceptors[api_key] = function

    def _verdict(self, verdict: Any) -> Any:
        if isinstance(verdict, Drop):
            return DROP
        if isinstance(verdict, Delay):
            return self._delayed(verdict)
        return verdict

    async def _delayed(self, verdict: Delay) -> Any:
        due = asyncio.Event()
        self.node.timers.after(verdict.seconds, due.set)
        await due.wait()
        return self._verdict(verdict.then)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Runs a coroutine on the broker's loop and waits for it."""
        if self._loop is None:
            work.close()
            raise RuntimeError("the broker is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _read_all(log: Any) -> list[Record]:
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 16 * 1024 * 1024, log.log_end_offset, at_least_one=True)
        if piece is None:
            break
        data = piece.read()
        for position, header in batches(data):
            offset = header.last_offset + 1
            if not header.is_control:
                found += decode_records(data, position, header, limit=_DECODED_LIMIT)
    return [record for record in found if record.offset >= log.log_start_offset]


def _api_key(api: ApiKey | int | str) -> int:
    if isinstance(api, str):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api).upper()
        return ApiKey[name]
    return ApiKey(api)
