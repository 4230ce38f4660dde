"""Finds an expression anywhere in a text, with its groups, and replaces what it finds.

Expressions are those of ``regular_expressions``; among several matches that begin at one place the one is
taken that Perl and Java would take. It goes forward from a place and back where it failed, but never a second
time to a state at a place where it has been: the time grows with the expression times the text.

Invariant: pure. One call makes ``MAX_STEPS`` steps or few more, so nobody who writes an expression or a text
holds others up; TooMuchWork says that it would have been more.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from moldau.base.re2.character_classes import Characters
from moldau.base.re2.regular_expressions import (
    MAX_REMEMBERED,
    MAX_STATES,
    BadExpression,
    Choice,
    Edge,
    Group,
    Node,
    Reader,
    Repeat,
    Sequence,
    holds,
    side_of,
)

#: Less than half a second.
MAX_STEPS = 500_000

_CHARACTER, _SPLIT, _EDGE, _SAVE, _MATCH = range(5)
_REFERENCE = re.compile(r"\\(.)|\$(\d+)|\$\{(\w+)\}|([\\$])", re.DOTALL)


class TooMuchWork(Exception):
    """A search that would have taken too many steps."""


class Found(NamedTuple):
    """A match: where each group begins and ends, the whole first; -1 where a group took no part."""

    text: str
    places: tuple[int, ...]

    def group(self, number: int = 0) -> str | None:
        if not 0 <= number < len(self.places) // 2:
            raise IndexError(f"no group {number}")
        start, end = self.places[2 * number : 2 * number + 2]
        return None if start < 0 else self.text[start:end]


class _Known(dict[str, bool]):
    """Whether a character belongs to one of some sets, remembered."""

    def __init__(self, *sets: Characters) -> None:
        self.sets = sets

    def __missing__(self, character: str) -> bool:
        found = any(character in each for each in self.sets)
        if len(self) < MAX_REMEMBERED:
            self[character] = found
        return found


class Search:
    """An expression that is looked for; ``compile_search`` makes it."""

    def __init__(self, expression: str) -> None:
        reader = Reader(expression)
        node = reader.read()
        self._names = reader.names
        self._groups = reader.groups
        self._sets: dict[Characters, _Known] = {}
        #: What a state does, with what, and the state that follows.
        self._states: list[tuple[int, Any, int]] = [(_MATCH, None, 0)]
        self._start = self._before(Group(node, 0), 0)
        targets = Counter(to for state in self._states for to in _following(state))
        #: States that several lead to: only there can a search come twice to the same.
        self._joins = frozenset(each for each, count in targets.items() if count > 1)
        self._first = self._first_characters()

    def _add(self, kind: int, given: Any, following: int) -> int:
        if len(self._states) >= MAX_STATES:
            raise BadExpression("expression too large")
        self._states.append((kind, given, following))
        return len(self._states) - 1

    def _before(self, node: Node, following: int) -> int:
        """The state that takes a part and goes on to another."""
        match node:
            case Characters():
                return self._add(_CHARACTER, self._sets.setdefault(node, _Known(node)), following)
            case Edge():
                return self._add(_EDGE, node.kind, following)
            case Sequence():
                for part in reversed(node.parts):
                    following = self._before(part, following)
                return following
            case Choice():
                first, *others = (self._before(option, following) for option in node.options)
                return self._add(_SPLIT, tuple(others), first)
            case Group():
                end = self._add(_SAVE, 2 * node.number + 1, following)
                return self._add(_SAVE, 2 * node.number, self._before(node.part, end))
            case Repeat():
                return self._before_repeat(node, following)

    def _before_repeat(self, node: Repeat, following: int) -> int:
        end = following
        if node.most is None:
            following = self._add(_SPLIT, (), 0)
            self._states[following] = self._either(self._before(node.part, following), end, node)
        else:
            for _ in range(node.most - node.least):
                kind, given, to = self._either(self._before(node.part, following), end, node)
                following = self._add(kind, given, to)
        for _ in range(node.least):
            before = self._before(node.part, following)
            if before == following:
                break  # a part of nothing stays that, however often
            following = before
        return following

    def _either(self, again: int, end: int, node: Repeat) -> tuple[int, Any, int]:
        return (_SPLIT, (again,), end) if node.is_lazy else (_SPLIT, (end,), again)

    def _first_characters(self) -> _Known | None:
        """What a match may begin with; None where it may be empty."""
        seen, todo, sets = {self._start}, [self._start], set()
        while todo:
            state = self._states[todo.pop()]
            if state[0] == _MATCH:
                return None
            if state[0] == _CHARACTER:
                sets.update(state[1].sets)
                continue
            others = {*_following(state)} - seen
            seen |= others
            todo += others
        return _Known(*sets)

    # --- looking --------------------------------------------------------------------------------

    def first(self, text: str) -> Found | None:
        return next(self.all(text), None)

    def all(self, text: str) -> Iterator[Found]:
        """Every match, each behind the one before; an empty one may follow a match, as in Java."""
        left, at = MAX_STEPS, 0
        while at <= len(text):
            places, left = self._from(text, at, left)
            if places is None:
                return
            yield Found(text, tuple(places))
            at = places[1] + (places[0] == places[1])

    def _from(self, text: str, at: int, left: int) -> tuple[list[int] | None, int]:
        """The first match that begins there or later, and how many steps may still be made."""
        been: set[int] = set()
        first = self._first
        for begin in range(at, len(text) + 1):
            if first is None or (begin < len(text) and first[text[begin]]):
                places, left = self._at(text, begin, been, left)
                if places is not None:
                    return places, left
        return None, left

    def _at(self, text: str, at: int, been: set[int], left: int) -> tuple[list[int] | None, int]:
        states, joins, size, length = self._states, self._joins, len(self._states), len(text)
        places = [-1] * (2 * self._groups + 2)
        todo = [(self._start, at)]
        while todo:
            state, at = todo.pop()
            if state < 0:  # the way back: a group is again where it was
                places[~state] = at
                continue
            while True:
                if state in joins:
                    if left < 0:
                        raise TooMuchWork(f"more than {MAX_STEPS} steps")
                    place = at * size + state
                    if place in been:
                        break
                    been.add(place)
                left -= 1
                kind, given, following = states[state]
                if kind == _CHARACTER:
                    if at == length or not given[text[at]]:
                        break
                    at += 1
                elif kind == _SPLIT:
                    todo += ((other, at) for other in reversed(given))
                elif kind == _SAVE:
                    todo.append((~given, places[given]))
                    places[given] = at
                elif kind == _MATCH:
                    return places, left
                elif not holds(given, side_of(text[max(at - 1, 0) : at]), side_of(text[at : at + 1])):
                    break
                state = following
        return None, left

    # --- replacing ------------------------------------------------------------------------------

    def replace(self, text: str, by: str) -> str:
        """With every match replaced; ``$1`` and ``${name}`` are groups, ``\\$`` is a dollar."""
        parts, end = [], 0
        for found in self.all(text):
            parts += [text[end : found.places[0]], self._filled(by, found)]
            end = found.places[1]
        return "".join((*parts, text[end:]))

    def _filled(self, by: str, found: Found) -> str:
        def part(reference: re.Match[str]) -> str:
            plain, number, name, alone = reference.groups()
            if alone is not None:
                raise ValueError(f"{alone} alone has no meaning in {by!r}")
            if plain is not None:
                return str(plain)
            if name is not None:
                return found.group(self._names[name]) or ""
            end = 1  # as many digits as make the number of a group
            while end < len(number) and int(number[: end + 1]) <= self._groups:
                end += 1
            return (found.group(int(number[:end])) or "") + number[end:]

        return _REFERENCE.sub(part, by)


def _following(state: tuple[int, Any, int]) -> tuple[int, ...]:
    kind, given, following = state
    return () if kind == _MATCH else (following, *given) if kind == _SPLIT else (following,)


@lru_cache(maxsize=256)
def compile_search(expression: str) -> Search:
    """The search for an expression; BadExpression when it is none."""
    return Search(expression)
