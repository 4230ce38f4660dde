"""Lines of a log as records of a topic of another cluster."""

import logging

import pytest

from moldau.client.producer.log_handler import TopicHandler
from moldau.testing import Broker


@pytest.mark.slow
def test_lines_are_records() -> None:
    with Broker() as broker:
        broker.create_topic("logs")
        handler = TopicHandler(broker.bootstrap_servers, "logs")
        logger = logging.getLogger("tests.of.the.handler")
        logger.propagate = False
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            logger.info("hello %s", "world")
            logger.warning("trouble")
            handler.handle(logging.LogRecord("moldau.client.x", logging.INFO, "", 1, "itself", None, None))
            records = broker.wait_for_records("logs", 2, 60.0)
            handler.flush()
        finally:
            logger.removeHandler(handler)
            handler.close()
        assert [record.value for record in records] == [b"hello world", b"trouble"]
        assert dict(records[1].headers)["level"] == b"WARNING"
        assert handler.dropped == 0
