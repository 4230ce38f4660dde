"""Runs queries that are kept as programs of ``moldau streams``, each in a process of its own, on Spark.

Invariant: a query's file is whole before its process starts; its id is the application's, so that ``moldau
streams list``, ``status``, ``logs`` and ``why`` tell of it. An id becomes the name of a file and an argument,
and comes from a topic that others may write to: one that has more than letters, digits, ``_``, ``.`` and
``-`` is refused.
"""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from moldau.sql.errors import SqlError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}")


def _checked(query_id: str) -> str:
    if _ID.fullmatch(query_id) is None:
        raise SqlError(f"{query_id!r} is no id of a query.")
    return query_id


class QueryRunner(Protocol):
    """Where queries that are kept run: programs of ``moldau streams``, each under its id."""

    async def start(self, query_id: str, program: str) -> None: ...
    async def stop(self, query_id: str) -> None: ...
    async def forget(self, query_id: str) -> None:
        """Removes what it has of one that was stopped for good."""
        ...

    async def states(self) -> Mapping[str, str]:
        """What became of each: ``running``, ``starting``, ``stopped``, ``failed`` or ``died``."""
        ...


class QueryProcesses:
    def __init__(
        self, bootstrap_servers: str, home: str | os.PathLike[str] | None = None, options: Sequence[str] = ()
    ) -> None:
        """``options`` are more arguments of ``moldau streams run``."""
        self._servers = bootstrap_servers
        chosen = home or os.environ.get("MOLDAU_STREAMS_HOME")
        self._home = Path(chosen).expanduser() if chosen else Path.home() / ".moldau" / "streams"
        self._options = tuple(options)

    async def start(self, query_id: str, program: str) -> None:
        folder = self._home / "sql"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / f"{_checked(query_id)}.py"
        part = file.with_suffix(".part")
        part.write_text(program, encoding="utf-8")
        part.replace(file)
        await self._streams(
            "run",
            str(file),
            "--name",
            query_id,
            "--detach",
            "--bootstrap-server",
            self._servers,
            # A record that is none of the format is passed over, as a look at the topic does it.
            "--bad-records",
            "continue",
            *self._options,
        )

    async def stop(self, query_id: str) -> None:
        await self._streams("stop", _checked(query_id), may_fail="does not run")

    async def forget(self, query_id: str) -> None:
        """Its checkpoint, its log and its file."""
        from moldau.pipelines.directory import PipelineDirectory

        directory = PipelineDirectory(self._home, _checked(query_id))
        if directory.is_running():
            raise SqlError(f"{query_id} still runs")
        await asyncio.to_thread(shutil.rmtree, directory.path, ignore_errors=True)
        (self._home / "sql" / f"{query_id}.py").unlink(missing_ok=True)

    async def states(self) -> Mapping[str, str]:
        from moldau.pipelines.directory import known_pipelines

        found = await asyncio.to_thread(known_pipelines, self._home)
        return {each.name: each.state for each in found}

    async def _streams(self, *arguments: str, may_fail: str | None = None) -> None:
        command = [sys.executable, "-m", "moldau.cli.main", "streams", *arguments, "--home", str(self._home)]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        text = output.decode(errors="replace").strip()
        if process.returncode and not (may_fail is not None and may_fail in text):
            raise SqlError(text.removeprefix("Error: ") or f"moldau streams ended with {process.returncode}")
