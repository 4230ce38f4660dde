"""The service of the page ``services.md`` runs: two instances, one leader, writes through both."""

import re
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import Broker
from tests.shared.services import running

PAGE = Path(__file__).parent.parent.parent / "docs" / "services.md"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), found)
    return found


@pytest.mark.slow
def test_the_service_of_the_page(example: dict[str, Any]) -> None:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        servers = broker.bootstrap_servers
        with running(example["run"], servers) as first, running(example["run"], servers) as second:
            for number, each in enumerate((first, second)):
                made = each.http.put(f"/notes/n{number}", json={"text": f"note {number}"})
                assert made.json() == {"written": f"n{number}"}, made.text
            missing = first.http.get("/notes/none")
            assert (missing.status_code, missing.json()["error_code"]) == (404, 40401)
            assert "/notes/{name}" in first.http.get("/openapi.json").json()["paths"]
        with running(example["run"], servers) as later:
            assert later.http.get("/notes/n1").json() == {"text": "note 1"}
