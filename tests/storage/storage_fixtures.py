"""What tests of storage and inspection share: both kinds of files, batches to append, and logs for them."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.records import Record, decode_records, encode_batch, read_header
from moldau.storage.directory.logs import Logs
from moldau.storage.files import Files, MemoryFiles, OsFiles
from moldau.storage.log.log import Log, LogConfig

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
ORDERS = TopicPartition("orders", 0)


def batch(count: int = 1, *, timestamp: int = NOW, size: int = 20, **options: Any) -> memoryview:
    """A batch as a producer sends it."""
    base = options.get("base_offset", 0)
    records = [Record(base + i, timestamp + i, b"key-%d" % i, b"v" * size, ()) for i in range(count)]
    return memoryview(encode_batch(records, **options))


def records_in(log: Log, offset: int | None = None) -> list[Record]:
    """Every record from ``offset`` on, read the way that a consumer reads."""
    found: list[Record] = []
    position = log.log_start_offset if offset is None else offset
    while position < log.log_end_offset:
        piece = log.read(position, 1 << 20, log.log_end_offset, at_least_one=True)
        assert piece is not None
        data = piece.read()
        at = 0
        while len(data) - at >= 61 and read_header(data, at).size <= len(data) - at:
            header = read_header(data, at)
            if not header.is_control:
                found += decode_records(data, at, header, limit=1 << 20)
            position = header.last_offset + 1
            at += header.size
    return found


class Node:
    """Logs on some files, closed and opened again as often as a test wants."""

    def __init__(self, files: Files, directories: list[str]) -> None:
        self.files = files
        self.directories = directories
        self.clock = SteppedClock(frozen=True, start_ms=NOW)
        self.config = LogConfig()
        self.logs = self.start()

    def start(self) -> Logs:
        self.logs = Logs(
            self.files, self.directories, 1, None, self.clock, config_of=lambda topic: self.config
        )
        self.logs.open()
        return self.logs

    def log(self, config: LogConfig | None = None, topic_partition: TopicPartition = ORDERS) -> Log:
        if config is not None:
            self.config = config
        return self.logs.open_partition(topic_partition, TOPIC_ID, self.config)

    def restart(self) -> Log:
        self.logs.close()
        self.start()
        return self.log()

    def kill(self) -> Log:
        """As if the process died: locks go, nothing is written any more."""
        if isinstance(self.files, MemoryFiles):
            self.files = self.files.after_kill()
        for directory in self.logs.directories:
            directory.release()
        self.start()
        return self.log()


@pytest.fixture(params=["memory", "os"])
def files(request: pytest.FixtureRequest) -> Files:
    return MemoryFiles() if request.param == "memory" else OsFiles()


@pytest.fixture
def directory(files: Files, tmp_path: Path) -> str:
    path = f"{tmp_path}/data"
    files.make_directory(path)
    return path


@pytest.fixture
def node(files: Files, directory: str) -> Iterator[Node]:
    node = Node(files, [directory])
    yield node
    for directory in node.logs.directories:
        directory.release()


@pytest.fixture
def make_batch() -> Callable[..., memoryview]:
    return batch


@pytest.fixture
def read_all() -> Callable[..., list[Record]]:
    return records_in


@pytest.fixture
def make_node() -> Iterator[Callable[[Files, list[str]], Node]]:
    made: list[Node] = []

    def make(files: Files, directories: list[str]) -> Node:
        made.append(Node(files, directories))
        return made[-1]

    yield make
    for node in made:
        for directory in node.logs.directories:
            directory.release()


@pytest.fixture(scope="session")
def built_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that was closed in order: orders-0 with several segments, transactions and epochs."""
    path = tmp_path_factory.mktemp("built") / "data"
    node = Node(OsFiles(), [str(path)])
    log = node.log(LogConfig(segment_bytes=1000, index_interval_bytes=200))
    for at in range(40):
        options: dict[str, Any] = {"producer_id": at % 3, "producer_epoch": 0, "base_sequence": at // 3}
        log.append(batch(timestamp=NOW + 60_000 * at, **options), at // 25, NOW)
    for at in range(4):
        options = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
        log.append(batch(timestamp=NOW, base_sequence=at, **options), 1, NOW)
        kind = ControlType.ABORT if at % 2 else ControlType.COMMIT
        if at < 3:
            end = encode_marker(Marker(kind, 0), producer_id=7, producer_epoch=0, timestamp_ms=NOW)
            log.append(memoryview(end), 1, NOW, internal=True)
    node.logs.close({ORDERS: log.log_end_offset})
    return path


@pytest.fixture
def data_directory(built_directory: Path, tmp_path: Path) -> Path:
    """A copy of it, to be broken."""
    shutil.copytree(built_directory, tmp_path / "data")
    return tmp_path / "data"
