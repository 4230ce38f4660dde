"""Regular expressions by the rules of RE2: no look-around, no back-references, linear in time.

An expression is read into a program of states that is run over all of its possible states at once, so that no
expression makes the broker search for ever. Characters that all sets of an expression treat alike are one to
it, and the steps that were made once are remembered.

Invariant: an expression has to match the whole text. What RE2 refuses is refused with its words; a program
that would grow too large is refused too.
"""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from moldau.base.re2.character_classes import (
    ANY,
    ANY_BUT_NEWLINE,
    PERL,
    POSIX,
    UNICODE,
    Characters,
    Range,
)

#: Names have at most 249 characters; a useful expression has not many more states.
MAX_STATES = 4_000
MAX_LENGTH = 16_000
MAX_REPEAT = 1_000
#: Steps that are remembered, and characters that are known; beyond that they are looked at again.
MAX_REMEMBERED = 10_000
MAX_DEPTH = 150

_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}


class BadExpression(Exception):
    """What RE2 would say of the expression."""


class Edge(NamedTuple):
    """A place between characters: the ``begin`` or the ``end`` of the text or of a ``line``, the border of a
    ``word``, or none of those (``inside``)."""

    kind: str


class Sequence(NamedTuple):
    parts: tuple["Node", ...]


class Choice(NamedTuple):
    options: tuple["Node", ...]


class Repeat(NamedTuple):
    part: "Node"
    least: int
    #: None for as often as one likes.
    most: int | None
    #: Whether a search takes as few as will do. For a match of the whole text that is all the same.
    is_lazy: bool = False


class Group(NamedTuple):
    """A part whose place a search remembers."""

    part: "Node"
    number: int


Node = Characters | Edge | Sequence | Choice | Repeat | Group


# --- reading ------------------------------------------------------------------------------------


class Reader:
    """Reads an expression; afterwards ``groups`` and ``names`` say what its groups are."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise BadExpression("expression too large")
        self.text = text
        self.position = 0
        #: The flags that hold: i (case does not matter), s (a point is a newline too), m (lines have edges).
        self.flags: frozenset[str] = frozenset()
        self.depth = 0
        self.groups = 0
        #: The numbers of groups that have a name.
        self.names: dict[str, int] = {}

    def read(self) -> Node:
        node = self._choice()
        if self.position < len(self.text):  # only a parenthesis ends a choice early
            raise BadExpression("regexp/syntax: internal error")
        return node

    def _starts(self, text: str) -> bool:
        return self.text.startswith(text, self.position)

    def _take(self) -> str:
        if self.position >= len(self.text):
            raise BadExpression("trailing backslash at end of expression")
        self.position += 1
        return self.text[self.position - 1]

    def _choice(self) -> Node:
        flags = self.flags
        options = [self._sequence()]
        while self._starts("|"):
            self.position += 1
            options.append(self._sequence())
        self.flags = flags
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        repeated = False
        while self.position < len(self.text) and self.text[self.position] not in "|)":
            bounds = self._repetition()
            if bounds is None:
                # RE2/J counts a brace that begins no count as a repetition, when a true one follows.
                repeated = self._starts("{")
                parts += self._atom()
                continue
            if repeated:
                raise BadExpression("invalid nested repetition operator")
            if not parts:
                raise BadExpression("missing argument to repetition operator")
            parts[-1] = Repeat(parts[-1], *bounds)
            repeated = True
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repetition(self) -> tuple[int, int | None, bool] | None:
        character = self.text[self.position]
        bounds: tuple[int, int | None] | None = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(character)
        if bounds is not None:
            self.position += 1
        elif character == "{":
            bounds = self._counts()
        if bounds is None:
            return None
        is_short = self._starts("?")
        self.position += is_short
        return *bounds, is_short != ("U" in self.flags)

    def _counts(self) -> tuple[int, int | None] | None:
        """``{2}``, ``{2,}`` or ``{2,5}``; anything else is a brace like any other character."""
        end = self.text.find("}", self.position)
        least, comma, most = self.text[self.position + 1 : max(end, 0)].partition(",")
        if end < 0 or not _is_count(least) or (most and not _is_count(most)):
            return None
        low = int(least)
        high = low if not comma else int(most) if most else None
        if low > MAX_REPEAT or (high is not None and not low <= high <= MAX_REPEAT):
            raise BadExpression("invalid repeat count")
        self.position = end + 1
        return low, high

    def _atom(self) -> list[Node]:
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return [self._class()]
        if character == ".":
            return [ANY if "s" in self.flags else ANY_BUT_NEWLINE]
        if character in "^$":
            place = "begin" if character == "^" else "end"
            return [Edge(f"{place} of line" if "m" in self.flags else place)]
        if character == "\\":
            return self._escape()
        return [self._literal(character)]

    def _literal(self, character: str) -> Characters:
        return self._cased(Characters(((character, character),)))

    def _cased(self, characters: Characters) -> Characters:
        return replace(characters, ignore_case=True) if "i" in self.flags else characters

    # --- groups ---------------------------------------------------------------------------------

    def _group(self) -> list[Node]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise BadExpression("expression nests too deeply")
        flags, number = self.flags, None
        if self._starts("?P<") or self._starts("?<"):
            number = self._name()
        elif not self._starts("?"):
            number = self._next_group()
        elif not self._flags():
            self.depth -= 1
            return []  # flags for the rest of the group around it; a repetition is of what stands before
        node = self._choice()
        if not self._starts(")"):
            raise BadExpression("missing closing )")
        self.position += 1
        self.flags = flags
        self.depth -= 1
        return [node if number is None else Group(node, number)]

    def _next_group(self) -> int:
        self.groups += 1
        return self.groups

    def _name(self) -> int:
        start = self.text.index("<", self.position) + 1
        end = self.text.find(">", start)
        name = self.text[start : max(end, start)]
        if end < 0 or not name or not all(each in PERL["w"] for each in name):
            raise BadExpression("invalid named capture")
        if name in self.names:
            raise BadExpression("duplicate capture group name")
        self.names[name] = number = self._next_group()
        self.position = end + 1
        return number

    def _flags(self) -> bool:
        """Reads ``?i-s:`` or ``?i)``; True when a group follows."""
        self.position += 1
        value, seen = True, False
        while self.position < len(self.text):
            character = self._take()
            if character in "ismU":
                seen = True
                self.flags = self.flags | {character} if value else self.flags - {character}
            elif character == "-" and value:
                value, seen = False, False
            elif character in ":)" and (value or seen):
                return character == ":"
            else:
                break
        raise BadExpression("invalid or unsupported Perl syntax")

    # --- escapes --------------------------------------------------------------------------------

    def _escape(self) -> list[Node]:
        character = self._take()
        edge = {"A": "begin", "z": "end", "b": "word", "B": "inside"}.get(character)
        if edge is not None:
            return [Edge(edge)]
        if character == "Q":
            end = self.text.find("\\E", self.position)
            quoted = self.text[self.position : None if end < 0 else end]
            self.position = len(self.text) if end < 0 else end + 2
            return [self._literal(each) for each in quoted]
        return [self._named_class(character) or self._literal(self._escaped(character))]

    def _named_class(self, character: str) -> Characters | None:
        if character.lower() in PERL:
            found = self._cased(PERL[character.lower()])
            return found if character.islower() else found.opposite()
        if character not in "pP":
            return None
        name = self._take()
        if name == "{":
            end = self.text.find("}", self.position)
            if end < 0:
                raise BadExpression("invalid character class range")
            name = self.text[self.position : end]
            self.position = end + 1
        negated = (character == "P") != name.startswith("^")
        name = name.removeprefix("^")
        if name not in UNICODE:
            raise BadExpression("invalid character class range")
        found = self._cased(UNICODE[name])
        return found.opposite() if negated else found

    def _escaped(self, character: str) -> str:
        """The character behind an escape that stands for one."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        if not (character.isascii() and character.isalnum()):
            return character
        if character in "01234567":
            return self._octal(character)
        if character == "x":
            return self._hexadecimal()
        raise BadExpression("invalid escape sequence")

    def _octal(self, digits: str) -> str:
        following = self.text[self.position : self.position + 1]
        if digits != "0" and (not following or following not in "01234567"):
            raise BadExpression("invalid escape sequence")  # a back-reference
        while len(digits) < 3 and (following := self.text[self.position : self.position + 1]):
            if following not in "01234567":
                break
            digits += following
            self.position += 1
        return chr(int(digits, 8))

    def _hexadecimal(self) -> str:
        if self._starts("{"):
            end = self.text.find("}", self.position)
            digits = self.text[self.position + 1 : max(end, 0)]
            self.position = end + 1
        else:
            digits = self.text[self.position : self.position + 2]
            self.position += 2
            end = 0 if len(digits) == 2 else -1
        if end < 0 or not 0 < len(digits) <= 8 or not all(each in POSIX["xdigit"] for each in digits):
            raise BadExpression("invalid escape sequence")
        code = int(digits, 16)
        if code > 0x10FFFF:
            raise BadExpression("invalid escape sequence")
        return chr(code)

    # --- classes --------------------------------------------------------------------------------

    def _class(self) -> Characters:
        negated = self._starts("^")
        self.position += negated
        ranges: list[Range] = []
        inner: list[Characters] = []
        first = True
        while first or not self._starts("]"):
            if self.position >= len(self.text):
                raise BadExpression("missing closing ]")
            first = False
            item = self._class_item()
            if isinstance(item, Characters):
                inner.append(item)
            else:
                ranges.append(item)
        self.position += 1
        return self._cased(Characters(tuple(ranges), tuple(inner), negated=negated))

    def _class_item(self) -> Characters | Range:
        if self._starts("[:") and (end := self.text.find(":]", self.position)) >= 0:
            name = self.text[self.position + 2 : end]
            found = POSIX.get(name.removeprefix("^"))
            if found is None:
                raise BadExpression("invalid character class range")
            self.position = end + 2
            return found.opposite() if name.startswith("^") else found
        if self._starts("\\"):
            following = self.text[self.position + 1 : self.position + 2]
            if following.lower() in ("d", "w", "s", "p"):
                self.position += 2
                named = self._named_class(following)
                assert named is not None
                return named
        low = self._class_character()
        if not self._starts("-") or self._starts("-]") or self.position + 1 >= len(self.text):
            return low, low
        self.position += 1
        high = self._class_character()
        if high < low:
            raise BadExpression("invalid character class range")
        return low, high

    def _class_character(self) -> str:
        if self.position >= len(self.text):
            raise BadExpression("missing closing ]")
        character = self._take()
        return self._escaped(self._take()) if character == "\\" else character


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


# --- running ------------------------------------------------------------------------------------


#: Nothing, the end of a line, something of a word, anything else: what edges see of a character.
_NOTHING, _NEWLINE, _IN_WORD, _OTHER = "", "newline", "word", "other"


class Kind(NamedTuple):
    """Everything that matters of a character: what edges see of it, and which sets have it, as bits."""

    side: str
    sets: int


class Program:
    """States with their ways: by one character of a set, or by none if a condition on the place holds."""

    def __init__(self, node: Node) -> None:
        #: By state: the number of a set, and where a character of it leads.
        self._by_character: list[tuple[int, int] | None] = []
        self._free: list[list[tuple[str | None, int]]] = []
        self._sets: dict[Characters, int] = {}
        start, self._end = self._state(), self._state()
        self._build(node, start, self._end)
        self._start = frozenset((start,))
        self._kinds: dict[str, Kind] = {}
        self._remembered: dict[tuple[frozenset[int], str, Kind], frozenset[int]] = {}

    def _state(self) -> int:
        if len(self._free) >= MAX_STATES:
            raise BadExpression("expression too large")
        self._free.append([])
        self._by_character.append(None)
        return len(self._free) - 1

    def _build(self, node: Node, start: int, end: int) -> None:
        if isinstance(node, Characters):
            inner = self._state()
            self._free[start].append((None, inner))
            self._by_character[inner] = (self._sets.setdefault(node, len(self._sets)), end)
        elif isinstance(node, Edge):
            self._free[start].append((node.kind, end))
        elif isinstance(node, Sequence):
            for part in node.parts:
                following = self._state()
                self._build(part, start, following)
                start = following
            self._free[start].append((None, end))
        elif isinstance(node, Choice):
            for option in node.options:
                self._build(option, start, end)
        elif isinstance(node, Group):
            self._build(node.part, start, end)
        else:
            self._build_repeat(node, start, end)

    def _build_repeat(self, node: Repeat, start: int, end: int) -> None:
        for _ in range(node.least):
            following = self._state()
            self._build(node.part, start, following)
            start = following
        if node.most is None:
            loop = self._state()
            self._free[start].append((None, loop))
            self._free[loop].append((None, end))
            self._build(node.part, loop, loop)
            return
        for _ in range(node.most - node.least):
            self._free[start].append((None, end))
            following = self._state()
            self._build(node.part, start, following)
            start = following
        self._free[start].append((None, end))

    def matches(self, text: str) -> bool:
        states, before = self._start, _NOTHING
        for character in text:
            kind = self._kind(character)
            states = self._step(states, before, kind)
            if not states:
                return False
            before = kind.side
        return self._end in self._reached(states, before, _NOTHING)

    def _kind(self, character: str) -> Kind:
        found = self._kinds.get(character)
        if found is None:
            sets = sum(1 << number for each, number in self._sets.items() if character in each)
            found = Kind(side_of(character), sets)
            if len(self._kinds) < MAX_REMEMBERED:
                self._kinds[character] = found
        return found

    def _step(self, states: frozenset[int], before: str, kind: Kind) -> frozenset[int]:
        key = (states, before, kind)
        found = self._remembered.get(key)
        if found is None:
            ways = (self._by_character[state] for state in self._reached(states, before, kind.side))
            found = frozenset(way[1] for way in ways if way is not None and kind.sets >> way[0] & 1)
            if len(self._remembered) < MAX_REMEMBERED:
                self._remembered[key] = found
        return found

    def _reached(self, states: frozenset[int], before: str, after: str) -> set[int]:
        """All states that need no character, at the place between two characters."""
        reached, todo = set(states), list(states)
        while todo:
            for condition, state in self._free[todo.pop()]:
                if state not in reached and (condition is None or holds(condition, before, after)):
                    reached.add(state)
                    todo.append(state)
        return reached


def side_of(character: str) -> str:
    """What edges see of a character; an empty text is where the text ends."""
    if not character:
        return _NOTHING
    return _NEWLINE if character == "\n" else _IN_WORD if character in PERL["w"] else _OTHER


def holds(condition: str, before: str, after: str) -> bool:
    if condition == "begin":
        return before == _NOTHING
    if condition == "end":
        return after == _NOTHING
    if condition == "begin of line":
        return before in (_NOTHING, _NEWLINE)
    if condition == "end of line":
        return after in (_NOTHING, _NEWLINE)
    return ((before == _IN_WORD) != (after == _IN_WORD)) == (condition == "word")


@lru_cache(maxsize=256)
def compile_expression(text: str) -> Program:
    """The program of an expression; BadExpression when it is none."""
    return Program(Reader(text).read())
