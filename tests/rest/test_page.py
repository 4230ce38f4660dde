"""The page of the documentation: its calls of v2, one after the other, as they stand there."""

import json
import re
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "rest.md"


@pytest.mark.slow
def test_the_calls_of_the_page(start, registry):
    page = PAGE.read_text()
    section = page[page.index("## v2") : page.index("## v3")]
    blocks = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    calls = [
        call for block in blocks for call in re.split(r"\n(?=curl )", block.replace("\n\n", "\n")) if call
    ]
    assert len(calls) == 8
    with start(proxy={"registry_url": registry.url}) as proxy:
        port = proxy.url.rpartition(":")[2]
        for call in calls:
            command = call.replace("localhost:8082", f"127.0.0.1:{port}").replace("curl ", "curl -sS ", 1)
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
            assert done.stderr == ""
            if done.stdout:
                assert "error_code" not in done.stdout or '"error_code":null' in done.stdout, done.stdout
            if "/records" in call:
                assert [each["value"] for each in json.loads(done.stdout)] == [{"total": 12}, [1, 2]]
