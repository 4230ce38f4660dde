"""The examples of docs/serializers.md run, against a real broker and a real registry."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "serializers.md"


@pytest.mark.slow
def test_the_examples_run(url, registry, serde_broker):
    names = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        text = block.replace("http://127.0.0.1:8081", url).replace(
            "127.0.0.1:9092", serde_broker.bootstrap_servers
        )
        exec(compile(text, str(PAGE), "exec"), names)
    consumer = names["consumer"]
    consumer.close()
    assert registry.versions("orders-value") == [1]
    assert names["options"].schema_id_in == "header"
