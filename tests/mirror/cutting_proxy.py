"""A TCP proxy before a broker that breaks connections at random, in the middle of requests and answers."""

import asyncio
import contextlib
import random
import socket
from threading import Thread


class CuttingProxy:
    """Each connection dies after so many bytes as are drawn by lot, while ``mean_bytes`` is set."""

    def __init__(self, target_port: int, seed: int) -> None:
        self.mean_bytes: int | None = None
        self.cuts = 0
        self._target_port = target_port
        self._rng = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._open: set[asyncio.StreamWriter] = set()
        self._thread = Thread(target=self._run, name="cutting-proxy", daemon=True)

    def __enter__(self) -> "CuttingProxy":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        assert not self._thread.is_alive()

    def cut_all(self) -> None:
        """Every connection breaks now."""
        self._loop.call_soon_threadsafe(self._abort, list(self._open))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, sock=self._socket))
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = [writer]
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
            pair.append(back)
            self._open.update(pair)
            left = [self._drawn()]
            await asyncio.gather(self._pipe(reader, back, left, pair), self._pipe(there, writer, left, pair))
        except OSError:
            pass  # one side has gone: so does the other
        finally:
            self._open.difference_update(pair)
            self._abort(pair)

    def _drawn(self) -> float:
        return float("inf") if self.mean_bytes is None else self._rng.expovariate(1 / self.mean_bytes)

    async def _pipe(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        left: list[float],
        pair: list[asyncio.StreamWriter],
    ) -> None:
        while data := await reader.read(65_536):
            if len(data) > left[0]:
                writer.write(data[: int(left[0])])
                self.cuts += 1
                self._abort(pair)
                return
            left[0] -= len(data)
            writer.write(data)
            await writer.drain()
        self._abort(pair)

    @staticmethod
    def _abort(writers: list[asyncio.StreamWriter]) -> None:
        for writer in writers:
            with contextlib.suppress(RuntimeError):  # the loop is closing
                writer.transport.abort()
