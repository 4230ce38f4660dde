"""JAAS lines: ``org.apache.kafka…PlainLoginModule required username="ada" password="secret";``

Invariant: only the options are read; the name of the module is compared with known ones where that matters
and never loaded. No error shows a value, because values are secrets.
"""

import re
from typing import NamedTuple

_OPTION = re.compile(r"""([\w.\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_ESCAPE = re.compile(r"\\(.)")


class LoginModule(NamedTuple):
    name: str
    options: dict[str, str]


def parse_jaas(text: str) -> LoginModule:
    """The module of a line and its options; ValueError when it is no such line."""
    words = text.split(None, 2)
    if len(words) < 2 or words[1].rstrip(";") not in ("required", "requisite", "sufficient", "optional"):
        raise ValueError("a JAAS line reads: <login module> required <option>=<value> …;")
    return LoginModule(words[0], jaas_options(text))


def jaas_options(text: str) -> dict[str, str]:
    """The options of a line, without their quotes."""
    options = {}
    for name, double, single, bare in _OPTION.findall(text):
        options[name] = _ESCAPE.sub(r"\1", double or single) or bare
    return options


def plain_users(text: str) -> dict[str, str]:
    """Passwords by user, from the ``user_<name>`` options of a broker's PlainLoginModule."""
    return {
        name.removeprefix("user_"): value
        for name, value in parse_jaas(text).options.items()
        if name.startswith("user_")
    }
