"""State as records: what goes in comes out, and nothing runs that a stranger wrote."""

import os
import pickle

import pytest

from moldau.streams import StreamsBuilder, StreamsError
from moldau.streams.engine.records import Input, Windowed
from moldau.streams.engine.stores.store import StoreState
from moldau.streams.engine.task import Task
from moldau.streams.runner.programs import Program
from moldau.streams.runner.saved_state import Decoder, Saved, encoded, unpickled

PLACE = ((("in", 0, 3),), 0)


def counted() -> Task:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count("counts")
    task = Task(builder.build())
    task.process([Input("in", "a", 1, 10), Input("in", "b", 1, 20), Input("in", "a", 1, 30)])
    return task


def test_what_is_saved_is_taken_over() -> None:
    task = counted()
    decoder = Decoder("program")
    first = Saved(PLACE, {("in", 0): 3}, task.take_changes(), 1, 3)
    decoder.take(*zip(*encoded(first), strict=True))
    assert decoder.saved() == first


def test_rows_that_repeat_themselves_do_not_disturb_each_other() -> None:
    name = "a long name that is there twice"
    rows = {number: {"one": name, "other": name, "at": Windowed(name, number, 9)} for number in range(5)}
    state = counted().export()._replace(stores={"s": StoreState(rows, ())})
    decoder = Decoder("program")
    decoder.take(*zip(*encoded(Saved(PLACE, {}, state, 0, 0)), strict=True))
    found = decoder.saved()
    assert found is not None
    assert found.state.stores["s"].rows == rows


def test_later_records_win_and_rows_that_are_gone_stay_away() -> None:
    records = [
        (pickle.dumps(("counts", "a"), 5), pickle.dumps((1, 1), 5)),
        (pickle.dumps(("counts", "b"), 5), pickle.dumps((1, 1), 5)),
        (pickle.dumps(("counts", "a"), 5), pickle.dumps((2, 2), 5)),
        (pickle.dumps(("counts", "b"), 5), None),
    ]
    empty = counted().export()._replace(stores={})
    about = list(encoded(Saved(PLACE, {}, empty, 0, 0)))
    decoder = Decoder("program")
    for key, value in [*records, *about]:
        decoder.take([key], [value])
    found = decoder.saved()
    assert found is not None
    assert found.state.stores["counts"].rows == {"a": (2, 2)}


def test_without_a_record_of_the_task_there_is_no_state() -> None:
    assert Decoder("program").saved() is None


WITH_A_CLASS = """
from dataclasses import dataclass
from subprocess import Popen
from moldau.streams import StreamsBuilder

@dataclass
class Mine:
    x: int

builder = StreamsBuilder()
builder.stream("in").to("out")
"""


class Evil:
    def __reduce__(self) -> object:
        return os.getcwd, ()


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Evil()),
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cmoldau.streams.engine.task\nTask\n.",
        b"cmoldau_streams_mine\nPopen\n.",
    ],
    ids=["os", "eval", "engine", "imported by the program"],
)
def test_only_harmless_classes_are_looked_up(data: bytes) -> None:
    program = Program("mine.py", text=WITH_A_CLASS)
    program.load()
    with pytest.raises(StreamsError, match="not taken over"):
        unpickled(data, program.module)


def test_classes_of_the_program_are_found() -> None:
    program = Program("mine.py", text=WITH_A_CLASS)
    program.load()
    import moldau_streams_mine  # type: ignore[import-not-found]

    mine = moldau_streams_mine.Mine(1)
    assert unpickled(pickle.dumps(mine), program.module) == mine
