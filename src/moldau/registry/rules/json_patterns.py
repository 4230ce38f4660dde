"""Whether a `patternProperties` pattern matches a property's name, answered only where asking is harmless.

A schema's pattern is a program of an unknown client: (a+)+ on a long name runs for ever. Only patterns
without groups and back references and with at most two repetitions are run, on short names; for all others
the answer is "may be", and the rules take both cases into account.
"""

import re

_MAX_PATTERN = 200
_MAX_NAME = 200
_REPEATS = re.compile(r"[*+?{]")


def _harmless(pattern: str) -> bool:
    if len(pattern) > _MAX_PATTERN or any(each in pattern for each in "()"):
        return False
    # ECMAScript's own escapes (\p, \u, \c) mean something else to Python, and \1 looks back.
    if re.search(r"\\[^dwsDWS.^$*+?{}\[\]|/_-]", pattern):
        return False
    # A set such as [a-z--b] is read differently by different engines.
    if "[[" in pattern or "--" in pattern or "&&" in pattern or "||" in pattern or "~~" in pattern:
        return False
    return len(_REPEATS.findall(pattern)) <= 2


def may_match(pattern: str, name: str) -> bool | None:
    """True or False where the answer is sure, None where it is not."""
    if len(name) > _MAX_NAME or not _harmless(pattern):
        return None
    # Line ends are where the engines differ.
    if "\n" in name or "\r" in name:
        return None
    try:
        return re.search(pattern, name, re.ASCII) is not None
    except re.error:
        return None
