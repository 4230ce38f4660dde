"""A logging handler that writes to a topic, one record for each line of the log.

    logging.getLogger().addHandler(TopicHandler("127.0.0.1:9092", "application-logs"))

Meant for another cluster than the one whose log it is: what a cluster has to say of its own end must not
depend on it.

Invariant: never keeps the program waiting: lines that the topic does not take in time are dropped and
counted. What the client logs of itself is left out, or the handler would feed itself.
"""

import asyncio
import logging
import socket
from typing import Any

from moldau.client.producer.accumulator import RecordMetadata
from moldau.client.producer.producer import Producer
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.protocol.errors import KafkaError

#: Lines that may be on their way.
_WAITING_MOST = 10_000


class TopicHandler(logging.Handler):
    def __init__(self, bootstrap_servers: str, topic: str, **options: Any) -> None:
        """``options`` are those of ``Cluster``. KafkaError when the cluster cannot be reached now."""
        super().__init__()
        self._topic = topic
        self._host = socket.gethostname().encode()
        self._loop = BackgroundLoop(bootstrap_servers, **options)
        self._producer: Producer = self._loop.run(Producer.open(self._loop.cluster, linger_ms=50))
        self._waiting = 0
        #: Lines keep their order while the topic is still to be found.
        self._order = asyncio.Lock()
        #: Lines that were not written.
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(("moldau.client", "asyncio")):
            return
        if self._waiting >= _WAITING_MOST:
            self.dropped += 1
            return
        try:
            line = self.format(record).encode("utf-8", "replace")
        except Exception:
            self.handleError(record)
            return
        self._waiting += 1
        headers = (("level", record.levelname.encode()), ("logger", record.name.encode()))
        self._loop.submit(self._send(line, headers, round(record.created * 1000)))

    async def _send(self, line: bytes, headers: Any, timestamp_ms: int) -> None:
        try:
            async with self._order:
                await self._producer.send(
                    self._topic,
                    line,
                    key=self._host,
                    headers=headers,
                    timestamp_ms=timestamp_ms,
                    on_delivery=self._delivered,
                )
        except KafkaError:
            self._waiting -= 1
            self.dropped += 1

    def _delivered(self, outcome: RecordMetadata | KafkaError) -> None:
        self._waiting -= 1
        if isinstance(outcome, KafkaError):
            self.dropped += 1

    def flush(self) -> None:
        """Returns when everything so far is written, or was given up."""
        self._loop.run(self._flush())

    async def _flush(self) -> None:
        await self._producer.flush()

    def close(self) -> None:
        try:
            self._loop.run(self._producer.close())
            self._loop.close()
        finally:
            super().close()
