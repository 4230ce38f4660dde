"""Patterns with ``*`` and ``?``, as people and MBeans write them.

Invariant: a pattern never costs more than the length of the text times its question marks, whatever others
have written into the text: stars do not multiply. Pure.
"""

#: What callers should take at most of those that cost something.
MAX_QUESTION_MARKS = 20


def like(text: str, pattern: str) -> bool:
    """Whether all of a text fits a pattern: ``*`` is any number of characters, ``?`` is one."""
    first, *others = pattern.split("*")
    if not others:
        return len(text) == len(pattern) and _place_of(text, pattern, 0, len(text)) == 0
    last = others.pop()
    place, end = len(first), len(text) - len(last)
    if place > end or _place_of(text, first, 0, place) < 0 or _place_of(text, last, end, len(text)) < 0:
        return False
    # The first place of each part leaves most room to those behind it: no other has to be tried.
    for part in others:
        place = _place_of(text, part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True


def _place_of(text: str, part: str, begin: int, end: int) -> int:
    """Where a part without stars stands first between two places; -1 where it does not."""
    if "?" not in part:
        return text.find(part, begin, end)
    pieces: list[tuple[int, str]] = []
    at = 0
    for piece in part.split("?"):
        if piece:
            pieces.append((at, piece))
        at += len(piece) + 1
    for place in range(begin, end - len(part) + 1):
        if all(text.startswith(piece, place + at) for at, piece in pieces):
            return place
    return -1
