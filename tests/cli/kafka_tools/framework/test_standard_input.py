"""Standard input for an event loop."""

import asyncio
import io
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from moldau.cli.kafka_tools.framework.standard_input import chunks


def read(stream: BinaryIO) -> bytes:
    async def collect() -> bytes:
        return b"".join([data async for data in chunks(stream)])

    return asyncio.run(collect())


def test_bytes_in_memory() -> None:
    assert read(io.BytesIO(b"x" * 200_000)) == b"x" * 200_000


def test_a_file() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"line\n" * 50_000)
        file.seek(0)
        assert read(file) == b"line\n" * 50_000


def test_a_pipe_that_someone_writes_to_later() -> None:
    async def collect() -> bytes:
        out, into = os.pipe()
        with open(out, "rb", buffering=0) as stream:

            def write() -> None:
                os.write(into, b"hello")
                os.close(into)

            asyncio.get_running_loop().call_soon(write)
            return b"".join([data async for data in chunks(stream)])

    assert asyncio.run(collect()) == b"hello"


def test_nothing() -> None:
    with Path(os.devnull).open("rb") as stream:
        assert read(stream) == b""
