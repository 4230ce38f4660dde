"""The process that runs protoc: it compiles what it is handed on standard input, one request after the
other.

A request is one line of JSON, {"files": {name: text}, "main": name}; the answer is one line, {"set":
base64} or {"error": text}. The compiler is a C++ library and prints its complaints: it runs here, so that
neither a crash nor its output reaches the program that asks.
"""

import base64
import json
import os
import sys
import tempfile
from importlib.resources import files as resources
from pathlib import Path
from typing import Any


def compile_files(request: dict[str, Any], directory: str) -> dict[str, str]:
    from grpc_tools import protoc

    root = Path(directory, "in")
    for name, text in request["files"].items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    output, complaints = Path(directory, "set"), Path(directory, "complaints")
    well_known = str(resources("grpc_tools") / "_proto")
    arguments = [
        "protoc",
        f"-I{root}",
        f"-I{well_known}",
        "--include_imports",
        f"--descriptor_set_out={output}",
    ]
    kept = os.dup(2)
    with complaints.open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            code = protoc.main([*arguments, str(root / request["main"])])
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    if code != 0:
        lines = complaints.read_text(encoding="utf-8", errors="replace").replace(f"{root}/", "").splitlines()
        # Notes of the compiler's own log are not about the schema's errors.
        text = "\n".join(
            line for line in lines if not line.startswith(("WARNING: All log", "W0000 ", "I0000 "))
        )
        return {"error": text.strip()[:2000] or f"protoc ended with {code}"}
    return {"set": base64.b64encode(output.read_bytes()).decode()}


def serve() -> None:
    for line in sys.stdin.buffer:
        with tempfile.TemporaryDirectory(prefix="moldau-protoc-") as directory:
            answer = compile_files(json.loads(line), directory)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
