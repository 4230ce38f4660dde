"""When to stop: Ctrl-C, SIGTERM, SIGHUP, the key ``q``, or after a given time.

Invariant: the settings of the terminal are restored. Without a terminal nothing is read from standard input.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_STOP_KEYS = frozenset(b"qQ\x03\x04")


@contextmanager
def stop_signal() -> Iterator[asyncio.Event]:
    """An event that is set by a signal or a key; to be used inside a running loop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        with _keys(stop):
            yield stop
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@contextmanager
def _keys(stop: asyncio.Event) -> Iterator[None]:
    """Reads single keys while standard input is a terminal and this program is in its foreground."""
    if not _has_keyboard():
        yield
        return
    import termios
    import tty

    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def pressed() -> None:
        keys = os.read(descriptor, 1024)
        if not keys:  # the terminal went away
            loop.remove_reader(descriptor)
        if not keys or _STOP_KEYS & set(keys):
            stop.set()

    tty.setcbreak(descriptor)  # keys come at once and are not shown; Ctrl-C is still a signal
    loop.add_reader(descriptor, pressed)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _has_keyboard() -> bool:
    """Whether keys can be read: in the background of a shell, reading the terminal stops a program."""
    try:
        if not sys.stdin.isatty():
            return False
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


async def until(stop: asyncio.Event, seconds: float | None) -> bool:
    """Waits for the event; False when the time is over before."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True
