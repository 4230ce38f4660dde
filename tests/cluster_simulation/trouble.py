"""What goes wrong in a run, and when: a list of events, drawn from the seed before the run begins.

Invariant: the plan depends on the seed alone and names its victims by their role (``leader of 0``), so that
events can be left out and the rest still makes sense: that is how the list of a failed run is shortened.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

BROKERS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Event:
    at: float
    kind: str
    #: ``leader 0``, ``controller``, ``coordinator`` or the id of a broker.
    victim: str
    lasts: float

    def __str__(self) -> str:
        return f"{self.at:.2f}s {self.kind} {self.victim} for {self.lasts:.2f}s"


@dataclass(frozen=True, slots=True)
class Odds:
    """How often each kind of fault is drawn, and how many seconds lie between two on average."""

    pause_between: float = 1.2
    kill: int = 6
    power_cut: int = 3
    stop: int = 3
    pause: int = 4
    cut_both: int = 4
    cut_out: int = 3
    cut_in: int = 3
    cut_kill: int = 4
    cut_store: int = 4
    slow_disk: int = 2
    clock: int = 1
    move: int = 0
    lower: int = 0
    topic: int = 0
    full_disk: int = 0
    hung_disk: int = 0

    def kinds(self) -> list[str]:
        names = (
            "kill",
            "power_cut",
            "stop",
            "pause",
            "cut_both",
            "cut_out",
            "cut_in",
            "cut_kill",
            "cut_store",
            "slow_disk",
            "clock",
            "move",
            "lower",
            "topic",
            "full_disk",
            "hung_disk",
        )
        return [name for name in names for _ in range(getattr(self, name))]


#: An operator moves replicas and changes configs meanwhile. No power is lost: with so much else at a time all
#: others die before it is made up for, and what they have is not trusted either.
OPERATED = Odds(pause_between=0.9, power_cut=0, move=6, lower=6)

#: Topics are made and deleted all the time, while disks are slow or full. No power is lost, as above.
TOPICS = Odds(pause_between=0.6, power_cut=0, topic=20, slow_disk=8, full_disk=8, move=4)

#: Brokers die while disks hang, that of the controller too, which has the directories of new topics to make.
HANGING = Odds(
    pause_between=0.3,
    kill=12,
    power_cut=0,
    stop=0,
    pause=0,
    cut_both=0,
    cut_out=0,
    cut_in=0,
    cut_kill=0,
    cut_store=0,
    slow_disk=0,
    clock=0,
    topic=20,
    hung_disk=14,
)


def plan(seed: int, seconds: float, odds: Odds) -> list[Event]:
    return list(_events(Random(f"trouble {seed}"), seconds, odds))


def _events(dice: Random, seconds: float, odds: Odds) -> Iterator[Event]:
    at, kinds = dice.uniform(0.5, 1.5), odds.kinds()
    while at < seconds:
        victim = dice.choice(
            ("leader 0", "leader 1", "controller", "coordinator", *(str(each) for each in BROKERS))
        )
        # Some are over before anybody notices, some outlast every session.
        lasts = dice.choice((dice.uniform(0.02, 0.4), dice.uniform(0.3, 2.0), dice.uniform(2.0, 6.0)))
        yield Event(round(at, 3), dice.choice(kinds), victim, round(lasts, 3))
        at += dice.expovariate(1 / odds.pause_between)
