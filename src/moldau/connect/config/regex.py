"""Regular expressions of Java, run by Python's engine, and replacements as Java's matchers make them.

Both engines agree on nearly everything that people write for the names of topics. What differs in writing is
translated; what Java refuses is refused, for common mistakes in its words.
"""

import re
import sys
import unicodedata
from functools import lru_cache

from moldau.connect.errors import IllegalArgumentException, IndexOutOfBoundsException

_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"""!-/:-@\[-`{-~""",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "Graph": "!-~",
    "Print": " -~",
}
_ALPHABETIC = ("L", "Nl")


@lru_cache(maxsize=256)
def compile_java(pattern: str) -> "re.Pattern[str]":
    """The expression for Python, or IllegalArgumentException with what Java says of it."""
    try:
        return re.compile(_translated(pattern), re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise IllegalArgumentException(_complaint(pattern, str(error))) from error


def _translated(pattern: str) -> str:
    out: list[str] = []
    position = depth = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            piece, position = _escape(pattern, position, depth > 0)
            out.append(piece)
            continue
        if character == "[":
            # A class inside of a class is a union with it.
            out.append("[" if depth == 0 else "")
            depth += 1
        elif character == "]" and depth:
            depth -= 1
            out.append("]" if depth == 0 else "")
        elif depth == 0:
            piece, position = _outside_of_classes(pattern, position)
            out.append(piece)
            continue
        else:
            out.append(character)
        position += 1
    if depth:
        raise IllegalArgumentException(_located("Unclosed character class", pattern, len(pattern) - 1))
    return "".join(out)


def _outside_of_classes(pattern: str, position: int) -> tuple[str, int]:
    """What stands at a place that is in no class, as Python writes it, and where the pattern goes on."""
    if pattern.startswith("(?<", position) and pattern[position + 3 : position + 4] not in ("=", "!"):
        if not re.match("[A-Za-z]", pattern[position + 3 : position + 4]):
            what = "capturing group name does not start with a Latin letter"
            raise IllegalArgumentException(_located(what, pattern, position + 3))
        return "(?P<", position + 3
    if pattern[position] == "{":
        return _counted(pattern, position)
    return pattern[position], position + 1


def _counted(pattern: str, position: int) -> tuple[str, int]:
    count = re.match(r"\{(\d+)(?:,(\d*))?", pattern[position:])
    if count is None:
        raise IllegalArgumentException(_located("Illegal repetition", pattern, position + 1))
    end = position + count.end()
    if pattern[end : end + 1] != "}":
        raise IllegalArgumentException(_located("Unclosed counted closure", pattern, end))
    if count[2] and int(count[2]) < int(count[1]):
        raise IllegalArgumentException(_located("Illegal repetition range", pattern, end))
    return pattern[position : end + 1], end + 1


def _escape(pattern: str, position: int, in_class: bool) -> tuple[str, int]:
    named = re.match(r"\\([pP])(?:\{(?:Is)?(\w+)\}|(\w))", pattern[position:])
    if named is not None:
        end = position + named.end()
        inner = _characters(named[2] or named[3])
        if inner is None:
            what = f"Unknown character property name {{{named[2] or named[3]}}}"
            raise IllegalArgumentException(_located(what, pattern, end - 1))
        if in_class and named[1] == "p":
            return inner, end
        return (f"[{inner}]" if named[1] == "p" else f"[^{inner}]"), end
    if pattern.startswith("\\Q", position):
        end = pattern.find("\\E", position)
        quoted = pattern[position + 2 : end if end >= 0 else len(pattern)]
        return re.escape(quoted), (end + 2 if end >= 0 else len(pattern))
    two = pattern[position : position + 2]
    replaced = {"\\z": r"\Z", "\\Z": r"(?=\n?\Z)", "\\h": r"[ \t\xa0]", "\\R": r"(?:\r\n|[\n\x0b\f\r])"}
    if len(two) < 2:
        raise IllegalArgumentException(_located("Unexpected internal error", pattern, len(pattern)))
    if two == "\\k":
        group = re.match(r"\\k<(\w+)>", pattern[position:])
        if group is None:
            what = "\\k is not followed by '<' for named capturing group"
            raise IllegalArgumentException(_located(what, pattern, position + 2))
        return f"(?P={group[1]})", position + group.end()
    return replaced.get(two, two), position + 2


@lru_cache(maxsize=32)
def _characters(name: str) -> str | None:
    """The characters of a class by its name, as they stand between brackets; None if there is none."""
    if name in _POSIX:
        return _POSIX[name]
    categories = _ALPHABETIC if name == "Alphabetic" else (name,)
    inside = [unicodedata.category(chr(code)).startswith(categories) for code in range(sys.maxunicode + 1)]
    edges = [code for code in range(len(inside)) if inside[code] != (code > 0 and inside[code - 1])]
    if not edges:
        return None
    edges += [len(inside)] if len(edges) % 2 else []
    return "".join(
        f"\\U{low:08x}-\\U{after - 1:08x}" for low, after in zip(edges[::2], edges[1::2], strict=True)
    )


def _complaint(pattern: str, reason: str) -> str:
    """Java's message for a pattern that is not valid."""
    found = re.search(r"at position (\d+)", reason)
    at = int(found[1]) if found else 0
    if "missing ), unterminated" in reason:
        return _located("Unclosed group", pattern, len(pattern))
    if "nothing to repeat" in reason or "multiple repeat" in reason:
        character = pattern[at] if at < len(pattern) else "*"
        return _located(f"Dangling meta character '{character}'", pattern, at)
    if "unterminated character set" in reason:
        return _located("Unclosed character class", pattern, len(pattern) - 1)
    if "unbalanced parenthesis" in reason:
        return _located("Unmatched closing ')'", pattern, at - 1)
    if "missing -, : or )" in reason or "unknown extension" in reason:
        return _located("Unknown inline modifier", pattern, len(pattern))
    if "bad character range" in reason:
        return _located("Illegal character range", pattern, at + 2)
    return _located(reason.split(" at position")[0].capitalize(), pattern, at)


def _located(what: str, pattern: str, index: int) -> str:
    place = f" near index {index}" if index >= 0 else ""
    caret = f"\n{' ' * index}^" if 0 <= index < len(pattern) else ""
    return f"{what}{place}\n{pattern}{caret}"


def replace_first(pattern: "re.Pattern[str]", text: str, replacement: str) -> str:
    """``text`` with the first match replaced; ``$1`` and ``${name}`` stand for groups, a backslash for
    nothing."""
    match = pattern.search(text)
    if match is None:
        return text
    return text[: match.start()] + _expanded(match, replacement) + text[match.end() :]


def _expanded(match: "re.Match[str]", replacement: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(replacement):
        character = replacement[position]
        position += 1
        if character == "\\":
            if position == len(replacement):
                raise IllegalArgumentException("character to be escaped is missing")
            out.append(replacement[position])
            position += 1
        elif character == "$":
            group, position = _group(match, replacement, position)
            out.append(group)
        else:
            out.append(character)
    return "".join(out)


def _group(match: "re.Match[str]", replacement: str, position: int) -> tuple[str, int]:
    """The text of the group that is named after a dollar, and where the replacement goes on."""
    if position == len(replacement):
        raise IllegalArgumentException("Illegal group reference: group index is missing")
    if replacement[position] == "{":
        named = re.match(r"\{([A-Za-z0-9]+)\}", replacement[position:])
        if named is None:
            raise IllegalArgumentException("named capturing group is missing trailing '}'")
        if named[1][0].isdigit():
            raise IllegalArgumentException(f"capturing group name {{{named[1]}}} starts with digit character")
        if named[1] not in match.re.groupindex:
            raise IllegalArgumentException(f"No group with name {{{named[1]}}}")
        return match[named[1]] or "", position + named.end()
    if not ("0" <= replacement[position] <= "9"):
        raise IllegalArgumentException("Illegal group reference")
    number = int(replacement[position])
    position += 1
    if number > match.re.groups:
        raise IndexOutOfBoundsException(f"No group {number}")
    while position < len(replacement) and "0" <= replacement[position] <= "9":
        longer = number * 10 + int(replacement[position])
        if longer > match.re.groups:
            break
        number = longer
        position += 1
    return match[number] or "", position
