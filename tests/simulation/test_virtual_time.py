"""A simulated world takes nothing from the machine that it runs on."""

from moldau.base.clock import stopwatch
from moldau.base.tasks import Background
from moldau.broker import connection
from moldau.broker.bounds.turns import Rotation, Turn
from tests.simulation.virtual_time import InOrder, without_the_machine


def test_work_that_takes_long_on_this_machine_takes_no_time_in_the_world() -> None:
    """Turns went by the machine's stopwatch: under load, a seed was not the same run."""
    with without_the_machine(lambda: 7.0):
        turn = Turn(seconds=0.000_000_1)
        assert sum(range(1000)) > 0  # work that takes longer than that
        assert not turn.over
        assert Rotation(lambda callback: None)._now() == 7.0
        assert connection.stopwatch() == 7.0
    assert Turn()._now is stopwatch
    assert connection.stopwatch is stopwatch


def test_tasks_end_in_the_order_in_which_they_began() -> None:
    with without_the_machine(lambda: 7.0):
        assert isinstance(Background()._tasks, InOrder)
    assert isinstance(Background()._tasks, set)
