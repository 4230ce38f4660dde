"""Custom options that nothing declares: other registries keep them, protoc refuses to compile them.

    names = unknown_names(complaints)           # what protoc complains about
    text = with_unknown(text, names)            # compiles, and its descriptor carries the options as text

Each such option is handed to protoc as a string in an option of ours, declared in ``HELPER``, that holds its
source; whoever prints the descriptor prints that source again.

Invariant: pure. A text is rewritten only where such an option is, and one pass over it is enough.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

HELPER = "moldau/unknown_options.proto"
PACKAGE = "moldau.unknown"
#: Our options by what they are options of, and the message of descriptor.proto that each extends.
_TARGETS = {
    "file": "FileOptions",
    "message": "MessageOptions",
    "field": "FieldOptions",
    "oneof": "OneofOptions",
    "enum": "EnumOptions",
    "enum_value": "EnumValueOptions",
    "extension_range": "ExtensionRangeOptions",
    "service": "ServiceOptions",
    "method": "MethodOptions",
}
#: The highest number that a field may have, which nobody else takes.
_NUMBER = 536_870_911
HELPER_TEXT = "\n".join(
    [
        'syntax = "proto2";',
        f"package {PACKAGE};",
        'import "google/protobuf/descriptor.proto";',
        *(
            f"extend google.protobuf.{target} {{ repeated string {name} = {_NUMBER}; }}"
            for name, target in _TARGETS.items()
        ),
    ]
)
_UNKNOWN = re.compile(r'Option "(\([^"]+?\))[^"]*" unknown')
_TOKEN = re.compile(r"""\s+|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[A-Za-z0-9_.]+|.""", re.DOTALL)
#: What the braces after a statement that begins so hold.
_BLOCKS = {
    "message": "message",
    "enum": "enum",
    "oneof": "oneof",
    "service": "service",
    "rpc": "method",
    "extend": "extend",
}


def unknown_names(complaints: str) -> set[str]:
    """The names of options, in their parentheses, that protoc does not know."""
    return {match[1].replace(" ", "") for match in _UNKNOWN.finditer(complaints)}


def with_unknown(text: str, names: Collection[str]) -> str:
    """The text with these options as ours; as it is where it has none of them."""
    found = [option for option in _Reader(text).options() if option.name in names]
    if not found:
        return text
    for option in reversed(found):
        replaced = f'(.{PACKAGE}.{option.of}) = "{_escaped(option.source)}"'
        text = text[: option.start] + replaced + text[option.end :]
    return f'{text}\nimport "{HELPER}";\n'


def _escaped(text: str) -> str:
    return "".join(
        chr(each) if 32 <= each < 127 and each not in b"\"\\'" else f"\\{each:03o}" for each in text.encode()
    )


@dataclass(frozen=True, slots=True)
class _Option:
    """Where an option is in a text, from its name to the end of its value, and what it is an option of.

    ``source`` is that part of the text in one layout and without comments.
    """

    name: str
    of: str
    source: str
    start: int
    end: int


class _Reader:
    """Knows just enough of .proto files to find the options in them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.place = 0

    def options(self) -> Iterator[_Option]:
        blocks, words = ["file"], list[str]()
        while self.place < len(self.tokens):
            token = self._word(self.place)
            self.place += 1
            if token == "option" and not words:
                yield self._option(blocks[-1], ";")
            elif token == "[":
                yield from self._listed(blocks[-1], words)
            elif token == "{":
                blocks.append(next((_BLOCKS[word] for word in words if word in _BLOCKS), "message"))
                words = []
            elif token in ("}", ";"):
                words = []
                if token == "}" and len(blocks) > 1:
                    blocks.pop()
            else:
                words.append(token)

    def _listed(self, block: str, words: list[str]) -> Iterator[_Option]:
        of = "enum_value" if block == "enum" else "field"
        if words[:1] == ["extensions"]:
            of = "extension_range"
        while self.place < len(self.tokens):
            yield self._option(of, ",]")
            if self.place < len(self.tokens) and self._word(self.place) == "]":
                self.place += 1
                return
            self.place += 1

    def _option(self, of: str, ends: str) -> _Option:
        """The option that begins here; afterwards the place is that of the sign that ends it."""
        first = self.place
        depth = 0
        while self.place < len(self.tokens):
            token = self._word(self.place)
            if depth == 0 and token in ends:
                break
            depth += (token in "{[") - (token in "}]")
            self.place += 1
        words = [self._word(place) for place in range(first, self.place)]
        if not words:
            return _Option("", of, "", 0, 0)
        name = "".join(words[: words.index(")") + 1]) if ")" in words else ""
        return _Option(name, of, _laid_out(words), self.tokens[first][0], self.tokens[self.place - 1][1])

    def _word(self, place: int) -> str:
        start, end = self.tokens[place]
        return self.text[start:end]


def _laid_out(words: list[str]) -> str:
    """Words and signs with one space between them, but for signs that stand close."""
    found = ""
    for word in words:
        close = word in ")],:;" or word.startswith(".") or found.endswith(("(", "["))
        found += word if close or not found else f" {word}"
    return found


def _tokens(text: str) -> Iterator[tuple[int, int]]:
    """Where words, strings and signs are; what is white or a comment is passed over."""
    at = 0
    while at < len(text):
        if text.startswith("/*", at):
            end = text.find("*/", at + 2)
            at = len(text) if end < 0 else end + 2
            continue
        match = _TOKEN.match(text, at)
        assert match is not None
        found = match[0]
        if not found[0].isspace() and not found.startswith("//"):
            yield at, match.end()
        at = match.end()
