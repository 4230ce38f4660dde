"""The examples of docs/connect.md run."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "connect.md"


def test_the_examples_run() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["value"].get("id") == 7
    assert names["json"].from_connect("t", None, {"a": 1}) == b'{"a":1}'
