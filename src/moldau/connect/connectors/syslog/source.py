"""SyslogSource: listens for messages of syslog, over UDP or TCP.

A thread receives. Senders over TCP wait when the topic is slower than they are; datagrams that find no room
are lost, as on every network, and counted in the log.

Invariant: there are never more than ``syslog.queue.max.size`` messages in memory.
"""

import logging
import queue
import selectors
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import NonEmptyString, OneOf, Range
from moldau.connect.connector import SourceConnector, SourceTask, SourceTaskContext
from moldau.connect.connectors.syslog.messages import MESSAGE, frames, parsed
from moldau.connect.data.schema import Schema, Struct
from moldau.connect.data.types import Type
from moldau.connect.errors import ConnectException
from moldau.connect.records import SourceRecord

log = logging.getLogger("moldau.connect.connectors")

_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM
_KEY = Schema(Type.STRING)
_READ = 65_536


class SyslogSource(SourceConnector):
    class_name = "io.confluent.connect.syslog.SyslogSourceConnector"
    task_class_name = "io.confluent.connect.syslog.SyslogSourceTask"
    config = ConfigDef(
        ConfigKey("topic", ConfigType.STRING, "syslog", _HIGH, "The topic.", NonEmptyString()),
        ConfigKey(
            "syslog.listener", ConfigType.STRING, "UDP", _HIGH, "How messages come.", OneOf("UDP", "TCP")
        ),
        ConfigKey("syslog.host", ConfigType.STRING, "127.0.0.1", _HIGH, "The address to listen on."),
        ConfigKey("syslog.port", ConfigType.INT, 3514, _HIGH, "The port; 0 is a free one.", Range(0, 65535)),
        ConfigKey("syslog.queue.max.size", ConfigType.INT, 10_000, _MEDIUM, "Messages that wait.", Range(1)),
        ConfigKey("syslog.connections.max", ConfigType.INT, 1000, _MEDIUM, "Senders at once.", Range(1)),
        ConfigKey(
            "syslog.message.max.bytes", ConfigType.INT, 65_536, _MEDIUM, "A longer one is cut.", Range(480)
        ),
        ConfigKey("batch.size", ConfigType.INT, 2000, _MEDIUM, "Records at a time.", Range(1)),
    )

    def make_task(self) -> SourceTask:
        return SyslogSourceTask()

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return []  # it talks to nobody: senders come


class SyslogSourceTask(SourceTask):
    waits = True

    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = SyslogSource.config.parse(settings)
        self._context = context
        self._found: queue.Queue[tuple[bytes, str]] = queue.Queue(self._settings["syslog.queue.max.size"])
        self._stopping = threading.Event()
        self._lost = 0
        streams = self._settings["syslog.listener"] == "TCP"
        host, port = self._settings["syslog.host"], self._settings["syslog.port"]
        try:
            kind = socket.SOCK_STREAM if streams else socket.SOCK_DGRAM
            family, *_, address = socket.getaddrinfo(host, port, type=kind, flags=socket.AI_PASSIVE)[0]
            self._listener = socket.socket(family, kind)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(address)
        except OSError as error:
            raise ConnectException(f"Nothing can be received at {host}:{port}: {error}") from None
        if streams:
            self._listener.listen()
        self._listener.setblocking(False)
        #: Where it listens, also where the port was 0.
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(
            target=self._streams if streams else self._datagrams, name="syslog", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        stopping = getattr(self, "_stopping", None)
        if stopping is None:
            return
        stopping.set()
        if getattr(self, "_thread", None) is not None:
            self._thread.join(5)
        if getattr(self, "_listener", None) is not None:
            self._listener.close()

    def poll(self) -> Sequence[SourceRecord]:
        found: list[SourceRecord] = []
        with suppress(queue.Empty):
            while len(found) < self._settings["batch.size"]:
                found.append(self._record(*self._found.get(timeout=0 if found else 0.2)))
        if self._lost:
            lost, self._lost = self._lost, 0
            log.warning("connector %s: %d datagrams found no room", self._context.connector, lost)
        return found

    def _record(self, raw: bytes, sender: str) -> SourceRecord:
        value: Struct = parsed(raw.decode("utf-8", "replace"), sender, self._context.now_ms())
        host = value.get("host") or sender
        topic = self._settings["topic"]
        return SourceRecord(topic=topic, key_schema=_KEY, key=str(host), value_schema=MESSAGE, value=value)

    # --- receiving, in the thread ---------------------------------------------------------------------

    def _datagrams(self) -> None:
        limit = self._settings["syslog.message.max.bytes"]
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._stopping.is_set():
                if not selector.select(0.2):
                    continue
                with suppress(OSError):
                    raw, address = self._listener.recvfrom(_READ)
                    try:
                        self._found.put_nowait((raw[:limit].rstrip(b"\r\n\0"), address[0]))
                    except queue.Full:
                        self._lost += 1

    def _streams(self) -> None:
        buffers: dict[socket.socket, tuple[bytes, str]] = {}
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._stopping.is_set():
                for key, _ in selector.select(0.2):
                    if key.fileobj is self._listener:
                        self._accept(selector, buffers)
                    elif isinstance(key.fileobj, socket.socket) and not self._receive(key.fileobj, buffers):
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
            for connection in buffers:
                connection.close()

    def _accept(
        self, selector: selectors.BaseSelector, buffers: dict[socket.socket, tuple[bytes, str]]
    ) -> None:
        with suppress(OSError):
            connection, address = self._listener.accept()
            if len(buffers) >= self._settings["syslog.connections.max"]:
                connection.close()
                return
            connection.setblocking(False)
            buffers[connection] = (b"", address[0])
            selector.register(connection, selectors.EVENT_READ)

    def _receive(self, connection: socket.socket, buffers: dict[socket.socket, tuple[bytes, str]]) -> bool:
        """Whether the connection is still open."""
        limit = self._settings["syslog.message.max.bytes"]
        buffer, sender = buffers[connection]
        try:
            more = connection.recv(_READ)
        except BlockingIOError:
            return True
        except OSError:
            more = b""
        messages, rest = frames(buffer + more, limit)
        if not more:
            del buffers[connection]
            messages += [rest.strip(b"\r\n\0")] if rest.strip(b"\r\n\0") else []
        else:
            buffers[connection] = (rest, sender)
        for message in messages:
            self._wait_for_room(message, sender)
        return bool(more)

    def _wait_for_room(self, message: bytes, sender: str) -> None:
        while not self._stopping.is_set():
            with suppress(queue.Full):
                self._found.put((message, sender), timeout=0.2)
                return
