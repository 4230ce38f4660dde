"""Rules for the names of new topics: the broker's own, and those of the people who run the console.

Pure. The broker's rules are told before it is asked, so that the form can say what is wrong; the rule of the
people (``--topic-pattern``) is kept by the console alone.
"""

import re
from collections.abc import Iterable

from moldau.base.names import collision_key, topic_name_error


def name_problem(
    name: str, existing: Iterable[str], pattern: str | None = None, rule: str = ""
) -> str | None:
    """Why a topic cannot be made under this name, in words; None where it can."""
    wrong = topic_name_error(name)
    if wrong is not None:
        return f"The name cannot be used: {wrong}."
    names = set(existing)
    if name in names:
        return f"There is a topic {name} already."
    key = collision_key(name)
    same = sorted(each for each in names if collision_key(each) == key)
    if same:
        return f"The name is too close to {same[0]}: dots and underscores are the same in names of metrics."
    if name.startswith("__"):
        return "Names that begin with two underscores are the cluster's own."
    if pattern is not None and re.fullmatch(pattern, name) is None:
        return f"Names of topics here {rule}." if rule else f"Names of topics here have to match {pattern}."
    return None
