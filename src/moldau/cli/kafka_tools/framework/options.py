"""Options as Kafka's own tools take them.

    KINDS = Options(
        Option("topic", "The topic to read.", "topic"),
        Option("max-messages", "Stop after so many.", "count", int),
        Option("from-beginning", "Start at the first record."),
    )
    given = KINDS.parse(["--topic", "orders", "--from-beginning"])
    given.value("topic"), given.has("from-beginning"), given.values("property")

The rules are those of the option library that Kafka's tools use, because scripts rely on them: ``--name
value``, ``--name=value`` and ``-name value`` mean the same; a required value is the next argument, whatever
it looks like; an optional value is the next argument unless that looks like an option; names cannot be
abbreviated; arguments that belong to no option are in ``rest``. Numbers are parsed when a tool asks for the
value, so that other mistakes are reported first.

Pure. A mistake is an ``OptionError`` with the message of Kafka's tools.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Kind = type[str] | type[int] | type[float]


class OptionError(Exception):
    """A mistake in the command line; ``with_usage`` says whether the tool prints its usage as well."""

    def __init__(self, message: str, *, with_usage: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.with_usage = with_usage


@dataclass(frozen=True, slots=True)
class Option:
    """One option; ``argument`` names its value in the usage, and is None for a flag."""

    name: str
    help: str
    argument: str | None = None
    kind: Kind = str
    default: Any = None
    #: The value may be left out.
    optional: bool = False
    #: All arguments up to the next option are values.
    several: bool = False
    #: A short name of one letter.
    letter: str = ""
    #: Accepted, but not shown in the usage: names of older versions.
    hidden: bool = False


class Given:
    """The options that were given on a command line."""

    def __init__(
        self,
        options: dict[str, Option],
        found: dict[str, list[str]],
        rest: list[str],
        order: Sequence[str] = (),
    ) -> None:
        self._options = options
        self._found = found
        self.rest = rest
        #: The names of all options as they came, each as often as it did.
        self.order = tuple(order)

    def has(self, name: str) -> bool:
        return name in self._found

    def value(self, name: str) -> Any:
        """The one value of an option, or its default; OptionError when there are several or it is bad."""
        option = self._options[name]
        values = self._found.get(name, [])
        if len(values) > 1:
            raise OptionError(
                f"Found multiple arguments for option {name}, but you asked for only one", with_usage=False
            )
        return _convert(option, values[0]) if values else option.default

    def values(self, name: str) -> list[str]:
        """All values that were given for an option, in their order."""
        return list(self._found.get(name, []))


class Options:
    """The options of a tool."""

    def __init__(self, *options: Option) -> None:
        self.options = options
        self._by_name = {option.name: option for option in options}
        self._by_letter = {option.letter: option for option in options if option.letter}

    def parse(self, arguments: Sequence[str]) -> Given:
        found: dict[str, list[str]] = {}
        rest: list[str] = []
        order: list[str] = []
        left = list(arguments)
        while left:
            word = left.pop(0)
            if word == "--":
                rest += left
                break
            if not looks_like_an_option(word):
                rest.append(word)
                continue
            name, equals, value = word.lstrip("-").partition("=")
            option = self._by_name.get(name) or (self._by_letter.get(name) if word[1] != "-" else None)
            if option is None:
                raise OptionError(f"{name} is not a recognized option")
            order.append(option.name)
            _take(option, found.setdefault(option.name, []), [value] if equals else None, left)
        return Given(self._by_name, found, rest, order)


def looks_like_an_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-"


def _take(option: Option, values: list[str], joined: list[str] | None, left: list[str]) -> None:
    """Moves the arguments that are values of this option out of ``left``."""
    if option.argument is None:
        return
    if joined is not None:
        values += joined
    elif option.several:
        if not left or looks_like_an_option(left[0]):
            raise OptionError(f"Option {option.name} requires an argument")
        while left and not looks_like_an_option(left[0]):
            values.append(left.pop(0))
    elif option.optional:
        if left and (not looks_like_an_option(left[0]) or _is_number(option, left[0])):
            values.append(left.pop(0))
    elif left:
        values.append(left.pop(0))
    else:
        raise OptionError(f"Option {option.name} requires an argument", with_usage=False)


def _is_number(option: Option, word: str) -> bool:
    if option.kind is str:
        return False
    try:
        option.kind(word)
    except ValueError:
        return False
    return True


def _convert(option: Option, word: str) -> Any:
    try:
        return option.kind(word)
    except ValueError:
        raise OptionError(
            f"Cannot parse argument '{word}' of option {option.name}", with_usage=False
        ) from None


# What most tools check, with the messages of Kafka's tools --------------------------------------------------


def require(given: Given, *names: str) -> None:
    for name in names:
        if not given.has(name):
            raise OptionError(f'Missing required argument "[{name}]"')


def exactly_one(given: Given, *names: str) -> None:
    if sum(given.has(name) for name in names) != 1:
        listed = ", ".join(f"[{name}]" for name in names)
        raise OptionError(f"Exactly one of the following arguments is required: {listed}")


def refuse_with(given: Given, name: str, others: Iterable[str]) -> None:
    """Refuses ``name`` together with any of the others."""
    if given.has(name):
        for other in others:
            if given.has(other):
                raise OptionError(f'Option "[{name}]" can\'t be used with option "[{other}]"')


def parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    """Reads ``key=value`` texts; one without "=" is a key with an empty value, as in Kafka's tools."""
    pairs = (text.partition("=") for text in texts)
    return {key: value for key, _, value in pairs}
