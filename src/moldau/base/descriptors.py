"""File descriptors: how many this process may have, and which part of them is for what.

A share is for files of logs, a share for connections, and the rest is a reserve for everything that must not
fail because of the first two: metadata, checkpoints, imports, listeners, a client's last question.

Invariant: the three parts never add up to more than the limit of the process.
"""

import errno
import logging
import os
import resource
from collections.abc import Callable
from typing import NamedTuple

log = logging.getLogger("moldau.descriptors")

#: No more descriptors, in this process or in the whole system. That passes, and is no fault of the disk.
OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})

#: More is never asked for: it is the most that Linux gives, unless its administrator says otherwise.
_MOST = 1 << 20
#: What the reserve is where the limit allows it.
_RESERVE = 128
#: A broker with less cannot be used with more than a few clients.
FEW_DESCRIPTORS = 256


class DescriptorShares(NamedTuple):
    limit: int
    reserve: int
    log_files: int
    connections: int

    def __str__(self) -> str:
        return (
            f"{self.limit} file descriptors: up to {self.log_files} for files of logs, "
            f"{self.connections} for connections, {self.reserve} in reserve"
        )


def share_descriptors(limit: int, *, with_log_files: bool = True) -> DescriptorShares:
    """Divides the descriptors of a process; a broker that keeps its logs in memory needs none for them."""
    reserve = min(_RESERVE, limit // 4)
    log_files = (limit - reserve) // 2 if with_log_files else 0
    return DescriptorShares(limit, reserve, log_files, limit - reserve - log_files)


def descriptor_limit() -> int:
    """How many descriptors this process may have now."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def raise_descriptor_limit() -> int:
    """Raises the soft limit to the hard one, which needs no privilege; returns the limit from now on.

    The soft limit is low (1,024 on Linux, 256 on macOS) for the sake of old programs that call ``select``.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (_number(hard), 10_240):  # macOS refuses its own "unlimited", and takes this
        if wanted <= _number(soft):
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            break
        except (ValueError, OSError):
            continue
    return descriptor_limit()


class DescriptorWatch:
    """Looks from time to time whether the reserve is still there, and lets files of logs restore it.

    The event loop turns connections away by itself while there is no descriptor for them, and says nothing:
    this says it, once, and once more when it is over.
    """

    def __init__(self, shares: DescriptorShares, make_room: Callable[[], int]) -> None:
        self._low = shares.limit - shares.reserve // 2
        self._make_room = make_room
        self._is_out = False

    def check(self) -> None:
        try:
            # The system gives out the lowest number that is free.
            number = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
            given_back = self._make_room()
            if not self._is_out:
                message = (
                    "no file descriptor is left: new connections are closed at once until there are some "
                )
                message += "again; %d were taken from files of logs. Next: close connections, or raise the "
                message += "limit of open files (ulimit -n) and restart"
                log.error(message, given_back)
            self._is_out = True
            return
        os.close(number)
        if self._is_out:
            log.warning("there are file descriptors again: new connections are welcome")
        self._is_out = False
        if number >= self._low:
            self._make_room()


def _number(limit: int) -> int:
    return _MOST if limit == resource.RLIM_INFINITY else min(limit, _MOST)
