"""The order in which a HashMap of Java gives names.

Where several fields are wrong it tells which error comes first, and where several take one name, which of
them has it.
"""

from collections.abc import Iterable

_LOAD = 0.75


def in_hash_order(names: Iterable[str | None]) -> list[str | None]:
    """The names without repetition, by their place in a table that grew as they were added.

    A place with so many names that Java makes a tree of them is not thought of.
    """
    distinct = list(dict.fromkeys(names))
    size = 16
    while len(distinct) > _LOAD * size:
        size *= 2
    return sorted(distinct, key=lambda name: _spread(name) % size)


def _spread(name: str | None) -> int:
    if name is None:
        return 0
    units = name.encode("utf-16-be", "surrogatepass")
    code = 0
    for index in range(0, len(units), 2):
        code = (code * 31 + int.from_bytes(units[index : index + 2], "big")) & 0xFFFFFFFF
    return code ^ (code >> 16)
