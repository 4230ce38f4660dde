"""What is told to the person who runs the node names the place, so that a log line is enough to act on."""

from moldau.storage.errors import CorruptFileError, CorruptLogError, StorageError, repair_steps


def test_messages_name_the_place() -> None:
    file = CorruptFileError("/data/meta.properties", "no version")
    assert str(file) == "/data/meta.properties: no version"
    assert (file.path, file.reason) == ("/data/meta.properties", "no version")
    log = CorruptLogError("/data/t-0/0.log", 61, 7, "a bad checksum")
    assert str(log) == "/data/t-0/0.log: a bad checksum at position 61, offset 7"
    assert (log.path, log.position, log.offset) == ("/data/t-0/0.log", 61, 7)
    assert isinstance(file, StorageError)
    assert isinstance(log, StorageError)


def test_the_next_steps_name_the_directory() -> None:
    steps = repair_steps("/data/t-0")
    assert "moldau log verify /data/t-0" in steps
    assert "moldau log repair /data/t-0 --dry-run" in steps
