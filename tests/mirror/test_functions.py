"""Functions of users: loaded, called, and what they may return."""

from pathlib import Path

import pytest

from moldau.mirror.functions import load_function
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import Record

RECORD = Record(7, 1, b"k", b"v", ())
SOURCE = """
from moldau.protocol.records import Record
keep = lambda record: True
drop = lambda record: None
leave = lambda record: False
change = lambda record: record._replace(value=b"new")
double = lambda record: [record, record]
wrong = lambda record: 5
wrong_list = lambda record: [5]
fails = lambda record: 1 / 0
number = 5
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "own.py"
    path.write_text(SOURCE)
    return str(path)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("keep", (RECORD,)),
        ("drop", ()),
        ("leave", ()),
        ("change", (RECORD._replace(value=b"new"),)),
        ("double", (RECORD, RECORD)),
    ],
)
def test_what_a_function_may_return(file: str, name: str, made: tuple[Record, ...]) -> None:
    assert tuple(load_function(f"{file}:{name}")(RECORD)) == made


@pytest.mark.parametrize(
    ("name", "message"), [("wrong", "int"), ("wrong_list", "list"), ("fails", "offset 7.*ZeroDivisionError")]
)
def test_what_ends_the_copy(file: str, name: str, message: str) -> None:
    with pytest.raises(KafkaError, match=message):
        load_function(f"{file}:{name}")(RECORD)


@pytest.mark.parametrize(
    "name", ["nothing", "a.module.that.is.not:name", "{file}:missing", "{file}:number", "/no/file.py:name"]
)
def test_what_cannot_be_loaded(file: str, name: str) -> None:
    with pytest.raises(KafkaError, match=r"moldau\.function="):
        load_function(name.format(file=file))
