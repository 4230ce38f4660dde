"""Runs the console: listens, answers, and stops in good order.

Invariant: ``ready`` is called when pages are answered, whether or not a cluster answers: the pages say so.
When it is stopped, live tails and searches end first.
"""

import asyncio
from collections.abc import Callable

from moldau.console.application import application
from moldau.console.settings import ConsoleSettings
from moldau.web.server import Listener
from moldau.web.server import serve as serve_application


async def serve(settings: ConsoleSettings, ready: Callable[[str], None], stop: asyncio.Event) -> None:
    """Runs until ``stop``; ``ready`` is called with the URL. OSError when the address is taken."""
    with Listener(settings.listener) as listener:
        app, console = application(settings, port=listener.port)

        async def end_streams() -> None:
            await stop.wait()
            console.stopping.set()

        ending = asyncio.create_task(end_streams(), name="console-streams")
        try:
            await serve_application(app, listener, lambda: ready(listener.url), stop)
        finally:
            ending.cancel()
            await console.sessions.close()
            await app.close()
