"""The connectors that come with the worker.

Invariant: to list and to check connectors needs no library of theirs.
"""

from moldau.connect.connector import Connector
from moldau.connect.connectors.archive.sink import ArchiveSink
from moldau.connect.connectors.archive.source import ArchiveSource
from moldau.connect.connectors.cassandra.sink import CassandraSink
from moldau.connect.connectors.cdc.mysql import MySqlCdc
from moldau.connect.connectors.cdc.postgresql import PostgresCdc
from moldau.connect.connectors.file.spool import SpoolDirSource
from moldau.connect.connectors.file.stream import FileStreamSink, FileStreamSource
from moldau.connect.connectors.generator.source import DatagenSource
from moldau.connect.connectors.hbase.sink import HBaseSink
from moldau.connect.connectors.http.opensearch import OpenSearchSink
from moldau.connect.connectors.http.receiver import HttpReceiver
from moldau.connect.connectors.http.sink import HttpSink
from moldau.connect.connectors.jdbc.sink import JdbcSink
from moldau.connect.connectors.jdbc.source import JdbcSource
from moldau.connect.connectors.mongodb.sink import MongoSink
from moldau.connect.connectors.mongodb.source import MongoSource
from moldau.connect.connectors.redis.sink import RedisSink
from moldau.connect.connectors.syslog.source import SyslogSource
from moldau.connect.connectors.tables.delta import DeltaSink
from moldau.connect.connectors.tables.iceberg import IcebergSink

CONNECTORS: tuple[type[Connector], ...] = (
    ArchiveSink,
    ArchiveSource,
    CassandraSink,
    DatagenSource,
    DeltaSink,
    FileStreamSink,
    FileStreamSource,
    HBaseSink,
    HttpReceiver,
    HttpSink,
    IcebergSink,
    JdbcSink,
    JdbcSource,
    MongoSink,
    MongoSource,
    MySqlCdc,
    OpenSearchSink,
    PostgresCdc,
    RedisSink,
    SpoolDirSource,
    SyslogSource,
)
