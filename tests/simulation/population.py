"""The clients of a run: the slots for clients, and which client fills each of them.

When clients start and die is decided in ``simulated_run``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation.classic_members import ClassicMember
from tests.simulation.consumer_members import ConsumerMember
from tests.simulation.offset_clients import Gardener, SimpleCommitter
from tests.simulation.transactional_clients import ClassicCopier, ConsumerCopier, TransactionalProducer
from tests.simulation.two_phase_clients import TwoPhaseProducer
from tests.simulation.virtual_client import VirtualClient, World

TOPICS = {
    "__consumer_offsets": 3,
    "__transaction_state": 2,
    "in": 3,
    "grow": 2,
    "out": 3,
    "copy-classic": 3,
    "copy-consumer": 3,
}
#: Records in each partition that copiers read.
RECORDS = 400
_OUT = [("out", index) for index in range(TOPICS["out"])]

#: Kinds of clients without fencing: a client and its former instance cannot be distinguished.
_UNFENCED = ("simple", "gardener")

Make = Callable[[str, Random], VirtualClient]


@dataclass(frozen=True, slots=True)
class Slot:
    name: str
    make: Make
    #: Whether the broker fences its former instance, so that both may run at the same time.
    fenced: bool = True


def population(world: World, kinds: tuple[str, ...] = ()) -> list[Slot]:
    """A few kinds of clients and a few clients of each: those of one kind are the ones that meet.

    Which kinds is drawn from the seed, unless it is said.
    """
    dice = Random(f"{world.seed}/population")
    found: list[Slot] = []
    known = _kinds(world)
    drawn = [each for each in known if each[0] in kinds] or dice.sample(known, dice.randint(2, 5))
    for name, make, most in drawn:
        count = dice.randint(2, most)
        found += [
            Slot(f"{name}-{number}", _bound(make, number), name not in _UNFENCED) for number in range(count)
        ]
    return found


def _bound(make: Callable[[str, Random, int], VirtualClient], number: int) -> Make:
    return lambda name, dice: make(name, dice, number)


def _kinds(world: World) -> list[tuple[str, Any, int]]:
    """The kind of a client, what makes one of a number, and the most that there may be."""
    return [
        ("simple", lambda name, dice, n: SimpleCommitter(world, name, f"simple {n % 2}", ("in", n)), 3),
        ("gardener", lambda name, dice, n: Gardener(world, name, f"garden {n}", ("in", n)), 3),
        ("two-phase", lambda name, dice, n: TwoPhaseProducer(world, name, f"two-phase {n}", _OUT), 3),
        ("classic", lambda name, dice, n: ClassicMember(world, name, "classic", _topics(dice)), 4),
        (
            "static",
            lambda name, dice, n: ClassicMember(world, name, "classic", _topics(dice), instance_id=f"s{n}"),
            3,
        ),
        ("cooperative", lambda name, dice, n: _cooperative(world, name, dice, n), 4),
        ("consumer", lambda name, dice, n: _consumer(world, name, dice, n), 5),
        ("mixed", lambda name, dice, n: _mixed(world, name, dice, n), 4),
        ("producer", lambda name, dice, n: _producer(world, name, n), 4),
        ("classic-copier", lambda name, dice, n: _classic_copier(world, name, n), 4),
        ("consumer-copier", lambda name, dice, n: _consumer_copier(world, name, n), 4),
    ]


def _topics(dice: Random) -> list[str]:
    return dice.choice([["in"], ["in", "grow"], ["in", "grow"], ["grow"]])


def _cooperative(world: World, name: str, dice: Random, number: int) -> VirtualClient:
    instance_id = f"c{number}" if number == 3 else None
    return ClassicMember(world, name, "cooperative", _topics(dice), instance_id=instance_id, cooperative=True)


def _consumer(world: World, name: str, dice: Random, number: int) -> VirtualClient:
    instance_id = f"n{number}" if number >= 3 else None
    return ConsumerMember(world, name, "consumer", _topics(dice), instance_id=instance_id)


def _mixed(world: World, name: str, dice: Random, number: int) -> VirtualClient:
    """One group that goes back and forth between the protocols."""
    if number % 2:
        return ConsumerMember(world, name, "mixed", _topics(dice))
    return ClassicMember(world, name, "mixed", _topics(dice), checked=False)


def _producer(world: World, name: str, number: int) -> VirtualClient:
    """Two of them may share a transactional id, and fence each other."""
    return TransactionalProducer(
        world, name, f"producer {number % 3}", bumping=number % 3 != 0, partitions=_OUT
    )


def _classic_copier(world: World, name: str, number: int) -> VirtualClient:
    return ClassicCopier(
        world,
        name,
        "classic copiers",
        "in",
        "copy-classic",
        RECORDS,
        bumping=number % 2 == 0,
        transactional_id=f"classic copier {number}",
        instance_id=f"k{number}" if number == 2 else None,
    )


def _consumer_copier(world: World, name: str, number: int) -> VirtualClient:
    return ConsumerCopier(
        world,
        name,
        "consumer copiers",
        "in",
        "copy-consumer",
        RECORDS,
        bumping=number % 2 == 0,
        transactional_id=f"consumer copier {number}",
    )
