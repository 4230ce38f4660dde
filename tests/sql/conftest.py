"""A SELECT over records without a broker, by the sources of ``clicks``."""

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from clicks import STATEMENTS, Sql  # noqa: E402

from moldau.sql.program import catalogue_of  # noqa: E402


@pytest.fixture
def sql() -> Sql:
    return Sql(catalogue_of(STATEMENTS))
