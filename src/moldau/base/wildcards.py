"""Patterns with wildcards: ``kafka.*`` in names of MBeans, ``a_c%`` after LIKE.

Invariant: what was found of a pattern is never looked for again further on, so that no pattern takes more
time than its length times that of the text. Whoever writes patterns may mean no good.
"""

import re
from functools import lru_cache


@lru_cache(maxsize=256)
def compile_wildcards(pattern: str, many: str, one: str) -> re.Pattern[str]:
    """For ``fullmatch``; ``many`` is the wildcard for any text, ``one`` that for one character."""
    first, *rest = (
        "".join("." if each == one else re.escape(each) for each in piece) for piece in pattern.split(many)
    )
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    found = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)
