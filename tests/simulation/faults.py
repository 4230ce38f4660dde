"""The faults of one run and how often they occur, drawn from the seed, so that each run has another mixture.

A run in which everything fails all the time tests nothing, so most runs have some of the faults, and some
runs have none.
"""

from dataclasses import dataclass, replace
from random import Random


@dataclass(frozen=True, slots=True)
class Faults:
    #: Chance that a request is lost, and that an answer is.
    loss: float = 0.0
    #: Chance that a request which may be repeated comes a second time, up to so many seconds later.
    repetition: float = 0.0
    repetition_seconds: float = 15.0
    #: Chance that a client stands still after an answer, for up to so many seconds.
    stall: float = 0.0
    stall_seconds: float = 15.0
    #: Largest delay in seconds until an appended record of a coordinator is committed; 0 for none.
    commit_delay: float = 0.0
    #: Chance that a coordinator's append is refused.
    refusal: float = 0.0
    #: Mean seconds between two events of each kind; 0 for never.
    crash_every: float = 0.0
    move_every: float = 0.0
    clock_every: float = 0.0
    pause_every: float = 0.0
    kill_every: float = 0.0
    topics_every: float = 0.0
    #: Chance that a client which is started again meets its former self alive.
    zombie: float = 0.0
    #: Chance that an order to write markers is carried out late, or twice.
    late_markers: float = 0.0
    #: Epochs before a producer id is used up; 0 for Kafka's own number.
    few_epochs: int = 0

    def calm(self) -> "Faults":
        """Nothing goes wrong any more, though what is appended still takes its time to be committed."""
        return Faults(commit_delay=self.commit_delay, few_epochs=self.few_epochs)


def draw(dice: Random) -> Faults:
    """Each fault is there or not, and then rare or frequent."""

    def some(chance: float, *values: float) -> float:
        return dice.choice(values) if dice.random() < chance else 0.0

    drawn = Faults(
        loss=some(0.6, 0.01, 0.03, 0.1),
        repetition=some(0.5, 0.05, 0.2),
        stall=some(0.5, 0.005, 0.02, 0.04),
        commit_delay=some(0.7, 0.01, 0.1, 1.0),
        refusal=some(0.3, 0.01, 0.05),
        crash_every=some(0.5, 5.0, 15.0, 30.0),
        move_every=some(0.6, 3.0, 10.0),
        clock_every=some(0.3, 10.0),
        pause_every=some(0.2, 20.0),
        kill_every=some(0.7, 4.0, 12.0),
        topics_every=some(0.3, 15.0),
        zombie=some(0.6, 0.3, 0.8),
        late_markers=some(0.5, 0.3, 0.8),
        few_epochs=int(some(0.3, 3, 6)),
    )
    return replace(drawn, commit_delay=drawn.commit_delay * dice.uniform(0.2, 1.0))
