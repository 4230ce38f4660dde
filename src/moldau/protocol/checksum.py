"""CRC-32C by the ``crc32c`` wheel, loaded without the rest of its package.

The wheel's own ``__init__`` looks its version up in the installed metadata, which costs more time
than all other imports of this room together. A broker starts often, so only the extension is taken.

Invariant: one function, of any buffer; never a version in Python, which would be a thousand times slower.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any


def _load() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    locations = None if package is None else package.submodule_search_locations
    extension = None if locations is None else PathFinder.find_spec("_crc32c", list(locations))
    if extension is None or extension.loader is None:
        # Built or packed in another way than today's wheel: its front door still works.
        from crc32c import crc32c

        plain: Callable[..., int] = crc32c
        return plain
    module: Any = module_from_spec(extension)
    extension.loader.exec_module(module)
    function: Callable[..., int] = module.crc32c
    return function


#: ``crc32c(data, value=0)``: the checksum of ``data``, going on from ``value``.
crc32c = _load()
