"""Messages that real senders send over real sockets."""

import logging
import logging.handlers
import socket

import pytest

from moldau.base.clock import SystemClock
from moldau.connect.connector import SourceTaskContext
from moldau.connect.connectors.syslog.source import SyslogSourceTask
from moldau.connect.data.schema import Struct
from moldau.connect.errors import ConnectException
from moldau.connect.records import SourceRecord
from tests.shared.waiting import wait_until


def started(**settings: str) -> SyslogSourceTask:
    task = SyslogSourceTask()
    given = {"syslog.port": "0", **{name.replace("_", "."): value for name, value in settings.items()}}
    task.start(given, SourceTaskContext("s", 0, lambda _: None, SystemClock().now_ms))
    return task


def until(task: SyslogSourceTask, count: int) -> list[str]:
    found: list[SourceRecord] = []
    wait_until(lambda: found.extend(task.poll()) is None and len(found) >= count, lambda: found)
    assert all(isinstance(each.value, Struct) for each in found)
    return [str(each.value.get("message")) for each in found if isinstance(each.value, Struct)]


@pytest.mark.parametrize("kind", ["UDP", "TCP"])
def test_pythons_own_sender(kind: str) -> None:
    task = started(syslog_listener=kind)
    handler = logging.handlers.SysLogHandler(
        ("127.0.0.1", task.port), socktype=socket.SOCK_DGRAM if kind == "UDP" else socket.SOCK_STREAM
    )
    if kind == "TCP":
        handler.append_nul = False
        handler.setFormatter(logging.Formatter("%(message)s\n"))
    logger = logging.Logger("shop", logging.INFO)
    logger.addHandler(handler)
    logger.info("order %d came", 7)
    logger.warning("größer")
    assert until(task, 2) == ["order 7 came", "größer"]
    handler.close()
    task.stop()


def test_senders_wait_when_there_is_no_room() -> None:
    task = started(syslog_listener="TCP", syslog_queue_max_size="5", batch_size="3")
    with socket.create_connection(("127.0.0.1", task.port)) as sender:
        for number in range(50):
            text = f"<13>m{number}".encode()
            sender.sendall(str(len(text)).encode() + b" " + text)
    assert until(task, 50) == [f"m{number}" for number in range(50)]
    task.stop()


def test_a_port_that_is_taken() -> None:
    task = started(syslog_listener="TCP")
    with pytest.raises(ConnectException, match="Nothing can be received"):
        started(syslog_listener="TCP", syslog_port=str(task.port))
    task.stop()
