"""The console's own style, script and icon, from the installed package; and the page for probes.

Invariant: only these files are served, by their names.
"""

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from moldau.console.call import ConsoleCall
from moldau.web.pages import asset, not_modified
from moldau.web.problems import http_problem
from moldau.web.routes import Text

TYPES = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


@cache
def content(name: str) -> tuple[bytes, str]:
    """A file and the tag by which a browser knows whether it has it already."""
    data = (files("moldau.console") / "assets" / name).read_bytes()
    return data, hashlib.sha256(data).hexdigest()[:20]


async def show_asset(call: ConsoleCall) -> Any:
    name = call.parameters["name"]
    if name not in TYPES:
        raise http_problem(404)
    data, tag = content(name)
    if call.request.headers.get("if-none-match") == f'"{tag}"':
        return not_modified(tag)
    return asset(data, TYPES[name], tag)


async def healthz(call: ConsoleCall) -> Any:
    return Text("ok")
