"""What happens to the broker of a soak: killed, stopped in good order, or held still, at random."""

import os
import random
import signal
import threading
import time

from tests.integration.broker_process import BrokerProcess


class Chaos:
    """A thread that lets the broker live for a while, ends it, and starts it again."""

    def __init__(self, broker: BrokerProcess, dice: random.Random, mean_life_seconds: float) -> None:
        self.kills = self.stops = self.pauses = 0
        self.failure: BaseException | None = None
        self._broker = broker
        self._dice = dice
        self._mean_life_seconds = mean_life_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.wait(min(self._dice.expovariate(1 / self._mean_life_seconds), 30)):
                self._strike()
        except BaseException as error:
            self.failure = error

    def _strike(self) -> None:
        what = self._dice.choices(["kill", "stop", "pause"], [6, 3, 1])[0]
        if what == "pause":
            self.pauses += 1
            os.kill(self._broker.pid, signal.SIGSTOP)
            time.sleep(self._dice.random() * 2)  # so long the broker stands still
            os.kill(self._broker.pid, signal.SIGCONT)
            return
        if what == "kill":
            self.kills += 1
            self._broker.kill()
        else:
            self.stops += 1
            code = self._broker.stop()
            assert code == 0, f"the broker ended with {code}"
        time.sleep(self._dice.choice((0, 0, self._dice.random() * 2)))  # so long the broker is away
        self._broker.start()

    def end(self) -> None:
        """No more of it; the broker runs when this returns."""
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure
