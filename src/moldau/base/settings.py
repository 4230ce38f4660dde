"""How settings are declared: name, type, default, validator, documentation, and when they may change.

Parsing, validation, DescribeConfigs, the command line and ``docs/settings.md`` all read one declaration.
Errors have the wording of Kafka's broker, so that a search for the message finds Kafka's documentation.

Invariant: texts in, values out; no particular setting is known here. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Literal

#: When a setting may change: only at start, on one running broker, or on one broker or all of them.
Dynamic = Literal["static", "per-broker", "cluster-wide"]


class SettingType(IntEnum):
    """The types of settings, with their numbers in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BOOLEAN = SettingType.BOOLEAN
STRING = SettingType.STRING
INT = SettingType.INT
SHORT = SettingType.SHORT
LONG = SettingType.LONG
DOUBLE = SettingType.DOUBLE
LIST = SettingType.LIST
CLASS = SettingType.CLASS
PASSWORD = SettingType.PASSWORD


class Password:
    """A secret: compares by its text, but never prints it."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return HIDDEN


HIDDEN = "[hidden]"

Value = bool | int | float | str | tuple[str, ...] | Password | None


class SettingError(ValueError):
    """A value that a setting does not accept; the text names the setting, the value and what is allowed."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def invalid_value(name: str, value: Value, reason: str) -> SettingError:
    return SettingError(name, f"Invalid value {show(value)} for configuration {name}: {reason}")


def show(value: Value) -> str:
    """A value as Kafka's error messages print it."""
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return "null" if value is None else render(value)


# ------------------------------------------------------------------------------------------------ validators


class Validator:
    """What a setting accepts beyond its type; ``str()`` of it is shown in the documentation."""

    __slots__ = ()

    def check(self, name: str, value: Any) -> None:
        """SettingError when the value is not allowed."""
        raise NotImplementedError


class Range(Validator):
    """A number between two bounds, both included; no upper bound when ``maximum`` is None."""

    __slots__ = ("maximum", "minimum")

    def __init__(self, minimum: int | float, maximum: int | float | None = None) -> None:
        self.minimum = minimum
        self.maximum = maximum

    def check(self, name: str, value: Any) -> None:
        # "not >=" rather than "<", so that NaN is rejected too.
        if not value >= self.minimum:
            raise invalid_value(name, value, f"Value must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise invalid_value(name, value, f"Value must be no more than {self.maximum}")

    def __str__(self) -> str:
        return f"[{self.minimum},...]" if self.maximum is None else f"[{self.minimum},...,{self.maximum}]"


class RangeOr(Range):
    """A number between two bounds, or one special number outside of them."""

    __slots__ = ("other",)

    def __init__(self, minimum: int, maximum: int, other: int) -> None:
        super().__init__(minimum, maximum)
        self.other = other

    def check(self, name: str, value: Any) -> None:
        if value != self.other and not self.minimum <= value <= (self.maximum or 0):
            reason = f"Value must be between {self.minimum} and {self.maximum} or equal to {self.other}"
            raise invalid_value(name, value, reason)

    def __str__(self) -> str:
        return f"{super().__str__()} or {self.other}"


class OneOf(Validator):
    """One of a few strings."""

    __slots__ = ("choices", "ignore_case")

    def __init__(self, *choices: str, ignore_case: bool = False) -> None:
        self.choices = choices
        self.ignore_case = ignore_case

    def check(self, name: str, value: Any) -> None:
        if value in self.choices or (self.ignore_case and value.upper() in self.choices):
            return
        case = " (case insensitive)" if self.ignore_case else ""
        raise invalid_value(name, value, f"String must be one of{case}: {', '.join(self.choices)}")

    def __str__(self) -> str:
        return f"[{', '.join(self.choices)}]"


class Items(Validator):
    """A list whose items are not blank and, if there are choices, are among them."""

    __slots__ = ("choices", "may_be_empty")

    def __init__(self, *choices: str, may_be_empty: bool = True) -> None:
        self.choices = choices
        self.may_be_empty = may_be_empty

    def check(self, name: str, value: Any) -> None:
        if not value and not self.may_be_empty:
            include = str(self) if self.choices else "any non-empty value"
            raise SettingError(
                name, f"Configuration '{name}' must not be empty. Valid values include: {include}"
            )
        for item in value:
            if not item:
                raise SettingError(name, f"Configuration '{name}' values must not be empty.")
            if self.choices and item not in self.choices:
                raise invalid_value(name, item, f"String must be one of: {', '.join(self.choices)}")

    def __str__(self) -> str:
        if self.choices:
            return f"[{', '.join(self.choices)}]"
        return "" if self.may_be_empty else "non-empty list"


def at_least(minimum: int | float) -> Range:
    return Range(minimum)


def between(minimum: int | float, maximum: int | float) -> Range:
    return Range(minimum, maximum)


# ---------------------------------------------------------------------------------- declarations and tables


class Setting:
    """One declared setting.

    ``synonyms`` are settings of a wider scope whose value it takes when it has none of its own, in order of
    preference, each with the factor that converts the unit. An ``internal`` setting takes effect, but is
    shown only where it has been set. (A plain class, because hundreds are built whenever a process starts.)
    """

    __slots__ = ("default", "doc", "dynamic", "internal", "name", "synonyms", "type", "valid")

    def __init__(
        self,
        name: str,
        type: SettingType,
        default: Value,
        doc: str,
        valid: Validator | None = None,
        dynamic: Dynamic = "static",
        synonyms: tuple[tuple[str, int], ...] = (),
        internal: bool = False,
    ) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.doc = doc
        self.valid = valid
        self.dynamic = dynamic
        self.synonyms = synonyms
        self.internal = internal

    def __repr__(self) -> str:
        return f"Setting({self.name!r}, {self.type.name}, {show(self.default)})"

    @property
    def sensitive(self) -> bool:
        return self.type == PASSWORD

    def parse(self, text: str) -> Value:
        """The typed and validated value of a text; SettingError when it is not acceptable."""
        value = parse_value(self.name, self.type, text)
        if self.valid is not None:
            self.valid.check(self.name, value)
        return value

    def render(self, value: Value) -> str | None:
        """The text of a typed value, as DescribeConfigs shows it; None for a setting without one."""
        return None if value is None else render(value)


class SettingsTable(Mapping[str, Setting]):
    """Settings by name, in the order of their declaration, under the headings of the documentation."""

    __slots__ = ("_by_name", "sections")

    def __init__(self, sections: Mapping[str, Iterable[Setting]]) -> None:
        self.sections: dict[str, tuple[Setting, ...]] = {
            title: tuple(rows) for title, rows in sections.items()
        }
        self._by_name: dict[str, Setting] = {row.name: row for rows in self.sections.values() for row in rows}
        assert len(self._by_name) == sum(map(len, self.sections.values())), "a setting is declared once"

    def __getitem__(self, name: str) -> Setting:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def parse(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """Typed values of the known names, in the table's order; SettingError for the first invalid one."""
        return {name: setting.parse(texts[name]) for name, setting in self._by_name.items() if name in texts}


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to a misspelt one; None if there is none."""
    from difflib import get_close_matches  # slow to import, and needed only after a mistake

    found = get_close_matches(name, known, n=1, cutoff=0.75)
    return found[0] if found else None


# ----------------------------------------------------------------------------------- texts and typed values

#: What Java's ``trim`` removes: every character up to the space.
_BLANKS = "".join(map(chr, range(33)))

_BITS = {SHORT: 15, INT: 31, LONG: 63}


def parse_value(name: str, type: SettingType, text: str) -> Value:
    """The typed value of a text; SettingError when it is not of this type."""
    trimmed = text.strip(_BLANKS)
    if type in _BITS:
        number = _integer(trimmed, _BITS[type])
        if number is None:
            raise invalid_value(name, text, f"Not a number of type {type.name}")
        return number
    if type == BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise invalid_value(name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if type == DOUBLE:
        fraction = _double(trimmed)
        if fraction is None:
            raise invalid_value(name, text, "Not a number of type DOUBLE")
        return fraction
    if type == LIST:
        # Duplicates are dropped.
        return tuple(dict.fromkeys(item.strip(_BLANKS) for item in trimmed.split(","))) if trimmed else ()
    if type == PASSWORD:
        return Password(trimmed)
    return trimmed


def _integer(text: str, bits: int) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Converting thousands of digits is slow, and the result would be out of range anyway.
    if not digits.isdecimal() or len(digits) > 100:
        return None
    number = int(text)
    return number if -(1 << bits) <= number < 1 << bits else None


def _double(text: str) -> float | None:
    unsigned = text.lstrip("+-")
    if unsigned in ("NaN", "Infinity"):
        return float(text.replace("Infinity", "inf")) if len(text) - len(unsigned) < 2 else None
    # Python accepts more than Java (1_000, inf, nan), and Java accepts a type suffix.
    if unsigned[-1:] in tuple("dDfF"):
        text = text[:-1]
    if not text.isascii() or any(letter in "_nif " or letter < " " for letter in text.lower()):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def render(value: Value) -> str:
    """A value as text that parses to the same value, except for a password, which stays hidden."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _render_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _render_double(value: float) -> str:
    """As Java prints it: plain between a thousandth and ten million, with an exponent beyond."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        # repr() has no exponent up to 1e16, where Java has one from 1e7 on.
        sign, digits = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
        whole, _, fraction = digits.partition(".")
        exponent = str(len(whole) - 1) if whole != "0" else str(len(fraction.lstrip("0")) - len(fraction) - 1)
        figures = (whole + fraction).strip("0")
        mantissa = f"{sign}{figures[0]}.{figures[1:]}"
    point = "" if "." in mantissa else "."
    tail = "0" if mantissa.endswith(".") or point else ""
    return f"{mantissa}{point}{tail}E{int(exponent)}"


# ---------------------------------------------------------------------------------------- .properties files

_SPACES = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a Java ``.properties`` text; of a key that comes twice the last one counts."""
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_SPACES)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_SPACES)
        key = _unescape(line[:end], line)
        values[key] = _unescape(rest, line)
    return values


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank lines; those that a backslash continues are joined."""
    line = ""
    # Not splitlines(): only these three end a line in Java.
    for part in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        natural = part.lstrip(_SPACES)
        if not line and (not natural or natural[0] in "#!"):
            continue
        backslashes = len(natural) - len(natural.rstrip("\\"))
        continues = backslashes % 2 == 1
        line += natural[:-1] if continues else natural
        if not continues:
            yield line
            line = ""
    if line:
        yield line


def _end_of_key(line: str) -> int:
    escaped = False
    for index, character in enumerate(line):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "=: \t\f":
            return index
    return len(line)


def _unescape(text: str, line: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    characters = iter(text)
    for character in characters:
        if character != "\\":
            out.append(character)
            continue
        escaped = next(characters, "")
        if escaped != "u":
            out.append(_ESCAPES.get(escaped, escaped))
            continue
        digits = "".join(next(characters, "") for _ in range(4))
        if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            raise SettingError(line, f"Malformed \\uxxxx encoding in the line {line!r}")
        out.append(chr(int(digits, 16)))
    # A surrogate pair of two \u escapes is one character.
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
