"""CRC-32C from the extension module of the ``crc32c`` package.

The package's ``__init__`` looks up its own version in the installed metadata, which takes longer than all
other imports of this package together. A broker starts often, so only the extension is loaded.
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
        # The package was built in another way than today's wheel; the normal import still works.
        from crc32c import crc32c

        plain: Callable[..., int] = crc32c
        return plain
    module: Any = module_from_spec(extension)
    extension.loader.exec_module(module)
    function: Callable[..., int] = module.crc32c
    return function


#: ``crc32c(data, value=0)``: the checksum of ``data``, continued from ``value``.
crc32c = _load()
