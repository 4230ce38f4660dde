"""The process that runs protoc: it compiles what it is handed on standard input, one request after the
other.

A request is JSON, {"files": {name: text}, "main": name, "directory": path}; so is the answer, {"set": base64}
or {"error": text}. The compiler is a C++ library and prints its complaints: it runs here, so that neither a
crash nor its output reaches the program that asks. The directory is the asker's, who removes it: this process
may be ended at any time.
"""

import base64
import json
import os
import resource
from importlib import import_module
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from moldau.schemas.worker_process import serve

#: No file becomes larger: complaints about a hostile text can be a hundred times as long as the text.
_MAX_FILE_BYTES = 64 * 1024 * 1024


def compile_files(request: dict[str, Any]) -> dict[str, str]:
    from grpc_tools import protoc

    directory = request["directory"]
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


def answer(question: bytes) -> bytes:
    return json.dumps(compile_files(json.loads(question))).encode()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_FILE_BYTES, _MAX_FILE_BYTES))
    import_module("grpc_tools.protoc")  # before the time of the first question begins
    serve(answer)
