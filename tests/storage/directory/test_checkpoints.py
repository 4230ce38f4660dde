"""The small files, byte for byte as Kafka 4.3 writes them."""

import pytest

from moldau.base.names import TopicPartition, parse_uuid
from moldau.storage.directory import checkpoints
from moldau.storage.directory.checkpoints import MetaProperties
from moldau.storage.errors import CorruptFileError
from moldau.storage.files import Files

TOPIC_ID = "POjc0XOnTtapx_rUmgcbdA"


def test_offsets(files: Files, directory: str) -> None:
    path = f"{directory}/recovery-point-offset-checkpoint"
    assert checkpoints.read_offsets(files, path) == {}
    offsets = {TopicPartition("orders", 0): 2, TopicPartition("a.b_c-d", 11): 5}
    checkpoints.write_offsets(files, path, offsets)
    assert files.read_whole(path) == b"0\n2\norders 0 2\na.b_c-d 11 5\n"
    assert checkpoints.read_offsets(files, path) == offsets
    checkpoints.write_offsets(files, path, {})
    assert files.read_whole(path) == b"0\n0\n"
    assert checkpoints.read_offsets(files, path) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders 0 2 3\n",
        b"0\n1\norders zero 2\n",
        b"0\n1\norders 0 -2\n",
        b"0\n2\norders 0 2\norders 0 3\n",
        b"0\n3\norders 0 2\n",
        b"\x00\x00\x00\x00",
        b"\xff\xff",
        b"junk",
    ],
)
def test_corrupt_offsets(files: Files, directory: str, content: bytes) -> None:
    path = f"{directory}/x"
    files.write_atomically(path, content)
    with pytest.raises(CorruptFileError) as caught:
        checkpoints.read_offsets(files, path)
    assert caught.value.path == path
    assert path in str(caught.value)


def test_partition_metadata(files: Files, directory: str) -> None:
    assert checkpoints.read_topic_id(files, directory) is None
    checkpoints.write_topic_id(files, directory, parse_uuid(TOPIC_ID))
    content = files.read_whole(f"{directory}/partition.metadata")
    assert content == f"version: 0\ntopic_id: {TOPIC_ID}".encode()
    assert len(content) == 43
    assert checkpoints.read_topic_id(files, directory) == parse_uuid(TOPIC_ID)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 0",
        b"version: 1\ntopic_id: " + TOPIC_ID.encode(),
        b"version: 0\ntopic_id: abc",
        b"\xff\0",
    ],
)
def test_corrupt_partition_metadata(files: Files, directory: str, content: bytes) -> None:
    files.write_atomically(f"{directory}/partition.metadata", content)
    with pytest.raises(CorruptFileError):
        checkpoints.read_topic_id(files, directory)


def test_meta_properties(files: Files, directory: str) -> None:
    assert checkpoints.read_meta_properties(files, directory) is None
    properties = MetaProperties(1, "abc", "def")
    checkpoints.write_meta_properties(files, directory, properties, "Mon Nov 15 2026")
    content = files.read_whole(f"{directory}/meta.properties").decode()
    assert content == "#\n#Mon Nov 15 2026\nnode.id=1\ndirectory.id=def\nversion=1\ncluster.id=abc\n"
    assert checkpoints.read_meta_properties(files, directory) == properties


@pytest.mark.parametrize(
    "content",
    [
        "",
        "version=0\nbroker.id=1",
        "version=1\nnode.id=x\ncluster.id=a\ndirectory.id=b",
        "version=1\nnode.id=1\ncluster.id=a",
        "version=1\nnode.id=1\ncluster.id=\ndirectory.id=b",
        "\0\0\0",
    ],
)
def test_corrupt_meta_properties(files: Files, directory: str, content: str) -> None:
    files.write_atomically(f"{directory}/meta.properties", content.encode())
    with pytest.raises(CorruptFileError):
        checkpoints.read_meta_properties(files, directory)


def test_clean_shutdown_marker(files: Files, directory: str) -> None:
    assert not checkpoints.read_clean_shutdown(files, directory)
    checkpoints.write_clean_shutdown(files, directory, 12)
    assert files.read_whole(f"{directory}/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":12}'
    assert checkpoints.read_clean_shutdown(files, directory)


def test_sums_that_are_damaged_accuse_no_checkpoint(files: Files, directory: str) -> None:
    """A flipped digit would say that a good checkpoint is bad, and what was deleted would be there again."""
    sums = {"recovery-point-offset-checkpoint": [11, 0], "log-start-offset-checkpoint": [123, 456]}
    checkpoints.write_checksums(files, directory, sums)
    assert checkpoints.read_checksums(files, directory) == sums
    path = f"{directory}/{checkpoints.CHECKSUMS_FILE}"
    written = files.read_whole(path)
    for position in range(len(written)):
        files.write_atomically(
            path, written[:position] + bytes([written[position] ^ 9]) + written[position + 1 :]
        )
        try:
            found = checkpoints.read_checksums(files, directory)
        except CorruptFileError:
            continue
        assert found.items() >= sums.items(), f"a flip at {position} was believed"
