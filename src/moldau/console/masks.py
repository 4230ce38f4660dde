"""Rules that hide fields of records: what nobody shall see is replaced before anything is shown.

    customers*:value.card            the field card of the values of topics whose names fit
    *:value.*.password               a field at any place below the value, at depth two
    payments:key                     whole keys
    *:headers.authorization          a header; its name may have dots, as that of a field may

Invariant: masking comes before filters, downloads and everything else, so that a filter cannot find out what
it hides. A record that could not be decoded is hidden whole where any rule is about that part of it. Pure.
"""

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

HIDDEN = "•••"
_PARTS = ("key", "value", "headers")


@dataclass(frozen=True, slots=True)
class Mask:
    """Which topics, which part of a record, and the steps to the field; no step is the whole part."""

    topics: str
    part: str
    steps: tuple[str, ...] = ()

    def concerns(self, topic: str) -> bool:
        return fnmatch.fnmatchcase(topic, self.topics)


def parse_mask(text: str) -> Mask:
    """ValueError where it is no rule."""
    topics, colon, place = text.strip().partition(":")
    part, dot, rest = place.partition(".")
    # A header has no fields: all that follows is its name.
    steps = [] if not dot else [rest] if part == "headers" else rest.split(".")
    if not colon or not topics or part not in _PARTS or any(not step for step in steps):
        raise ValueError(f"{text!r} is no mask: it has the form TOPICS:value.field, :key or :headers.name")
    return Mask(topics, part, tuple(steps))


class Masks:
    def __init__(self, masks: Iterable[Mask]) -> None:
        self._masks = tuple(masks)

    def of(self, topic: str) -> "TopicMasks":
        return TopicMasks([mask for mask in self._masks if mask.concerns(topic)])

    def hide_as_much(self, topic: str, of: str) -> bool:
        """Whether all that is hidden of one topic is hidden of another, which has the same records."""
        return all(mask.concerns(topic) for mask in self._masks if mask.concerns(of))


class TopicMasks:
    """The rules of one topic."""

    def __init__(self, masks: list[Mask]) -> None:
        self._masks = masks

    @property
    def hides_anything(self) -> bool:
        return bool(self._masks)

    def hides_part(self, part: str) -> bool:
        """Whether the raw bytes of a part may not be shown, as something in it is hidden."""
        return any(mask.part == part for mask in self._masks)

    def header(self, name: str, text: str) -> str:
        rules = (mask.steps for mask in self._masks if mask.part == "headers")
        return HIDDEN if any(not steps or fnmatch.fnmatchcase(name, steps[0]) for steps in rules) else text

    def applied(self, part: str, value: Any) -> Any:
        """The part without what is hidden; the given value is not changed."""
        for mask in self._masks:
            if mask.part == part:
                value = _hidden(value, mask.steps)
        return value


def _hidden(value: Any, steps: tuple[str, ...], *, top: bool = True) -> Any:
    if value is None:
        return None
    if not steps:
        return HIDDEN
    if isinstance(value, list):  # a rule goes through lists: their items have the fields
        return [_hidden(each, steps, top=top) for each in value]
    if isinstance(value, Mapping):
        return {name: _field(str(name), each, steps) for name, each in value.items()}
    # A whole value that has no fields, though one is to be hidden, could hold anything.
    return HIDDEN if top else value


def _field(name: str, value: Any, steps: tuple[str, ...]) -> Any:
    """Several steps together may be one name that has dots."""
    for count in range(1, len(steps) + 1):
        if fnmatch.fnmatchcase(name, ".".join(steps[:count])):
            value = _hidden(value, steps[count:], top=False)
    return value
