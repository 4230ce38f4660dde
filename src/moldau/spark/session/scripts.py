"""Small shell scripts that start a program: written once to a cache directory of the user, and kept.

Invariant: a script's name has the hash of its text, so that two versions of Moldau never overwrite each
other's.
Where nothing can be written there is no script, and the caller decides what that means. Everything else that
is cached between sessions is in the same directories.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path


def kept_script(kind: str, below: str, text: str) -> Path | None:
    """The directory of a script, which is at ``below`` in it; None where none can be written."""
    name = f"{kind}-{sha256(text.encode()).hexdigest()[:12]}"
    for cache in cache_directories():
        made = cache / name
        script = made / below
        try:
            if not (script.is_file() and script.read_text("utf-8") == text):
                script.parent.mkdir(parents=True, exist_ok=True)
                # Several processes may do this at once: each writes its own, the last one stays.
                draft = script.with_name(f"{script.name}.{os.getpid()}")
                draft.write_text(text, "utf-8")
                draft.chmod(0o755)
                draft.replace(script)
        except OSError:
            continue
        return made
    return None


def cache_directories() -> Iterator[Path]:
    """Where to keep things, the best place first."""
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moldau"
    yield Path(sys.prefix) / "share" / "moldau"
    yield Path(tempfile.gettempdir()) / f"moldau-{os.getuid() if hasattr(os, 'getuid') else 0}"
