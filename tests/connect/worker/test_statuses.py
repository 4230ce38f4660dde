"""Statuses that are made here, learnt from others, and dropped."""

from moldau.connect.worker.statuses import State, Status, Statuses

RUNNING = Status(State.RUNNING, "w:1", "4.3.0")


def test_only_own_changes_are_told() -> None:
    told: list[tuple[object, ...]] = []
    statuses = Statuses(lambda *change: told.append(change), lambda *change: told.append(change))
    statuses.set_task("c", 0, RUNNING)
    statuses.saw_topic("c", "t", 0)
    statuses.saw_topic("c", "t", 0)
    statuses.learn("d", None, RUNNING)
    statuses.learn_topic("d", "u", used=True)
    assert told == [("c", 0, RUNNING), ("c", "t", 0)]
    assert statuses.topics("d") == ["u"]
    statuses.learn("d", None, None)
    assert statuses.connector("d") is None


def test_what_is_dropped_is_gone_without_a_word() -> None:
    told: list[tuple[object, ...]] = []
    statuses = Statuses(lambda *change: told.append(change))
    statuses.learn("c", None, RUNNING)
    statuses.learn("c", 0, RUNNING)
    statuses.learn_topic("c", "t", used=True)
    statuses.drop("c")
    assert (statuses.connector("c"), statuses.tasks("c"), statuses.topics("c"), told) == (None, {}, [], [])


def test_a_connector_that_is_forgotten_tells_of_everything() -> None:
    told: list[tuple[object, ...]] = []
    statuses = Statuses(lambda *change: told.append(change), lambda *change: told.append(change))
    statuses.learn("c", 0, RUNNING)
    statuses.learn_topic("c", "t", used=True)
    statuses.forget("c")
    assert told == [("c", 0, None), ("c", "t", None), ("c", None, None)]
