"""Java properties files, which Kafka's tools take with ``--command-config`` and the like.

Law: text in, a dict out, by the rules of ``java.util.Properties``: comments with ``#`` and ``!``, keys
that end at ``=``, ``:`` or white space, lines that go on after a backslash, and the escapes of Java.
"""

import re

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\r|\n")


def parse_properties(text: str) -> dict[str, str]:
    """The pairs of a file; of a key that stands twice the last value counts. ValueError for a bad escape."""
    return dict(_split(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    joined: str | None = None
    for raw in _LINE_END.split(text):
        line = raw.lstrip(" \t\f")
        if joined is None and (not line or line[0] in "#!"):
            continue
        joined = (joined or "") + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        lines.append(joined)
        joined = None
    if joined is not None:
        lines.append(joined)
    return lines


def _split(line: str) -> tuple[str, str]:
    at = 0
    while at < len(line) and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    value = line[at:].lstrip(" \t\f")
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(" \t\f")
    return _unescape(line[:at]), _unescape(value)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char != "\\" or at + 1 == len(text):
            out.append(char)
            at += 1
        elif text[at + 1] == "u":
            digits = text[at + 2 : at + 6]
            if re.fullmatch("[0-9a-fA-F]{4}", digits) is None:
                raise ValueError(f"\\u{digits} is no character: four hexadecimal digits are needed")
            out.append(chr(int(digits, 16)))
            at += 6
        else:
            out.append(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
    return "".join(out)
