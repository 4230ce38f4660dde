"""Texts read as values: numbers, booleans, dates, and lists and maps of them, as headers hold them.

A text that is nothing else is a text. Numbers get the narrowest type that holds them.

Invariant: linear in the text but for what nesting costs, and nesting has a bound.
"""

from decimal import Decimal

from moldau.connect.data.dates import DateFormat
from moldau.connect.data.numbers import parse_decimal, scale_of, trim
from moldau.connect.data.schema import (
    DATE,
    NOTHING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaAndValue,
    array,
    date,
    decimal,
    map_of,
    time,
    timestamp,
)
from moldau.connect.data.text import ISO_DATE, ISO_TIME, ISO_TIMESTAMP
from moldau.connect.data.types import Float32, Float64, Instant, Int8, Int16, Int32, Int64, Sized, Type
from moldau.connect.data.values import convert
from moldau.connect.errors import DataException, NumberFormatException

MAX_DEPTH = 100

_STRING = Schema(Type.STRING)
_BOOLEAN = Schema(Type.BOOLEAN)
_WIDTHS: tuple[tuple[type[Sized], Schema], ...] = (
    (Int8, Schema(Type.INT8)),
    (Int16, Schema(Type.INT16)),
    (Int32, Schema(Type.INT32)),
    (Int64, Schema(Type.INT64)),
)
_NUMBERS = [Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64]
_TEMPORAL: dict[int, tuple[Schema, DateFormat]] = {
    10: (date(), ISO_DATE),
    13: (time(), ISO_TIME),
    24: (timestamp(), ISO_TIMESTAMP),
}
_DELIMITERS = frozenset(':,{}[]"')


def parse(text: str | None, whole: bool = False) -> SchemaAndValue | None:
    """The value of a text, or None for the word null.

    Kafka takes the number at the beginning of ``1,2`` for all of it, and ``2024-99-99`` for a date. With
    ``whole`` such texts stay texts.
    """
    if text is None:
        return NOTHING
    if not text:
        return SchemaAndValue(_STRING, text)
    tokens = _Tokens(text, whole)
    parsed = _value(tokens, embedded=False, depth=0)
    if whole and tokens.has_next() and tokens.rest().strip():
        return SchemaAndValue(_STRING, text)
    return parsed


class _Tokens:
    """The tokens of a text: single delimiters, and what lies between them."""

    def __init__(self, text: str, whole: bool) -> None:
        self.text = text
        #: Whether dates have to be written as they would be written out.
        self.whole = whole
        self._position = 0
        self._peeked: str | None = None

    def mark(self) -> int:
        return self._position - (len(self._peeked) if self._peeked is not None else 0)

    def rewind(self, position: int) -> None:
        self._position = position
        self._peeked = None

    def has_next(self) -> bool:
        return self._peeked is not None or self._position < len(self.text)

    def rest(self) -> str:
        return self.text[self.mark() :]

    def next(self) -> str:
        if self._peeked is not None:
            token, self._peeked = self._peeked, None
            return token
        return self._read()

    def next_four(self) -> str | None:
        """The text of four tokens, or None if there are not as many."""
        start = self.mark()
        for _ in range(4):
            if not self.has_next():
                self.rewind(start)
                return None
            self.next()
        return self.text[start : self._position]

    def accept(self, expected: str) -> bool:
        """Takes the next token if it is ``expected``, blanks around it left out."""
        if self._peeked is None:
            if not self.has_next():
                return False
            self._peeked = self._read()
        while not trim(self._peeked) and self._position < len(self.text):
            self._peeked = self._read()
        if trim(self._peeked) != expected:
            return False
        self._peeked = None
        return True

    def _read(self) -> str:
        start = self._position
        escaped = False
        while self._position < len(self.text):
            character = self.text[self._position]
            if character == "\\":
                escaped = not escaped
            elif character in _DELIMITERS and not escaped:
                if start == self._position:
                    self._position += 1
                break
            else:
                escaped = False
            self._position += 1
        return self.text[start : self._position]


def _value(tokens: _Tokens, embedded: bool, depth: int) -> SchemaAndValue | None:
    if not tokens.has_next():
        return None
    if embedded and tokens.accept('"'):
        return _quoted(tokens)
    if _word(tokens, embedded, "null"):
        return None
    for word, boolean in (("true", True), ("false", False)):
        if _word(tokens, embedded, word):
            return SchemaAndValue(_BOOLEAN, boolean)
    start = tokens.mark()
    try:
        if depth < MAX_DEPTH:
            if tokens.accept("["):
                return _list(tokens, depth + 1)
            if tokens.accept("{"):
                return _map(tokens, depth + 1)
    except DataException:  # neither a list nor a map after all
        tokens.rewind(start)
    token = tokens.next()
    if not trim(token):
        return SchemaAndValue(_STRING, token)
    return _single(tokens, trim(token), embedded)


def _word(tokens: _Tokens, embedded: bool, word: str) -> bool:
    """Takes a word that stands for a value; outside of lists and maps it must be all that there is."""
    start = tokens.mark()
    if tokens.accept(word) and (embedded or not tokens.has_next()):
        return True
    tokens.rewind(start)
    return False


def _quoted(tokens: _Tokens) -> SchemaAndValue:
    taken: list[str] = []
    while tokens.has_next() and not tokens.accept('"'):
        taken.append(tokens.next())
    content = "".join(taken)
    parsed = parse(content, tokens.whole)
    if parsed is not None and parsed.schema is not None and parsed.schema.name in (DATE, TIME, TIMESTAMP):
        return parsed
    return SchemaAndValue(_STRING, content)


def _single(tokens: _Tokens, token: str, embedded: bool) -> SchemaAndValue:
    if token[0].isdecimal():
        found = _temporal_of_many(tokens, token)
        if found is not None:
            return found
    if token[0].isdecimal() or token[0] in "+-":
        try:
            return _number(parse_decimal(token))
        except NumberFormatException:
            pass
    if embedded:
        raise DataException("Failed to parse embedded value")
    return SchemaAndValue(_STRING, tokens.text)


def _temporal_of_many(tokens: _Tokens, token: str) -> SchemaAndValue | None:
    """A time has colons, which are tokens of their own: five tokens may be one time, or one token a date."""
    start = tokens.mark()
    remainder = tokens.next_four()
    if remainder is not None:
        found = _temporal(token + remainder, tokens.whole)
        if found is not None:
            return found
    tokens.rewind(start)
    return _temporal(token, tokens.whole)


def _temporal(token: str, whole: bool) -> SchemaAndValue | None:
    token = token.replace("\\:", ":")
    known = _TEMPORAL.get(len(token))
    if known is None:
        return None
    schema, pattern = known
    millis = pattern.parse_prefix(token)
    if millis is None or (whole and pattern.format(millis) != token):
        return None
    return SchemaAndValue(schema, Instant(millis))


def _number(number: Decimal) -> SchemaAndValue:
    scale = scale_of(number)
    if number == 0 or (scale > -30 and number == number.to_integral_value()):
        whole = int(number) if number else 0
        for width, schema in _WIDTHS:
            if width.holds(whole):
                return SchemaAndValue(schema, width(whole))
    infinite = float("inf")
    single = Float32(number)
    if abs(single) != infinite and scale != 0:
        return SchemaAndValue(Schema(Type.FLOAT32), single)
    double = float(number)
    if abs(double) != infinite and scale != 0:
        return SchemaAndValue(Schema(Type.FLOAT64), Float64(double))
    return SchemaAndValue(decimal(scale), number)


# --- lists and maps ---------------------------------------------------------------------------------


class _Common:
    """The schema that all values seen so far share, while there is one."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._open = True

    def add(self, parsed: SchemaAndValue | None) -> None:
        if parsed is None or parsed.schema is None or not self._open:
            return
        if self.schema is None:
            self.schema = parsed.schema
        else:
            self.schema = _merged(self.schema, parsed.schema)
            self._open = self.schema is not None


def _merged(one: Schema, other: Schema) -> Schema | None:
    """A schema for values of both: numbers widen, other types must be the same."""
    if one.type is other.type:
        return other
    if one.type in _NUMBERS and other.type in _NUMBERS:
        return max(one, other, key=lambda schema: _NUMBERS.index(schema.type))
    return None


def _list(tokens: _Tokens, depth: int) -> SchemaAndValue:
    items: list[object] = []
    common = _Common()
    while tokens.has_next():
        if tokens.accept("]"):
            if common.schema is None:
                return SchemaAndValue(Schema(Type.ARRAY), items)
            schema = common.schema
            return SchemaAndValue(array(schema), [convert(schema, None, item) for item in items])
        if tokens.accept(","):
            raise DataException(f"Unable to parse an empty array element: {tokens.text}")
        item = _value(tokens, embedded=True, depth=depth)
        common.add(item)
        items.append(None if item is None else item.value)
        start = tokens.mark()
        if tokens.accept("]"):
            tokens.rewind(start)
        elif not tokens.accept(","):
            raise DataException("Array elements missing ',' delimiter")
    raise DataException(f"Array is missing terminating ']': {tokens.text}")


def _map(tokens: _Tokens, depth: int) -> SchemaAndValue:
    entries: dict[object, object] = {}
    keys, values = _Common(), _Common()
    while tokens.has_next():
        if tokens.accept("}"):
            return _map_of_entries(entries, keys.schema, values.schema)
        if tokens.accept(","):
            raise DataException(f"Unable to parse a map entry with no key or value: {tokens.text}")
        key = _value(tokens, embedded=True, depth=depth)
        if key is None or key.value is None:
            raise DataException(f"Map entry may not have a null key: {tokens.text}")
        if not tokens.accept(":"):
            raise DataException(f"Map entry is missing ':' in {tokens.text}")
        value = _value(tokens, embedded=True, depth=depth)
        entries[_hashable(key.value)] = None if value is None else value.value
        tokens.accept(",")
        keys.add(key)
        values.add(value)
    raise DataException(f"Map is missing terminating '}}': {tokens.text}")


def _map_of_entries(
    entries: dict[object, object], keys: Schema | None, values: Schema | None
) -> SchemaAndValue:
    if keys is None:
        return SchemaAndValue(Schema(Type.MAP), entries)
    aligned = {convert(keys, None, key): value for key, value in entries.items()}
    if values is None:
        return SchemaAndValue(Schema(Type.MAP, keys=keys), aligned)
    converted = {key: convert(values, None, value) for key, value in aligned.items()}
    return SchemaAndValue(map_of(keys, values), converted)


def _hashable(key: object) -> object:
    """A list as a key of a map; Python wants those not to change."""
    if isinstance(key, list):
        return tuple(_hashable(item) for item in key)
    if isinstance(key, dict):
        raise DataException("A map cannot be the key of a map")
    return key
