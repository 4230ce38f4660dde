"""Writes the audit log of a broker: refusals, failed logins, and requests that change rights or configs.

Invariant: an event is in the file before anything follows from it here; a file that cannot be written is
said in the log, once, and stops no request.
"""

import logging
import os
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.base.clock import Clock
from moldau.broker.context import RequestContext
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.messages.alter_client_quotas import EntryData
from moldau.protocol.messages.create_acls import AclCreation
from moldau.protocol.messages.delete_acls import DeleteAclsFilter
from moldau.security.acls import Operation, PatternType, Permission, ResourceType
from moldau.security.audit import BEGINNING, chained
from moldau.security.quotas import entity_of, shown_entity

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


#: Fields of those requests with what they are about, and how much of it is written down.
_SUBJECTS = (
    "topics",
    "topic_names",
    "resources",
    "creations",
    "filters",
    "upsertions",
    "deletions",
    "entries",
)
_SUBJECTS_MOST = 100
#: Of one text, and of a line, where each character may take six bytes and one text in words has three names.
_CHARACTERS_MOST = 300
_LINE_BYTES_MOST = 1024 * 1024


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
        entry = {"time_ms": now_ms, "event": event, "principal": principal, "host": host, **details}
        line, self._link = chained({name: _short(value) for name, value in entry.items()}, self._link)
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
        self.write("change", connection.principal, connection.host, api=api_key.name, what=subjects(request))


def subjects(request: Any) -> list[str]:
    """What a request is about: names, and rights in words; values and secrets are left out."""
    found = [_subject(item) for field in _SUBJECTS for item in getattr(request, field, None) or ()]
    more = len(found) - _SUBJECTS_MOST
    return found if more <= 0 else [*found[:_SUBJECTS_MOST], f"and {more} more"]


def _subject(item: Any) -> str:
    if isinstance(item, AclCreation):
        pattern = (item.resource_type, item.resource_name, item.resource_pattern_type)
        return _right(*pattern, item.principal, item.host, item.operation, item.permission_type)
    if isinstance(item, DeleteAclsFilter):
        pattern = (item.resource_type_filter, item.resource_name_filter or "any", item.pattern_type_filter)
        who = (item.principal_filter or "anybody", item.host_filter or "anywhere")
        return _right(*pattern, *who, item.operation, item.permission_type)
    if isinstance(item, EntryData):
        return shown_entity(entity_of({part.entity_type: part.entity_name for part in item.entity}))
    if isinstance(item, str):
        return item
    return str(getattr(item, "name", None) or getattr(item, "resource_name", None) or "")


def _right(kind: int, name: str, pattern: int, who: str, host: str, operation: int, permission: int) -> str:
    """``ALLOW User:ann from *: READ TOPIC LITERAL orders``; a number that means nothing stays one."""
    what = f"{_word(Operation, operation)} {_word(ResourceType, kind)} {_word(PatternType, pattern)} {name}"
    return f"{_word(Permission, permission)} {who} from {host}: {what}"


def _word(kind: type[IntEnum], number: int) -> str:
    return kind(number).name if number in kind._value2member_map_ else str(number)


def _short(value: Any) -> Any:
    """Texts as clients sent them, up to a length: a line has to be found again at the end of the file."""
    if isinstance(value, list):
        return [_short(each) for each in value]
    if isinstance(value, str) and len(value) > _CHARACTERS_MOST:
        return f"{value[:_CHARACTERS_MOST]}…"
    return value


def _last_link(path: Path) -> str:
    """Where the chain of an existing file goes on."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LINE_BYTES_MOST))
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2].decode("ascii", "replace")
    except OSError:
        return BEGINNING
    link = last.rpartition(',"chain":"')[2].removesuffix('"}')
    return link if len(link) == len(BEGINNING) else BEGINNING
