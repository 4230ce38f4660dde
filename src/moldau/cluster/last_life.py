"""A broker that starts again waits until the cluster knows that its last process is gone.

The controller sees that a broker has died when its session is missing. Were the next process to open one
right after the last one's ended, the controller could take the two for one, and let a broker lead that comes
back without what it had not written to its disk.

Invariant: bounded. Where nobody else is there who could be the controller, it does not wait at all.
"""

import asyncio
import logging

from moldau.cluster.metadata import Metadata
from moldau.cluster.store.contract import MetadataStore

log = logging.getLogger("moldau.cluster")

#: How long the session of a dead process may go on where the store does not see deaths.
_SESSION_SECONDS = 30.0
#: How long a controller may take to see that a session has ended; it may itself be starting.
_FENCING_SECONDS = 10.0
_LOOK_SECONDS = 0.1


async def wait_until_fenced(store: MetadataStore, metadata: Metadata, broker_id: int) -> None:
    """Returns when the metadata says that this broker is gone, or was never there, or nobody could say so."""
    loop = asyncio.get_running_loop()
    begin, said = loop.time(), False
    ended: float | None = None
    while metadata.image.is_live(broker_id):
        sessions = await store.sessions()
        if broker_id in sessions:
            if not store.sessions_outlive_processes or loop.time() - begin > _SESSION_SECONDS:
                return  # whoever has it runs: opening another one says so
        elif not sessions:
            return
        else:
            ended = loop.time() if ended is None else ended
            if loop.time() - ended > _FENCING_SECONDS:
                log.warning("broker %d starts although its last process counts as running", broker_id)
                return
        if not said and loop.time() - begin > 1:
            said = True
            log.info("broker %d waits until the cluster knows that its last process is gone", broker_id)
        await asyncio.sleep(_LOOK_SECONDS)
        await metadata.refresh()
