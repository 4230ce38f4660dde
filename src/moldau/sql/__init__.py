"""SQL over topics: statements in ksqlDB's words, run by the engine of moldau.streams (docs/sql.md).

``import moldau.sql`` and ``moldau.sql("SELECT …")`` carries statements out: the package can be called.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(
        self, text: str, bootstrap_servers: str = "127.0.0.1:9092", *, registry: str | None = None
    ) -> list[dict[str, Any]]:
        """Carries out all statements; gives the rows of the last one."""
        from moldau.sql.running.blocking import sql

        return sql(text, bootstrap_servers, registry=registry)


sys.modules[__name__].__class__ = _Callable
