"""The databases: SQLite and PostgreSQL always, MariaDB in ``make test-connect``."""

import os
from collections.abc import Iterator

import pytest

from tests.connect.connectors.jdbc.databases import Database, database

KINDS = ["sqlite", "postgresql", *(["mysql"] if os.environ.get("MOLDAU_TEST_CONNECT") else [])]


@pytest.fixture(scope="module", params=KINDS)
def db(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with database(request.param, tmp_path_factory.mktemp("db")) as found:
        yield found
