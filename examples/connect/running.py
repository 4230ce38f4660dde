"""A worker for the examples in this folder: ``moldau connect-standalone`` with files of properties."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

JSON = "org.apache.kafka.connect.json.JsonConverter"


def properties(folder: Path, name: str, given: dict[str, object]) -> str:
    path = folder / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    return str(path)


@contextmanager
def worker(folder: Path, bootstrap_servers: str, connectors: dict[str, dict[str, object]]) -> Iterator[None]:
    """``moldau connect-standalone`` with these connectors."""
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "key.converter": JSON,
        "value.converter": JSON,
        "offset.storage.file.filename": folder / "connect.offsets",
        "offset.flush.interval.ms": 500,
        "listeners": "http://127.0.0.1:0",
    }
    files = [properties(folder, "worker", settings)]
    files += [properties(folder, name, {"name": name, **each}) for name, each in connectors.items()]
    command = [sys.executable, "-m", "moldau", "connect-standalone", *files]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not any("moldau connect ready" in line for line in process.stdout):
                raise SystemExit("the worker did not start")
            yield
        finally:
            process.terminate()
