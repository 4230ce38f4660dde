"""Writes the audit log of a broker: refusals, failed logins, and requests that change rights or configs.

Invariant: an event is in the file before anything follows from it here; a file that cannot be written is
said in the log, once, and stops no request.
"""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.base.clock import Clock
from moldau.broker.context import RequestContext
from moldau.protocol.api_keys import ApiKey
from moldau.security.audit import BEGINNING, chained

if TYPE_CHECKING:
    from moldau.broker.access.audit_topic import AuditTopic

log = logging.getLogger("moldau.broker.audit")

#: Requests that change who may do what, or how the cluster behaves.
CHANGES = frozenset(
    {
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
    }
)


class AuditLog:
    def __init__(self, path: str, clock: Clock, copy: "AuditTopic | None" = None) -> None:
        """``copy``: where each line goes too."""
        self._clock = clock
        self._copy = copy
        self._path = Path(path)
        self._link = _last_link(self._path)
        self._failed = False

    def write(self, event: str, principal: str, host: str, **details: Any) -> None:
        now_ms = self._clock.now_ms()
        entry = {"time_ms": now_ms, "event": event, "principal": principal, "host": host}
        line, self._link = chained({**entry, **details}, self._link)
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(descriptor, line.encode() + b"\n")
            finally:
                os.close(descriptor)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.error("the audit log %s cannot be written: %s", self._path, error)
            self._failed = True
        if self._copy is not None:
            self._copy.add(now_ms, line)

    def changed(self, api_key: ApiKey, request: Any, context: RequestContext) -> None:
        """A request that changes something, as it came; whether it was granted is the gate's business."""
        connection = context.connection
        self.write("change", connection.principal, connection.host, api=api_key.name, what=_names(request))


def _names(request: Any) -> list[str]:
    """What a request is about, by name; values and secrets are left out."""
    found: list[str] = []
    for field in ("topics", "topic_names", "resources", "creations", "upsertions", "deletions"):
        for item in getattr(request, field, None) or ():
            name = item if isinstance(item, str) else None
            for attribute in ("name", "resource_name"):
                name = name or getattr(item, attribute, None)
            found.append(str(name or ""))
    return found[:100]


def _last_link(path: Path) -> str:
    """Where the chain of an existing file goes on."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 65536))
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2].decode("ascii", "replace")
    except OSError:
        return BEGINNING
    link = last.rpartition(',"chain":"')[2].removesuffix('"}')
    return link if len(link) == len(BEGINNING) else BEGINNING
