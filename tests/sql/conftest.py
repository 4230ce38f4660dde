"""A SELECT over records without a broker, by the sources of ``clicks``."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from moldau.sql.program import catalogue_of
from moldau.testing import Broker
from tests.sql.clicks import STATEMENTS, Sql


@pytest.fixture
def sql() -> Sql:
    return Sql(catalogue_of(STATEMENTS))


@pytest.fixture(scope="module")
def registry_url() -> Iterator[str]:
    command = [sys.executable, "-m", "moldau", "registry", "--port", "0", "--bootstrap-servers"]
    with (
        Broker() as broker,
        subprocess.Popen([*command, broker.bootstrap_servers], stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        found = re.search(r"ready: (\S+)", process.stdout.readline())
        assert found is not None
        yield found[1]
        process.terminate()
