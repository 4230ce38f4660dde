"""The process that checks values with JSON Schemas that may take long (``schema_checks`` asks it).

A question is a schema, the texts that it refers to, and values; the answer is why the first one that does
not fit does not, or nothing. Invariant: what is kept between two questions only saves time, so that it may be
ended at any time.
"""

import json
from functools import lru_cache

from moldau.schemas.worker_process import serve
from moldau.serde.errors import SerdeError
from moldau.serde.json_schema import Check, compile_check


def answer(question: bytes) -> bytes:
    text, references, values = json.loads(question)
    try:
        check = _compiled(text, tuple(references.items()))
        for value in values:
            check(value)
    except SerdeError as error:
        return str(error).encode("utf-8", "backslashreplace")
    return b""


@lru_cache(maxsize=16)
def _compiled(text: str, references: tuple[tuple[str, str], ...]) -> Check:
    return compile_check(text, dict(references))


if __name__ == "__main__":
    serve(answer)
