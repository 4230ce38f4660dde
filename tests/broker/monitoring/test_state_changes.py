"""A broker with application logs: a new topic is a state change, a request is in the log of requests."""

import logging
from pathlib import Path

from moldau.protocol.messages.metadata import MetadataRequest
from moldau.testing import Broker
from tests.contract.wire import Wire
from tests.shared.waiting import wait_until


def test_a_brokers_logs_are_files(tmp_path: Path) -> None:
    names = ("moldau.state", "moldau.request", "moldau.cluster.controller")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
    try:
        settings = {"moldau.logs.dir": str(tmp_path), "moldau.request.log": True}
        with Broker(settings) as broker:
            broker.node.dispatch.log_requests = True
            broker.create_topic("orders", 2)
            Wire(broker.port).ask(MetadataRequest([]), 1)
            changes = tmp_path / "state-change.log"
            wait_until(lambda: "partition orders-1: new, leader" in changes.read_text(), "the state change")
            wait_until(lambda: "METADATA v1" in (tmp_path / "kafka-request.log").read_text(), "the request")
            assert "is the controller" in (tmp_path / "controller.log").read_text()
            assert "METADATA v1" not in (tmp_path / "server.log").read_text()
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
