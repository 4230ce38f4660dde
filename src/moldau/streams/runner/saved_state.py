"""The state of a task as records of a compacted topic: a record for each row, and one for everything else.

Rows are pickled, because keys and aggregates are whatever the program makes of them. Whoever can write to the
topic must not be able to run code here, so only classes of a short list and those that the program's own file
defines are ever looked up.

Invariant: the last record of each key is the state. The record of the task itself says up to which offsets
the state has taken its topics; both are written in one transaction.
"""

import builtins
import io
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from moldau.streams.engine.stores.store import StoreState
from moldau.streams.engine.task import TaskState
from moldau.streams.errors import StreamsError

#: The key of the record about the task itself; rows have keys of two parts.
_TASK_KEY = pickle.dumps("task", 5)
_VERSION = 1
#: What may be in a row beside the program's own classes and those of the engine.
_HARMLESS = {
    "builtins": {"set", "frozenset", "bytearray", "complex", "range", "slice"},
    "collections": {"OrderedDict", "deque", "Counter", "defaultdict"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "uuid": {"UUID", "SafeUUID"},
    "zoneinfo": {"ZoneInfo"},
    "moldau.streams.engine.records": {"Change", "TimedValue", "Windowed"},
    "moldau.streams.engine.foreign_keys": {"Instruction", "Response", "Subscription"},
    "moldau.streams.engine.stores.buffers": {"Held", "WaitingRecord"},
}

#: Offsets up to which a state has taken its topics, by topic and partition, and the wall clock.
Place = tuple[tuple[tuple[str, int, int], ...], int]
#: In place of the wall clock: the state is that of another application, and no batch of its own was before.
TAKEN_OVER = -1


class Saved(NamedTuple):
    """A state with where it stands."""

    #: What the batch after which it was saved was to take.
    place: Place
    #: What was taken of it: less, where a task waits for records of another topic.
    positions: dict[tuple[str, int], int]
    state: TaskState
    dropped: int
    #: Records in, for those who watch.
    records: int


class _Unpickler(pickle.Unpickler):
    """Refuses what is not on the list."""

    def __init__(self, data: io.BytesIO, module: str, old_module: str | None = None) -> None:
        super().__init__(data)
        self._module = module
        self._old_module = old_module

    def find_class(self, module: str, name: str) -> Any:
        if name in _HARMLESS.get(module, ()):
            return getattr(builtins, name) if module == "builtins" else super().find_class(module, name)
        if module == self._old_module:
            module = self._module
        if module == self._module:
            found: Any = sys.modules.get(module)
            for part in name.split("."):
                found = getattr(found, part, None)
            # Only what the file defines: what it imports may do anything.
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise StreamsError(
            f"a row of the state has a value of {module}.{name}, which is not taken over: keep values of the"
            " program's own file, numbers, texts, dates, lists and dicts in stores, or reset the application"
        )


def encoded(state: Saved) -> Iterator[tuple[bytes, bytes | None]]:
    """Keys and values of records; a row that is gone has None."""
    dumps = pickle.dumps
    try:
        for store, changes in state.state.stores.items():
            for key, row in changes.rows.items():
                yield dumps((store, key), 5), None if row is None else dumps(row, 5)
        numbers = {name: changes.numbers for name, changes in state.state.stores.items()}
        about = (_VERSION, state.place, state.positions, numbers, state.state.operators, state.state.task)
        yield _TASK_KEY, dumps((*about, state.dropped, state.records), 5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise StreamsError(
            f"a row of a store cannot be saved: {error}. Define the classes of aggregates at the top of the"
            " program's file"
        ) from error


class Decoder:
    """Takes the records of one partition, in order; ``saved`` is what they amount to.

    Classes of ``old_module`` are looked up in ``module``, too: those of the version before.
    """

    def __init__(self, module: str, old_module: str | None = None) -> None:
        self._module = module
        self._old_module = old_module
        self._rows: dict[bytes, bytes | None] = {}
        self._task: bytes | None = None

    def take(self, keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> None:
        rows = self._rows
        for key, value in zip(keys, values, strict=True):
            if key == _TASK_KEY:
                self._task = value
            elif key is not None:
                rows[key] = value

    def saved(self) -> Saved | None:
        """Everything that was taken, without rows that are gone."""
        self._rows = {key: row for key, row in self._rows.items() if row is not None}
        return self.changes()

    def changes(self) -> Saved | None:
        """What was taken since the last call, rows that are gone as None; None where there is no state."""
        if self._task is None:
            return None
        version, place, positions, numbers, operators, task, dropped, records = self._read([self._task])[0]
        if version != _VERSION:
            raise StreamsError(f"the state was saved by a later Moldau (version {version})")
        stores: dict[str, dict[Any, Any]] = {name: {} for name in numbers}
        taken, self._rows = self._rows, {}
        kept = [row for row in taken.values() if row is not None]
        rows = iter(self._read(kept))
        for (store, key), row in zip(self._read(list(taken)), taken.values(), strict=True):
            stores.setdefault(store, {})[key] = None if row is None else next(rows)
        states = {name: StoreState(found, numbers.get(name, ())) for name, found in stores.items()}
        return Saved(place, positions, TaskState(states, operators, task), dropped, records)

    def _read(self, pickles: Sequence[bytes]) -> list[Any]:
        module, old_module, stream = self._module, self._old_module, io.BytesIO
        # One for each row: a pickle refers to what came before by number, and counts from 0.
        return [_Unpickler(stream(each), module, old_module).load() for each in pickles]


def unpickled(data: bytes, module: str) -> Any:
    """One value, with the same classes as rows of the state."""
    return _Unpickler(io.BytesIO(data), module).load()
