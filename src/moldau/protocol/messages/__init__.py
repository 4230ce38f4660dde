"""The messages of the protocol: one file per API, named like its ``ApiKey`` in lower case.

Invariant: nothing is imported before it is asked for; a broker that never meets an API never pays for it.
"""

from importlib import import_module

from moldau.protocol.api_keys import ApiKey


def load(api_key: ApiKey) -> tuple[type, type]:
    """The request and the response class of an API."""
    name = api_key.name.lower()
    module = import_module(f"{__name__}.{name}")
    stem = name.title().replace("_", "")
    return getattr(module, f"{stem}Request"), getattr(module, f"{stem}Response")
