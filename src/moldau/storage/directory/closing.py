"""Closing the logs of a broker: indexes and producer states are written, and everything is flushed.

Invariant: records are flushed whatever else fails. A disk that is full is no broken disk: its directory is
not marked as cleanly shut down, and the next start checks it.
"""

import logging
from collections.abc import Callable, Iterable

from moldau.storage.directory.log_directory import LogDirectory
from moldau.storage.errors import next_step
from moldau.storage.log.flush import MAY_PASS, FlushJob, run_in_parallel
from moldau.storage.log.log import Log

logger = logging.getLogger("moldau.storage")


def close_logs(
    logs: Iterable[tuple[Log, LogDirectory]], fail: Callable[[LogDirectory, str], None]
) -> set[LogDirectory]:
    """Closes logs that are in use; returns the directories without room for what a clean shutdown writes.

    ``fail`` is called for a directory whose disk is broken.
    """
    unfinished: dict[LogDirectory, OSError] = {}
    jobs: list[tuple[Log, FlushJob | None]] = []
    for log, directory in logs:
        if log.offline is not None:
            continue
        try:
            jobs.append((log, log.begin_close()))
        except OSError as error:
            if error.errno in MAY_PASS:
                unfinished[directory] = error
                jobs.append((log, log.begin_flush()))
            else:
                fail(directory, str(error))
    run_in_parallel([job for _, job in jobs if job is not None])
    for log, job in jobs:
        log.finish_close(job)
    for directory, reason in unfinished.items():
        message = "%s cannot be closed in order, and is checked at the next start: %s. Next: %s"
        logger.warning(message, directory.path, reason, next_step(reason))
    return set(unfinished)
