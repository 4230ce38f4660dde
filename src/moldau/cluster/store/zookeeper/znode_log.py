"""The metadata log in znodes: blocking calls, which ``store.py`` keeps off the event loop.

``/moldau/metadata`` has the log's version and that of its snapshot. ``/moldau/metadata/log/<version>`` is one
append, ``/moldau/metadata/snapshot/<version>`` the records that replace all appends up to it; what does not
fit into one znode goes on in ``<version>.1`` and so on. Records are JSON arrays (``cluster/records.py``),
compressed, behind their length, number of parts and checksum.

Invariant: an append is one transaction of ZooKeeper (a multi) that checks the controller's epoch and the
log's version: it happens as a whole, in the same step as the znodes that others read, or not at all. Only of
an append that is larger than a transaction, parts are written before it, which nobody reads until the version
says that they are there, and what others read follows it. No znode and no transaction comes near ZooKeeper's
limit of 1 MB.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import Record, UnreadableRecord, decode_all, encode_all
from moldau.cluster.store.contract import (
    Changes,
    MetadataStoreError,
    StaleControllerEpoch,
    StaleVersion,
    compaction_due,
)
from moldau.cluster.store.zookeeper.connection import Connection
from moldau.cluster.store.zookeeper.tree import Change, Create, Delete, SetData, changes

ROOT = "/moldau/metadata"
CONTROLLER_EPOCH = "/controller_epoch"
#: Bytes of one znode, and of all that goes into one transaction.
PART_BYTES = 400_000
TRANSACTION_BYTES = 600_000
#: What a change costs in a transaction beside its path and data.
_OVERHEAD = 120
_HEADER = struct.Struct(">IHI")
_ATTEMPTS = 10


class _State(NamedTuple):
    version: int = 0
    log_records: int = 0
    snapshot_version: int = 0
    snapshot_records: int = 0

    def encoded(self) -> bytes:
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


class ZnodeLog:
    """Every method must be called on one thread; the image follows what was loaded and appended here."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._image: ClusterImage = EMPTY_IMAGE

    # --- reading -----------------------------------------------------------------------------------------

    def state(self, watch: Any = None) -> tuple[_State, int]:
        """The state, and the version of its znode; -1 while there is none."""
        try:
            data, stat = self._client.get(ROOT, watch=watch)
        except NoNodeError:
            return _State(), -1
        try:
            return _State(**json.loads(data)), stat.version
        except (ValueError, TypeError) as error:
            raise MetadataStoreError(
                f"The znode {ROOT} is no metadata of Moldau ({error}): put it back from a backup, or use "
                "another chroot in zookeeper.connect."
            ) from error

    def load(self, after_version: int) -> Changes:
        self._client.sync(ROOT)
        for _ in range(_ATTEMPTS):
            state, _ = self.state()
            try:
                return self._load(state, after_version)
            except NoNodeError:
                continue  # a snapshot has taken the place of what was about to be read
        raise MetadataStoreError(
            f"Parts of the metadata under {ROOT} are missing: restore them from a backup."
        )

    def _load(self, state: _State, after_version: int) -> Changes:
        if after_version > state.version:
            raise MetadataStoreError(
                f"{ROOT} stands at version {state.version}, but this broker has seen version "
                f"{after_version}: ZooKeeper was put back to an older state. Put the newer one back, or "
                "restart the broker if the older one is meant."
            )
        if after_version > 0 and after_version >= state.snapshot_version:
            records = self._entries(after_version, state.version)
            if self._image.version == after_version:
                self._image = self._image.apply_all(records, version=state.version)
            return Changes(after_version, state.version, records)
        records = self._records(f"{ROOT}/snapshot/{state.snapshot_version}") if state.snapshot_version else []
        records.extend(self._entries(state.snapshot_version, state.version))
        self._image = EMPTY_IMAGE.apply_all(records, version=state.version)
        return Changes(0, state.version, records)

    def _entries(self, after_version: int, version: int) -> list[Record]:
        paths = [f"{ROOT}/log/{each}" for each in range(after_version + 1, version + 1)]
        # All are asked for before the first answer is waited for.
        waiting = [(path, self._client.get_async(path)) for path in paths]
        records: list[Record] = []
        for path, answer in waiting:
            records.extend(self._decoded(path, answer.get()[0]))
        return records

    def _records(self, path: str) -> list[Record]:
        return self._decoded(path, self._client.get(path)[0])

    def _decoded(self, path: str, first: bytes) -> list[Record]:
        try:
            size, parts, checksum = _HEADER.unpack_from(first)
        except struct.error:
            raise self._damaged(path, "it is cut") from None
        content = first[_HEADER.size :] + b"".join(
            self._client.get(f"{path}.{part}")[0] for part in range(1, parts)
        )
        if len(content) != size or zlib.crc32(content) != checksum:
            raise self._damaged(path, "its checksum does not fit")
        try:
            return decode_all(zlib.decompress(content).decode())
        except (UnreadableRecord, zlib.error, UnicodeDecodeError) as error:
            raise MetadataStoreError(f"The znode {path}: {error}") from error

    # --- writing -----------------------------------------------------------------------------------------

    def append(
        self, records: Sequence[Record], expected_version: int, controller_epoch: int
    ) -> tuple[int, bool]:
        """The new version, and whether the log has grown so long that ``compact`` is due."""
        state, znode_version = self.state()
        if znode_version < 0:
            self._make_roots()
            state, znode_version = self.state()
        epoch_version = self._epoch_version(controller_epoch)
        if state.version != expected_version:
            raise StaleVersion
        if self._image.version != expected_version:
            self._load(state, self._image.version)
        version = expected_version + 1
        after = self._image.apply_all(records, version=version)
        first, *rest = _parts(f"{ROOT}/log/{version}", records)
        for part in rest:
            self._write_ahead(part, epoch_version)
        mirrored = self._possible(changes(self._image, after, records))
        fitting, later = _split(mirrored, TRANSACTION_BYTES - len(first.data or b""))
        new = state._replace(version=version, log_records=state.log_records + len(records))
        self._commit(znode_version, new, [first, *fitting], epoch_version)
        self._image = after
        while later:
            fitting, later = _split(later, TRANSACTION_BYTES)
            self._transact(fitting, epoch_version)
        return version, compaction_due(new.log_records, new.snapshot_records)

    def compact(self, controller_epoch: int) -> None:
        """Puts a snapshot in the place of the log so far."""
        state, znode_version = self.state()
        epoch_version = self._epoch_version(controller_epoch)
        if not compaction_due(state.log_records, state.snapshot_records):
            return
        self._load(state, self._image.version)
        snapshot = self._image.snapshot()
        for part in _parts(f"{ROOT}/snapshot/{state.version}", snapshot):
            self._write_ahead(part, epoch_version)
        new = state._replace(log_records=0, snapshot_version=state.version, snapshot_records=len(snapshot))
        self._commit(znode_version, new, [], epoch_version)
        self._remove_old(new)

    def _commit(
        self,
        znode_version: int,
        new: _State,
        with_it: Sequence[Change],
        epoch_version: int,
    ) -> None:
        transaction = self._client.transaction()
        transaction.check(CONTROLLER_EPOCH, epoch_version)
        transaction.set_data(ROOT, new.encoded(), version=znode_version)
        for change in with_it:
            self._add(transaction, change)
        results = transaction.commit()
        if isinstance(results[0], KazooException) and not _rolled_back(results[0]):
            raise StaleControllerEpoch
        if isinstance(results[1], BadVersionError):
            raise StaleVersion
        _raise_failed(results)

    def _transact(self, with_it: Sequence[Change], epoch_version: int) -> None:
        transaction = self._client.transaction()
        transaction.check(CONTROLLER_EPOCH, epoch_version)
        for change in with_it:
            self._add(transaction, change)
        results = transaction.commit()
        if isinstance(results[0], KazooException) and not _rolled_back(results[0]):
            raise StaleControllerEpoch
        _raise_failed(results)

    def _write_ahead(self, part: Create, epoch_version: int) -> None:
        """A part that counts later; one that was left by an append that failed is replaced."""
        left = self._client.exists(part.path) is not None
        self._transact([Delete(part.path), part] if left else [part], epoch_version)

    def _add(self, transaction: Any, change: Change) -> None:
        match change:
            case Create(path, data):
                self._connection.add_create(transaction, path, data)
            case SetData(path, data):
                transaction.set_data(path, data)
            case Delete(path):
                transaction.delete(path)

    def _possible(self, wanted: Sequence[Change]) -> list[Change]:
        """The changes as the tree allows them: somebody may have made or removed znodes by hand, or an append
        that was larger than a transaction may have been cut short.
        """
        exists_async, children_async = self._client.exists_async, self._client.get_children_async
        waiting = [
            (change, (children_async if isinstance(change, Delete) else exists_async)(change.path))
            for change in wanted
        ]
        exists: dict[str, bool] = {}
        possible: list[Change] = []
        for change, answer in waiting:
            path = change.path
            if isinstance(change, Delete):
                children = _children(path, answer)
                if exists.get(path, children is not None):
                    possible += self._removed(each for each in children or () if exists.get(each, True))
                    possible.append(change)
            elif exists.get(path, answer.get() is not None):
                if change.data is not None:
                    possible.append(SetData(path, change.data))
            else:
                possible += self._missing_parents(path, exists)
                possible.append(Create(path, change.data))
            exists[path] = not isinstance(change, Delete)
        return possible

    def _removed(self, paths: Iterable[str]) -> list[Change]:
        """Znodes that nobody knows of, with all that is below them."""
        removed: list[Change] = []
        for path in paths:
            removed += self._removed(_children(path, self._client.get_children_async(path)) or ())
            removed.append(Delete(path))
        return removed

    def _missing_parents(self, path: str, exists: dict[str, bool]) -> list[Change]:
        parent = path.rpartition("/")[0]
        if not parent or exists.get(parent, False):
            return []
        if parent not in exists and self._client.exists(parent) is not None:
            exists[parent] = True
            return []
        exists[parent] = True
        return [*self._missing_parents(parent, exists), Create(parent)]

    def _epoch_version(self, controller_epoch: int) -> int:
        """The version of the epoch's znode while this is the epoch in it; an election changes both."""
        try:
            data, stat = self._client.get(CONTROLLER_EPOCH)
        except NoNodeError:
            raise StaleControllerEpoch from None
        if controller_epoch < 1 or data != str(controller_epoch).encode():
            raise StaleControllerEpoch
        version: int = stat.version
        return version

    def _make_roots(self) -> None:
        for path in ("/moldau", ROOT, f"{ROOT}/log", f"{ROOT}/snapshot"):
            data = _State().encoded() if path == ROOT else None
            try:
                self._client.create(path, data, acl=self._connection.acl(path))
            except NodeExistsError:
                continue

    def _remove_old(self, state: _State) -> None:
        """Appends and snapshots that the latest snapshot has replaced; who reads them now tries again."""
        for folder, keep in (("log", state.snapshot_version + 1), ("snapshot", state.snapshot_version)):
            for name in self._client.get_children(f"{ROOT}/{folder}"):
                if int(name.partition(".")[0]) < keep:
                    self._client.delete(f"{ROOT}/{folder}/{name}")

    @property
    def image(self) -> ClusterImage:
        return self._image

    @property
    def _client(self) -> Any:
        return self._connection.client

    def _damaged(self, path: str, why: str) -> MetadataStoreError:
        return MetadataStoreError(
            f"The znode {path} cannot be used as the metadata of this cluster ({why}): restore it from a "
            "backup."
        )


def _children(path: str, answer: Any) -> list[str] | None:
    """The paths below a znode; None when it is not there."""
    try:
        return [f"{path}/{name}" for name in answer.get()]
    except NoNodeError:
        return None


def _parts(path: str, records: Sequence[Record]) -> list[Create]:
    content = zlib.compress(encode_all(records).encode(), 6)
    pieces = [content[start : start + PART_BYTES] for start in range(0, len(content), PART_BYTES)]
    header = _HEADER.pack(len(content), len(pieces), zlib.crc32(content))
    return [
        Create(path if index == 0 else f"{path}.{index}", header + piece if index == 0 else piece)
        for index, piece in enumerate(pieces)
    ]


def _split(wanted: Sequence[Change], limit: int) -> tuple[list[Change], list[Change]]:
    """What fits into a transaction, and the rest, in order."""
    size = 0
    for index, change in enumerate(wanted):
        size += _OVERHEAD + len(change.path) + (0 if isinstance(change, Delete) else len(change.data or b""))
        if size > limit and index:
            return list(wanted[:index]), list(wanted[index:])
    return list(wanted), []


def _rolled_back(result: KazooException) -> bool:
    """Whether an operation failed only because another one of its transaction did."""
    return isinstance(result, RolledBackError | RuntimeInconsistency)


def _raise_failed(results: Sequence[Any]) -> None:
    failed = [each for each in results if isinstance(each, KazooException)]
    for each in failed:
        if not _rolled_back(each):
            raise each
    if failed:
        raise failed[0]
