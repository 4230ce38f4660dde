"""One interface to the databases that the same tests run against."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.connect.servers import Server, mariadb, postgresql, postgresql_address


class Database:
    def __init__(self, kind: str, url: str, connect: Any, server: Server | None = None) -> None:
        self.kind = kind
        self.settings = {"connection.url": url}
        if kind != "sqlite":
            self.settings["connection.user"] = "postgres" if kind == "postgresql" else "root"
        self._connect = connect
        self.server = server

    def run(self, *statements: str) -> None:
        connection = self._connect()
        try:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            connection.commit()
        finally:
            connection.close()

    def rows(self, query: str) -> list[Sequence[Any]]:
        connection = self._connect()
        try:
            cursor = connection.cursor()
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            connection.close()


@contextmanager
def database(kind: str, folder: Path) -> Iterator[Database]:
    if kind == "sqlite":
        file = folder / "test.db"
        sqlite3.connect(file).close()
        yield Database(kind, f"jdbc:sqlite:{file}", lambda: sqlite3.connect(file))
    elif kind == "postgresql":
        psycopg = pytest.importorskip("psycopg")
        with postgresql() as server:
            url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
            yield Database(kind, url, lambda: psycopg.connect(postgresql_address(server)), server)
    else:
        pymysql = pytest.importorskip("pymysql")
        with mariadb() as server:
            where = {"host": "127.0.0.1", "port": server.port, "user": "root", "database": "test"}
            url = f"jdbc:mariadb://127.0.0.1:{server.port}/test"
            yield Database(kind, url, lambda: pymysql.connect(**where), server)
