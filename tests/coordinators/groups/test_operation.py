"""What an operation collects is its result."""

from moldau.coordinators.groups.environment import GroupSettings
from moldau.coordinators.groups.operation import Operation
from moldau.coordinators.shard import EMPTY_RESULT, ProducerIdAndEpoch, Token


def operation() -> Operation:
    return Operation(1_000, GroupSettings(), lambda: "id")


def test_an_operation_that_does_nothing() -> None:
    assert operation().result() == EMPTY_RESULT


def test_records_and_replies_in_their_order() -> None:
    made, first, second = operation(), Token(), Token()
    made.records += ["a", "b"]
    made.reply(second, "later")
    made.reply(first, "sooner")
    result = made.result()
    assert result.records == ("a", "b")
    assert result.replies == ((second, "later"), (first, "sooner"))


def test_the_last_word_about_a_timer_counts() -> None:
    made = operation()
    made.set_timer("a", 1_500)
    made.set_timer("b", 100)
    made.set_timer("a", 250)
    made.cancel_timer("b")
    made.cancel_timer("c")
    made.set_timer("d", 0)
    assert dict(made.result().timers) == {"a": 0.25, "b": None, "c": None, "d": 0.0}


def test_records_of_a_transaction_and_records_that_stand_alone() -> None:
    made = operation()
    made.producer = ProducerIdAndEpoch(42, 3)
    assert (made.result().producer, made.result().atomic) == ((42, 3), True)
    made.atomic = False
    assert not made.result().atomic
