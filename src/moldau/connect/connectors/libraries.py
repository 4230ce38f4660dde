"""Libraries that only some connectors need; each family of connectors has an extra of its own.

Invariant: a connector whose library is missing can be listed and checked; it says what to install when it
starts.
"""

import importlib
from typing import Any

from moldau.connect.errors import ConnectException


def library(name: str, extra: str) -> Any:
    """The module ``name``, which ``pip install moldau[extra]`` brings."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConnectException(
            f"This connector needs the library {name.partition('.')[0]}. "
            f"Next: pip install 'moldau[{extra}]', and restart the worker"
        ) from error
