"""What people did with the console: one line of JSON for each change, and for each login.

Invariant: a line says when, who, from where, on which cluster, what and how it ended; never a password, a key
or a value. The last few are kept for the page; a file gets all of them, and one that cannot be written stops
nothing but is reported in the log.
"""

import json
import logging
from collections import deque
from pathlib import Path
from typing import Any

from moldau.base.clock import Clock
from moldau.base.escaping import escaped
from moldau.console.markup.words import moment

log = logging.getLogger("moldau.console.audit")
_KEPT = 500


class Audit:
    def __init__(self, clock: Clock, file: str | None = None) -> None:
        self._clock = clock
        self._file = None if file is None else Path(file)
        self.entries: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    def note(
        self, *, user: str, address: str, cluster: str, action: str, subject: str, outcome: str = "done"
    ) -> None:
        entry = {
            "time": moment(self._clock.now_ms()),
            "user": escaped(user),
            "address": address,
            "cluster": cluster,
            "action": action,
            "subject": escaped(subject)[:500],
            "outcome": escaped(outcome)[:500],
        }
        self.entries.appendleft(entry)
        line = json.dumps(entry, ensure_ascii=False)
        log.info("%s", line)
        if self._file is not None:
            try:
                with self._file.open("a", encoding="utf-8", errors="replace") as file:
                    file.write(line + "\n")
            except OSError as error:
                log.error("the audit file %s cannot be written: %s", self._file, error.strerror)
