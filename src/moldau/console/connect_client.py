"""A few questions to a worker of Kafka Connect, over its REST API.

Invariant: every failure is a ``ConnectError`` in words; an answer is read up to a bound. Blocks: to be called
in a thread.
"""

import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit

_MAX_BYTES = 8 * 1024 * 1024
_TIMEOUT_SECONDS = 8.0


class ConnectError(Exception):
    pass


class ConnectClient:
    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise ConnectError(f"{url!r} is no address of a worker: it looks like http://127.0.0.1:8083")

    def connectors(self) -> dict[str, Any]:
        """Each connector with its config and the state of its tasks."""
        return dict(self.call("GET", "/connectors?expand=info&expand=status"))

    def act(self, name: str, action: str) -> None:
        path = f"/connectors/{quote(name, safe='')}"
        match action:
            case "pause" | "resume" | "stop":
                self.call("PUT", f"{path}/{action}")
            case "restart":
                self.call("POST", f"{path}/restart?includeTasks=true&onlyFailed=false")
            case _:
                raise ConnectError(f"a connector cannot {action!r}")

    def call(self, method: str, path: str) -> Any:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request(
                method, self._url.path.rstrip("/") + path, headers={"Accept": "application/json"}
            )
            response = connection.getresponse()
            body = response.read(_MAX_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectError(f"the worker at {self._url.netloc} does not answer: {error}") from None
        finally:
            connection.close()
        try:
            found = json.loads(body) if body else None
        except ValueError:
            raise ConnectError(f"the worker at {self._url.netloc} did not answer with JSON") from None
        if response.status >= 400:
            said = found.get("message") if isinstance(found, dict) else None
            raise ConnectError(str(said or f"the worker answered {response.status}"))
        return found
