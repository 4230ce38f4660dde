"""The examples of docs/client.md run, one after the other, against a real broker."""

import re
from pathlib import Path
from typing import Any

import pytest

import moldau.client
from moldau.testing import Broker

PAGE = Path(__file__).parent.parent.parent / "docs" / "client.md"


@pytest.mark.slow
def test_the_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 7
    names: dict[str, Any] = {"__name__": "page"}
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("bills", 2)
        for block in blocks:
            text = block.replace("127.0.0.1:9092", broker.bootstrap_servers)
            exec(compile(text, str(PAGE), "exec"), names)


def test_every_name_is_there() -> None:
    for name in moldau.client.__all__:
        assert getattr(moldau.client, name) is not None
    assert not hasattr(moldau.client, "nothing")
