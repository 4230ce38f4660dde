"""Schemas carried from one registry to another, with their ids, for as long as a flow runs.

Records hold the ids of their schemas, and a mirror copies them as they are: a consumer at the target finds
its schemas only if they have the same ids there.

Invariant: a subject that is carried is in the mode IMPORT at the target, so that nobody registers versions of
his own between those of the source. An id or a version that means something else at the target is never
overwritten: it is said, again and again, and the others go on.
"""

import logging

from moldau.client.registry.errors import RegistryError
from moldau.client.registry.schema_registry import RegistryClient
from moldau.client.registry.transfer import Row, in_order, register_row, schema_row

log = logging.getLogger("moldau.mirror")

_IMPORT = "IMPORT"
#: What a registry says of a subject that it does not have, or that has no mode of its own.
_NOT_THERE = frozenset({404, 40401, 40409})


class SchemaSync:
    """``look`` waits for answers over HTTP: it is for a thread."""

    def __init__(self, flow: str, source: RegistryClient, target: RegistryClient) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        #: Versions that are the same on both sides: subject, version, whether it is deleted.
        self._done: set[tuple[str, int, bool]] = set()

    def close(self) -> None:
        self._source.close()
        self._target.close()

    def look(self) -> int:
        """Carries over what is new; how many versions. Raises when a registry does not answer."""
        rows = in_order(self._new_rows())
        carried = sum(map(self._carry, rows))
        if carried:
            log.info("%s: %d versions of schemas carried over", self._flow, carried)
        return carried

    def _new_rows(self) -> list[Row]:
        source, rows = self._source, []
        alive = set(source.subjects(deleted=False))
        for subject in source.subjects(deleted=True):
            present = set(source.versions(subject)) if subject in alive else set()
            for version in source.versions(subject, deleted=True):
                deleted = version not in present
                if (subject, version, deleted) not in self._done:
                    rows.append(schema_row(source, subject, version, deleted=deleted))
        return rows

    def _carry(self, row: Row) -> bool:
        """Whether something was changed at the target."""
        subject, version, deleted = row["subject"], row["version"], bool(row.get("deleted"))
        try:
            changed = self._register(row) | (deleted and self._delete(subject, version))
        except RegistryError as error:
            if error.status in (0, 500, 502, 503, 504):
                raise
            log.error(
                "%s: version %d of subject %s (id %d) is NOT carried over: %s",
                self._flow,
                version,
                subject,
                row["id"],
                error.message,
            )
            return False
        self._done.add((subject, version, deleted))
        return changed

    def _register(self, row: Row) -> bool:
        there = self._there(row["subject"], row["version"])
        if there is not None:
            if there["id"] != row["id"]:
                raise RegistryError(409, 409, f"the target has it under the id {there['id']}")
            return False
        self._open_for_import(row["subject"])
        register_row(self._target, row)
        return True

    def _there(self, subject: str, version: int) -> Row | None:
        try:
            return schema_row(self._target, subject, version, deleted=False)
        except RegistryError as error:
            if error.code in (40401, 40402):
                return None
            raise

    def _delete(self, subject: str, version: int) -> bool:
        try:
            self._target.delete_version(subject, version)
        except RegistryError as error:
            if error.code in (40401, 40402, 40404, 40406):  # it is deleted already
                return False
            raise
        return True

    def _open_for_import(self, subject: str) -> None:
        try:
            if self._target.mode(subject, effective=False) == _IMPORT:
                return
        except RegistryError as error:
            if error.code not in _NOT_THERE:
                raise
        # A subject of ours that has versions, such as after a mode was changed by hand, is opened again.
        self._target.set_mode(_IMPORT, subject, force=True)
