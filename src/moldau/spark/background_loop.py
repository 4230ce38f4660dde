"""The background loop of this process for each cluster.

Spark's Python workers serve one task after another, so the loop and its connections stay when a task ends:
the next one finds them open.

Invariant: no other module of this package makes a loop, a thread or a connection. A forked process gets loops
of its own.
"""

import atexit
import os

from moldau.client.transport.background_loop import BackgroundLoop
from moldau.spark.options import ClusterOptions

_loops: dict[tuple[int, ClusterOptions], BackgroundLoop] = {}


def connect(options: ClusterOptions) -> BackgroundLoop:
    """The loop of this process for that cluster, started when it is first asked for."""
    key = os.getpid(), options
    loop = _loops.get(key)
    if loop is None:
        loop = _loops[key] = open_loop(options)
        atexit.register(loop.close_idle_connections)
    return loop


def open_loop(options: ClusterOptions) -> BackgroundLoop:
    """A loop that the caller closes."""
    return BackgroundLoop(
        options.bootstrap_servers,
        client_id=options.client_id,
        request_timeout_ms=options.request_timeout_ms,
        api_timeout_ms=options.api_timeout_ms,
        security=options.security,
    )
