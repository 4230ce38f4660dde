"""A SQL server in a thread of its own, behind a real port, on a real broker; its queries are only noted."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moldau.sql.server.server import ServerOptions, serve
from tests.shared.services import Running, running


class NotedQueries:
    """Notes what is to run; their programs are run by tests of Spark."""

    def __init__(self) -> None:
        self.programs: dict[str, str] = {}

    async def start(self, query_id: str, program: str) -> None:
        self.programs[query_id] = program

    async def stop(self, query_id: str) -> None:
        self.programs.pop(query_id, None)

    async def forget(self, query_id: str) -> None:
        assert query_id not in self.programs

    async def states(self) -> dict[str, str]:
        return dict.fromkeys(self.programs, "running")


class RunningServer:
    def __init__(self, server: Running) -> None:
        self.url = server.url
        self.http = server.http

    def ksql(self, text: str, **more: Any) -> Any:
        answer = self.http.post("/ksql", json={"ksql": text, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def running_server(options: ServerOptions) -> Iterator[RunningServer]:
    with running(serve, options) as found:
        yield RunningServer(found)
