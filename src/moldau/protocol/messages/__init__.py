"""The messages of the protocol: one file per API, named like its ``ApiKey`` in lower case.

Invariant: a message is imported only when it is needed, so that unused APIs cost nothing at start.
"""

from importlib import import_module

from moldau.protocol.api_keys import ApiKey


def load(api_key: ApiKey) -> tuple[type, type]:
    """The request and the response class of an API."""
    name = api_key.name.lower()
    module = import_module(f"{__name__}.{name}")
    stem = name.title().replace("_", "")
    return getattr(module, f"{stem}Request"), getattr(module, f"{stem}Response")
