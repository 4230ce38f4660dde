"""Functions as transforms: only of modules that are listed, and with errors that are those of a record."""

from dataclasses import replace

import pytest

from moldau.connect.errors import ConfigException, DataException
from moldau.connect.records import ConnectRecord, SinkRecord
from moldau.connect.transforms.python import PythonTransform

MODULE = __name__


def shout(record: ConnectRecord) -> ConnectRecord | None:
    if record.value == "drop":
        return None
    if record.value == "odd":
        return "no record"  # type: ignore[return-value]
    assert isinstance(record.value, str)
    return replace(record, value=record.value.upper())


def made(value: object) -> SinkRecord:
    return SinkRecord(topic="t", partition=0, offset=0, value=value)


@pytest.fixture
def transform(monkeypatch: pytest.MonkeyPatch) -> PythonTransform:
    import sys

    monkeypatch.setitem(sys.modules, "shop_rules", sys.modules[MODULE])
    return PythonTransform({"function": "shop_rules:shout"}, ["shop_rules"])


def test_records_change_and_go(transform: PythonTransform) -> None:
    changed = transform.apply(made("a"))
    assert changed is not None
    assert changed.value == "A"
    assert transform.apply(made("drop")) is None


@pytest.mark.parametrize("value", [5, "odd"])
def test_an_error_is_one_of_its_record(transform: PythonTransform, value: object) -> None:
    with pytest.raises(DataException, match="shop_rules:shout"):
        transform.apply(made(value))


@pytest.mark.parametrize(
    "function",
    [
        "os:system",
        "shop_rules",
        "shop_rules:",
        ":x",
        "shop_rules:_private",
        "shop_rules:a.b",
        "subprocess:run",
    ],
)
def test_modules_that_are_not_listed_are_refused(function: str) -> None:
    with pytest.raises(ConfigException):
        PythonTransform({"function": function}, ["shop_rules"])


def test_what_cannot_be_loaded() -> None:
    for function in ("json:nope", "no_such_module_here:x", "json:decoder"):
        with pytest.raises(ConfigException):
            PythonTransform({"function": function}, ["json", "no_such_module_here"])
