"""Ids that nobody has had before."""

import os

from moldau.base.names import Uuid


def new_uuid() -> Uuid:
    """An id that does not begin with a dash in its written form: tools take that for an option."""
    while True:
        value = os.urandom(16)
        if value[0] >> 2 != 62 and value != bytes(16):
            return value
