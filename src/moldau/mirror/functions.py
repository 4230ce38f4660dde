"""A function of the user that sees every record of a flow: ``orders.py:only_europe``, ``a.module:name``.

It gets a record (offset, timestamp, key, value, headers) and returns it, another one (``record._replace``), a
list of records, or None (False) to leave it out; True keeps it.

Invariant: what it returns is checked before anything is written; what it raises ends the copy with its words.
"""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from moldau.mirror.rebatching import RecordFunction
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record


def load_function(name: str) -> RecordFunction:
    """INVALID_CONFIG when there is no such function."""
    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute:
        raise _error(f"moldau.function={name}: it is MODULE:FUNCTION or FILE.py:FUNCTION")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            if spec is None or spec.loader is None:
                raise ImportError(f"{place} is no Python file")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
        function = getattr(module, attribute)
    except (ImportError, OSError, AttributeError, SyntaxError) as error:
        raise _error(f"moldau.function={name} cannot be loaded: {error}") from error
    if not callable(function):
        raise _error(f"moldau.function={name} is no function")
    return _checked(name, function)


def _checked(name: str, function: Callable[[Record], Any]) -> RecordFunction:
    def call(record: Record) -> Sequence[Record]:
        try:
            made = function(record)
        except Exception as error:
            raise _error(f"{name} failed at offset {record.offset}: {error!r}") from error
        if made is None or made is False:
            return ()
        if made is True:
            return (record,)
        records = (
            (made,) if isinstance(made, Record) else tuple(made) if isinstance(made, list | tuple) else None
        )
        if records is None or not all(isinstance(each, Record) for each in records):
            raise _error(f"{name} returned {type(made).__name__}: it has to be a record, a list, or None")
        return records

    return call


def _error(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
