"""The connectors that come with the worker.

Invariant: to list and to check connectors needs no library of theirs.
"""

from moldau.connect.connector import Connector
from moldau.connect.connectors.archive.sink import ArchiveSink
from moldau.connect.connectors.archive.source import ArchiveSource
from moldau.connect.connectors.cdc.postgresql import PostgresCdc
from moldau.connect.connectors.file.stream import FileStreamSink, FileStreamSource
from moldau.connect.connectors.jdbc.sink import JdbcSink
from moldau.connect.connectors.jdbc.source import JdbcSource

CONNECTORS: tuple[type[Connector], ...] = (
    ArchiveSink,
    ArchiveSource,
    FileStreamSink,
    FileStreamSource,
    JdbcSink,
    JdbcSource,
    PostgresCdc,
)
