"""The connectors that come with the worker."""

from moldau.connect.connector import Connector
from moldau.connect.connectors.file.stream import FileStreamSink, FileStreamSource

CONNECTORS: tuple[type[Connector], ...] = (FileStreamSink, FileStreamSource)
