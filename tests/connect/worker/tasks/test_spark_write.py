"""One partition of a batch, without Spark: what reaches the sink, what becomes a dead letter, what fails.

As in the worker (``test_sink_body.py``).
"""

import datetime
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from moldau.connect.errors import ConnectException
from moldau.connect.worker.settings import standalone_settings
from moldau.connect.worker.tasks.on_spark import whole_config
from moldau.connect.worker.tasks.processing import RawRecord
from moldau.connect.worker.tasks.spark_write import PartitionWriter
from tests.connect.conftest import JSON

FILE = "org.apache.kafka.connect.file.FileStreamSinkConnector"
ARCHIVE = "io.moldau.connect.archive.ArchiveSinkConnector"
JDBC = "io.confluent.connect.jdbc.JdbcSinkConnector"
LETTERS = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "letters"}


@dataclass(frozen=True, slots=True)
class Writer(PartitionWriter):
    """Keeps its dead letters."""

    letters: list[RawRecord] = field(default_factory=list)

    def bury(self, letters: Sequence[RawRecord]) -> None:
        self.letters.extend(letters)


def writer(class_name: str, **settings: str) -> Writer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    plain = {
        "key.converter": JSON,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": "-",
        "bootstrap.servers": "localhost:1",
    }
    config = {"connector.class": class_name, "topics": "t", **given}
    whole = whole_config(config, standalone_settings(plain))
    return Writer(class_name, "sink", config, whole, "localhost:1", {})


def row(offset: int, value: bytes | None) -> dict[str, Any]:
    """As a row of Spark, which is read by names."""
    when = datetime.datetime.fromtimestamp(1.5, datetime.UTC)
    return {
        "topic": "t",
        "partition": 0,
        "offset": offset,
        "key": None,
        "value": None if value is None else bytearray(value),
        "headers": [{"key": "h", "value": bytearray(b"x")}],
        "timestamp": when,
        "timestampType": 0,
    }


ROWS = [row(0, b'"good"'), row(1, b"no json"), row(2, b'"also"')]


def test_good_records_before_a_bad_one_reach_the_sink(tmp_path: Path) -> None:
    """They were lost until a restart, and again after it: the batch never got past the bad one."""
    made = writer(FILE, file=str(tmp_path / "out"))
    with pytest.raises(ConnectException, match="Tolerance exceeded"):
        made(ROWS)
    assert (tmp_path / "out").read_text() == "good\n"
    assert made.letters == []


def test_bad_records_are_left_out(tmp_path: Path) -> None:
    made = writer(FILE, file=str(tmp_path / "out"), errors_tolerance="all")
    made(ROWS)
    assert (tmp_path / "out").read_text() == "good\nalso\n"
    assert made.letters == []


def test_bad_records_become_dead_letters(tmp_path: Path) -> None:
    context = {"errors.deadletterqueue.context.headers.enable": "true"}
    made = writer(FILE, file=str(tmp_path / "out"), **LETTERS, **context)
    made(ROWS)
    (letter,) = made.letters
    assert (letter.topic, letter.value, letter.timestamp) == ("letters", b"no json", 1500)
    headers = dict(letter.headers)
    assert headers["h"] == b"x"
    assert headers["__connect.errors.offset"] == b"1"
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"


def test_rows_that_the_database_refuses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A task says so of one record: that failed the query even where errors are tolerated."""
    file = tmp_path / "x.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE t (n INTEGER CHECK (n < 5))")
    logged = {"errors.log.enable": "true"}
    made = writer(JDBC, connection_url=f"jdbc:sqlite:{file}", insert_mode="insert", **LETTERS, **logged)
    with caplog.at_level(logging.ERROR, "moldau.connect.errors"):
        made([row(n, b'{"n": %d}' % n) for n in (3, 9, 4)])
    assert [letter.value for letter in made.letters] == [b'{"n": 9}']
    assert "Executing stage 'TASK_PUT'" in caplog.text
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT n FROM t ORDER BY n").fetchall() == [(3,), (4,)]


def test_what_an_archive_holds_back_is_written_at_the_end(tmp_path: Path) -> None:
    made = writer(ARCHIVE, archive_path=str(tmp_path), flush_size="2", format_class="json")
    with pytest.raises(ConnectException, match="Tolerance exceeded"):
        made([row(n, b'"good"' if n < 3 else b"bad") for n in range(5)])
    made([row(n, b'"good"') for n in range(8)])  # the batch comes again; what is there is passed over
    ends = sorted(path.stem[4:] for path in (tmp_path / "topics/t").rglob("*.json"))
    assert ends == [f"{a:010d}+{b:010d}" for a, b in ((0, 1), (2, 2), (3, 4), (5, 6), (7, 7))]


def test_no_rows_no_task(tmp_path: Path) -> None:
    writer(FILE, file=str(tmp_path / "out"))([])
    assert not (tmp_path / "out").exists()
