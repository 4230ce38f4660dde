"""The file of the local store: its layout, and every way in which a file can be unfit."""

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.cluster.records import ClusterCreated, FeatureLevel, MetadataError, Record
from moldau.cluster.store.contract import Changes, MetadataStoreError, StaleVersion
from moldau.cluster.store.sqlite_log import FILE_NAME, SCHEMA_VERSION, SqliteLog


def new_log(directory: Path) -> SqliteLog:
    """A log with a controller of epoch 1."""
    log = SqliteLog(directory)
    log.increment_controller_epoch()
    return log


def features(count: int) -> list[Record]:
    return [FeatureLevel(f"f{index}", 1) for index in range(count)]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A directory with a closed file: a snapshot and two appends after it."""
    with closing(new_log(tmp_path)) as log:
        log.append([ClusterCreated("c"), *features(5_001)], 0, 1)
        log.compact()
        log.append([FeatureLevel("g", 1)], 1, 1)
        log.append([FeatureLevel("g", 2)], 2, 1)
    return tmp_path


def refused(directory: Path) -> str:
    """Why the file is not taken; it must be left as it is, whoever looks at it."""
    path = directory / FILE_NAME
    before = path.read_bytes()
    with pytest.raises(MetadataStoreError) as caught, closing(SqliteLog(directory)) as log:
        log.load(0)
    assert path.read_bytes() == before
    return str(caught.value)


@pytest.fixture
def database(filled: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(filled / FILE_NAME, isolation_level=None)) as connection:
        yield connection


def test_layout(database: sqlite3.Connection) -> None:
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database.execute("SELECT version FROM schema").fetchall() == [(SCHEMA_VERSION,)]
    assert database.execute("SELECT version, records FROM log").fetchall() == [
        (2, '[{"type":"FeatureLevel","version":1,"name":"g","level":1}]'),
        (3, '[{"type":"FeatureLevel","version":1,"name":"g","level":2}]'),
    ]
    assert database.execute("SELECT version, snapshot_version, snapshot_records FROM state").fetchone() == (
        3,
        1,
        5_002,
    )
    assert database.execute("SELECT part FROM snapshot").fetchall() == [(0,), (1,), (2,)]


def test_every_commit_is_synchronised(tmp_path: Path) -> None:
    with closing(new_log(tmp_path)) as log:
        assert log._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_compaction_is_done_once(filled: Path) -> None:
    with closing(SqliteLog(filled)) as log:
        before = log.load(0)
        log.compact()
        assert log.load(0) == before
        assert log.load(1).after_version == 1


def test_append_tells_when_compaction_is_due(tmp_path: Path) -> None:
    with closing(new_log(tmp_path)) as log:
        assert log.append(features(5_000), 0, 1) == (1, False)
        assert log.append(features(1), 1, 1) == (2, True)
        log.compact()
        assert log.load(1) == Changes(0, 2, features(5_000))
        assert log.append(features(5_000), 2, 1) == (3, False)


def test_a_refused_append_leaves_no_transaction_open(filled: Path) -> None:
    with closing(SqliteLog(filled)) as one, closing(SqliteLog(filled, busy_timeout_seconds=0)) as two:
        with pytest.raises(StaleVersion):
            one.append(features(1), 1, 1)
        assert two.append(features(1), 3, 1)[0] == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("DROP TABLE log", "no such table"),
        ("DROP TABLE schema", "no such table"),
        ("DELETE FROM state", "state is missing"),
        ("UPDATE state SET version = 'x'", "state is missing"),
        ("DELETE FROM log WHERE version = 2", "version 2 of its log is missing"),
        ("DELETE FROM log WHERE version = 3", "version 3 of its log is missing"),
        ("UPDATE state SET version = 2", "is missing"),
        ("DELETE FROM snapshot WHERE part = 1", "part 1 of its snapshot is missing"),
        ("DELETE FROM snapshot WHERE part = 2", "snapshot has 4000 of 5002 records"),
        ("UPDATE log SET records = '[]' WHERE version = 2", "checksum of version 2 of its log"),
        ("UPDATE log SET records = x'00' WHERE version = 2", "checksum of version 2 of its log"),
        ("PRAGMA application_id = 7", "not a metadata database of Moldau"),
    ],
)
def test_damage_is_named(filled: Path, database: sqlite3.Connection, damage: str, why: str) -> None:
    database.execute(damage)
    database.close()
    message = refused(filled)
    assert why in message
    assert "put a backup in its place" in message


def test_a_newer_layout_names_the_way_out(filled: Path, database: sqlite3.Connection) -> None:
    database.execute("UPDATE schema SET version = 2")
    database.close()
    assert "start the broker with the release that has written it, or a later one" in refused(filled)


def test_a_newer_record_names_the_way_out(tmp_path: Path) -> None:
    with closing(new_log(tmp_path)) as log:
        log.append(features(1), 0, 1)
        text = '[{"type":"TopicRenamed","version":1}]'
        log._connection.execute("UPDATE log SET records = ?, checksum = ?", (text, zlib.crc32(text.encode())))
    message = refused(tmp_path)
    assert "'TopicRenamed' of version 1" in message
    assert "start the broker with that release or a later one" in message


@pytest.mark.parametrize("content", [b"", b"x", b"SQLite format 3\0", b"not a database" * 1000])
def test_a_file_that_is_no_database_is_never_overwritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert "It has been left as it is" in refused(tmp_path)


def test_a_lost_file_with_its_changes_beside_it_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / f"{FILE_NAME}-wal").write_bytes(b"changes")
    with pytest.raises(MetadataStoreError, match="put the file back"):
        SqliteLog(tmp_path)
    assert not (tmp_path / FILE_NAME).exists()


def test_an_interrupted_creation_is_done_again(tmp_path: Path) -> None:
    (tmp_path / f"{FILE_NAME}.new").write_bytes(b"half")
    with closing(new_log(tmp_path)) as log:
        assert log.load(0).version == 0
    assert not (tmp_path / f"{FILE_NAME}.new").exists()


def test_an_older_copy_put_in_place_is_seen(filled: Path) -> None:
    with closing(SqliteLog(filled)) as log, pytest.raises(MetadataStoreError, match="an older copy"):
        log.load(9)


def test_a_lock_that_another_process_holds_too_long(filled: Path, database: sqlite3.Connection) -> None:
    with closing(SqliteLog(filled, busy_timeout_seconds=0.01)) as log:
        database.execute("BEGIN IMMEDIATE")
        with pytest.raises(MetadataStoreError, match=r"locked by another process for 0\.01 s"):
            log.append(features(1), 3, 1)
        database.execute("ROLLBACK")
        assert log.append(features(1), 3, 1)[0] == 4


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    with closing(new_log(tmp_path)) as log:
        pages = log._connection.execute("PRAGMA page_count").fetchone()[0]
        log._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(MetadataStoreError, match="the disk is full: free some space"):
            log.append(features(5_000), 0, 1)
        assert log.load(0) == Changes(0, 0, [])
        assert log.append(features(1), 0, 1) == (1, False)


def test_a_file_that_cannot_be_written(filled: Path) -> None:
    with closing(SqliteLog(filled)) as log:
        log._connection.execute("PRAGMA query_only = 1")
        with pytest.raises(MetadataStoreError, match="this user may write"):
            log.append(features(1), 3, 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(MetadataStoreError, match="this user may write"):
        SqliteLog(tmp_path)


@pytest.mark.slow
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_damage_is_seen_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes changed anywhere, or the end cut off: the same records or a refusal, never others."""
    whole = tmp_path / "whole" / FILE_NAME
    if not whole.exists():
        with closing(new_log(whole.parent)) as log:
            log.append([ClusterCreated("c"), *features(5_001)], 0, 1)
            log.compact()
            for level in range(20):
                log.append([FeatureLevel("g", level + 1)], level + 1, 1)
    content = bytearray(whole.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    noise = data.draw(st.none() | st.binary(min_size=1, max_size=40))
    content[position : None if noise is None else position + len(noise)] = noise or b""
    damaged = tmp_path / "damaged"
    damaged.mkdir(exist_ok=True)
    for left in damaged.iterdir():
        left.unlink()
    (damaged / FILE_NAME).write_bytes(content)
    with closing(SqliteLog(whole.parent)) as log:
        expected = log.load(0)
    with suppress(MetadataError), closing(SqliteLog(damaged)) as log:
        assert log.load(0) == expected
