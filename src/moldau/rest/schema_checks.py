"""Checks values with JSON Schemas that may take long: in a process that is ended when they do.

A schema comes from whoever may register one, or stands in a request, and can be made to take hours for a
single number. Those that cannot are checked where the values are written, and never come here.

Invariant: the event loop and other requests' threads wait for none of it.
"""

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moldau.rest import problems
from moldau.schemas.worker_process import WorkerProcess

#: What the values of one request may take.
_TIMEOUT_MS = 2_000


class SchemaChecks:
    def __init__(self) -> None:
        self._process = WorkerProcess("moldau.rest.schema_worker")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="moldau-schema-checks")

    async def check(self, text: str, references: dict[str, str], values: Sequence[Any]) -> None:
        """A ``Problem`` where one does not fit, or nobody knows in time."""
        question = json.dumps([text, references, values]).encode()
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._thread, self._process.ask, question, _TIMEOUT_MS)
        if found is None:
            seconds = _TIMEOUT_MS / 1000
            said = f"to check the values of the request with this schema takes more than {seconds:g} s"
            raise problems.conversion_failed(said)
        if found:
            raise problems.conversion_failed(found.decode())

    def close(self) -> None:
        """What is under way is given up."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._process.close()
