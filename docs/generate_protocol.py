"""Writes docs/protocol.md from the table of APIs: ``python docs/generate_protocol.py``.

Invariant: the page says what the broker answers, because both come from one table; a test fails when it is
old.
"""

import ast
from pathlib import Path

from moldau.broker import apis
from moldau.protocol.api_keys import VERSIONS

PAGE = Path(__file__).parent / "protocol.md"

_INTRODUCTION = """\
# Protocol

Written by `docs/generate_protocol.py` from `src/moldau/broker/apis/` and
`src/moldau/protocol/api_keys.py`; do not edit.

These are the APIs that a broker answers. ApiVersions lists the same table, so nothing is advertised that is
not answered; a request for anything else closes the connection with a line in the broker's log, as Kafka
does. Messages of all other client APIs are declared in `src/moldau/protocol/messages/` and wait for their
handlers. Keys from 32000 on are our own ([time travel](time-travel.md)): ApiVersions lists them for our own
client only.

| key | API | versions | flexible from | advertised | what it does, and what it does not |
|---|---|---|---|---|---|
"""


def page() -> str:
    return _INTRODUCTION + "".join(f"{_row(key, api)}\n" for key, api in apis.TABLE.items())


def _row(key: apis.ApiKey, api: apis.Api) -> str:
    flexible = VERSIONS[key].first_flexible
    first = "–" if flexible is None else str(flexible)
    name = key.name.title().replace("_", "")
    versions = f"{api.minimum}–{api.maximum}" if api.minimum != api.maximum else str(api.minimum)
    listed = "yes" if api.advertised else "no"
    return f"| {int(key)} | {name} | {versions} | {first} | {listed} | {_notes(api)} |"


def _notes(api: apis.Api) -> str:
    """The paragraphs of the handler's docstring behind its first line."""
    source = Path(apis.__file__).with_name(f"{api.module}.py").read_text()
    text = ast.get_docstring(ast.parse(source)) or ""
    return " ".join(text.split("\n", 1)[1].split()).removeprefix("Behaviour: ")


if __name__ == "__main__":
    PAGE.write_text(page())
