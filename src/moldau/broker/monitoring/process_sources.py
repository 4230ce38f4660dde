"""Metrics of the process: memory, open files, CPU time, disk traffic, and how busy and how late its thread
is.

Invariant: what the system does not tell is left out, not guessed.
"""

import os
from collections.abc import Iterable

from moldau import __version__
from moldau.base.clock import Clock, stopwatch, thread_seconds
from moldau.base.clock_watch import ClockWatch
from moldau.base.descriptors import descriptor_limit
from moldau.base.tasks import Timers
from moldau.broker.context import Services
from moldau.metrics import broker_metrics as names
from moldau.metrics.instruments import TICK_SECONDS, Histogram, Rates
from moldau.metrics.readings import Reading, Sources, one

_LAG_SECONDS = 1.0
_RUNNING, _STOPPING = 3, 6


class ProcessSources:
    def __init__(self, services: Services, clock: Clock, clock_watch: ClockWatch) -> None:
        self._services = services
        self._clock_watch = clock_watch
        self._started_ms = clock.now_ms()
        self._lag = Histogram()
        self._due = 0.0
        #: Seconds in which the thread had nothing to do, up to now.
        self._idle_seconds = 0.0
        self._looked_at = stopwatch()
        self._worked = thread_seconds()
        self._last_share = 1.0
        self._idle = Rates(self._looked_at, 0.0)
        self._idle.decayed = [1.0] * len(self._idle.decayed)

    def register(self, sources: Sources) -> None:
        sources.add("kafka.server", "KafkaServer", self.server)
        sources.add("kafka.server", "app-info", self.version)
        sources.add("kafka.network", "SocketServer", self.network_idle)
        sources.add("kafka.server", "KafkaRequestHandlerPool", self.handler_idle)
        sources.add("moldau.broker", "EventLoop", self.lag)
        sources.add("moldau.broker", "Clock", self.clock_jumps)
        sources.add("java.lang", "OperatingSystem", self.system)
        sources.add("moldau.broker", "Memory", self.memory)

    def schedule(self, timers: Timers) -> None:
        self._due = stopwatch() + _LAG_SECONDS

        def measure_lag() -> None:
            now = stopwatch()
            self._lag.record(max(now - self._due, 0.0) * 1000, now)
            self._due = now + _LAG_SECONDS
            timers.after(_LAG_SECONDS, measure_lag)

        timers.after(_LAG_SECONDS, measure_lag)
        timers.every(TICK_SECONDS, self._measure_idle)

    def _measure_idle(self) -> None:
        now, worked = stopwatch(), thread_seconds()
        passed = now - self._looked_at
        if passed <= 0:
            return
        idle = max(passed - (worked - self._worked), 0.0)
        self._idle_seconds += idle
        self._last_share = idle / passed
        self._looked_at, self._worked = now, worked
        self._idle.observe(now, self._idle_seconds)

    # --- sources --------------------------------------------------------------------------------

    def server(self) -> Iterable[Reading]:
        yield one(names.STATE, _STOPPING if self._services.stopping else _RUNNING)
        yield one(names.CLUSTER_ID, self._services.cluster_id)
        found = _proc_io()
        for name, metric in (("read_bytes", names.DISK_READ), ("write_bytes", names.DISK_WRITE)):
            if name in found:
                yield one(metric, found[name])

    def version(self) -> Iterable[Reading]:
        yield one(names.VERSION, __version__)
        yield one(names.START_TIME, self._started_ms)

    def network_idle(self) -> Iterable[Reading]:
        yield one(names.NETWORK_IDLE, self._last_share)

    def handler_idle(self) -> Iterable[Reading]:
        yield one(names.HANDLER_IDLE, self._idle)

    def lag(self) -> Iterable[Reading]:
        yield one(names.LOOP_LAG, self._lag)
        holds = self._services.holds
        # The watchdog counts on a thread of its own: what is read is a copy.
        yield Reading(names.LOOP_HOLDS, [((name,), count) for name, count in holds.by_name.copy().items()])
        yield one(names.LONGEST_HOLD, holds.longest_ms)

    def clock_jumps(self) -> Iterable[Reading]:
        yield one(names.CLOCK_JUMPS, self._clock_watch.jumps)
        yield one(names.CLOCK_LAST_JUMP, self._clock_watch.last_jump_ms)

    def system(self) -> Iterable[Reading]:
        count = _open_descriptors()
        if count is not None:
            yield one(names.OPEN_FILES, count)
        yield one(names.MAX_FILES, descriptor_limit())
        used = os.times()
        yield one(names.CPU_TIME, round((used.user + used.system) * 1e9))
        swap = _swap_bytes()
        if swap is not None:
            yield one(names.TOTAL_SWAP, swap[0])
            yield one(names.FREE_SWAP, swap[1])

    def memory(self) -> Iterable[Reading]:
        resident = _resident_bytes()
        if resident is not None:
            yield one(names.RESIDENT, resident)


def _proc_io() -> dict[str, int]:
    try:
        with open("/proc/self/io") as lines:
            return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}
    except (OSError, ValueError):
        return {}


def _swap_bytes() -> tuple[int, int] | None:
    """All of the machine's, and what is free of it."""
    try:
        with open("/proc/meminfo") as lines:
            found = {name: words.split() for name, _, words in (line.partition(":") for line in lines)}
        return int(found["SwapTotal"][0]) * 1024, int(found["SwapFree"][0]) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return None


def _open_descriptors() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


def _resident_bytes() -> int | None:
    try:
        with open("/proc/self/statm") as line:
            return int(line.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
