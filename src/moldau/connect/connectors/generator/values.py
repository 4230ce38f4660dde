"""Values by an Avro schema: at random, but the same ones for the same seed and number.

A type may say what its values are by ``arg.properties``: ``options`` (one of these), ``range`` with ``min``
and ``max``, or ``iteration`` with ``start`` and ``step``.

Invariant: pure; the record with a number is the same after every restart.
"""

import random
from decimal import Decimal
from typing import Any

from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct
from moldau.connect.data.types import INTEGERS, MILLIS_PER_DAY, Instant, Type
from moldau.connect.errors import ConfigException

_SYLLABLES = ("ba", "ko", "li", "ma", "ne", "po", "ra", "si", "tu", "vo")
_START_MS = 1_700_000_000_000


def _field(name: str, kind: str, **wish: Any) -> dict[str, Any]:
    return {"name": name, "type": {"type": kind, "arg.properties": wish}}


def _one_of(name: str, word: str, numbers: range) -> dict[str, Any]:
    return _field(name, "string", options=[f"{word}_{number}" for number in numbers])


_PAST = {"min": 1_487_715_775_521, "max": 1_519_273_364_600}
_FIELDS = {
    "users": [
        _field("registertime", "long", range=_PAST),
        _one_of("userid", "User", range(1, 10)),
        _one_of("regionid", "Region", range(1, 10)),
        _field("gender", "string", options=["MALE", "FEMALE", "OTHER"]),
    ],
    "pageviews": [
        _field("viewtime", "long", iteration={"start": 1, "step": 10}),
        _one_of("userid", "User", range(1, 10)),
        _one_of("pageid", "Page", range(10, 100)),
    ],
    "orders": [
        _field("ordertime", "long", range=_PAST),
        _field("orderid", "int", iteration={"start": 0}),
        _one_of("itemid", "Item", range(1, 10)),
        _field("orderunits", "double", range={"min": 0.1, "max": 10.0}),
    ],
}
#: Schemas by the names that tutorials have for them.
QUICKSTARTS: dict[str, dict[str, Any]] = {
    name: {"type": "record", "name": name, "fields": fields} for name, fields in _FIELDS.items()
}
_KEYS = {"users": "userid", "pageviews": "userid", "orders": "orderid"}


def quickstart_key(name: str) -> str:
    return _KEYS.get(name, "")


def value_at(schema: Schema, node: Any, seed: int, number: int) -> object:
    """The value with this number. ``node`` is the Avro schema, which has the wishes."""
    return _value(schema, node, random.Random(f"{seed}/{number}"), number)


def _value(schema: Schema, node: Any, chance: random.Random, number: int) -> object:
    if isinstance(node, list):
        others = [each for each in node if each != "null"]
        if len(others) < len(node) and chance.random() < 0.1:
            return None
        return _value(schema, others[0], chance, number)
    if isinstance(node, dict) and isinstance(node.get("type"), dict | list) and "fields" not in node:
        return _value(schema, node["type"], chance, number)
    wishes = node.get("arg.properties", {}) if isinstance(node, dict) else {}
    if wishes:
        return _wished(schema, wishes, chance, number)
    if schema.type is Type.STRUCT:
        fields = {each["name"]: each["type"] for each in node["fields"]}
        made = Struct(schema)
        for field in schema.fields:
            made.put(field.name, _value(field.schema, fields[field.name], chance, number))
        return made
    if schema.type is Type.ARRAY:
        assert schema.values is not None
        return [_value(schema.values, node["items"], chance, number) for _ in range(chance.randrange(4))]
    if schema.type is Type.MAP:
        assert schema.values is not None
        keys = {_word(chance) for _ in range(chance.randrange(4))}
        return {key: _value(schema.values, node["values"], chance, number) for key in sorted(keys)}
    if isinstance(node, dict) and node.get("type") == "enum":
        return chance.choice(node["symbols"])
    return _single(schema, chance)


def _single(schema: Schema, chance: random.Random) -> object:
    if schema.name == DECIMAL:
        scale = int((schema.parameters or {}).get("scale", "0"))
        return Decimal(chance.randrange(10**8)).scaleb(-scale)
    if schema.name == TIMESTAMP:
        return Instant(_START_MS + chance.randrange(10**9))
    if schema.name == DATE:
        return Instant((_START_MS // MILLIS_PER_DAY + chance.randrange(1000)) * MILLIS_PER_DAY)
    if schema.name == TIME:
        return Instant(chance.randrange(MILLIS_PER_DAY))
    width = INTEGERS.get(schema.type)
    if width is not None:
        return width(chance.randrange(2 ** (width.bits - 1)))
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return round(chance.random() * 1000, 3)
    if schema.type is Type.BOOLEAN:
        return chance.random() < 0.5
    return chance.randbytes(8) if schema.type is Type.BYTES else _word(chance)


def _wished(schema: Schema, wishes: dict[str, Any], chance: random.Random, number: int) -> object:
    if "options" in wishes:
        return chance.choice(wishes["options"])
    if "iteration" in wishes:
        wish = wishes["iteration"]
        return wish.get("start", 0) + wish.get("step", 1) * number
    if "range" in wishes:
        low, high = wishes["range"].get("min", 0), wishes["range"].get("max", 100)
        if schema.type in (Type.FLOAT32, Type.FLOAT64):
            return low + chance.random() * (high - low)
        return chance.randint(int(low), int(high))
    raise ConfigException(
        f"The generator does not know {', '.join(wishes)}; known: options, range, iteration"
    )


def _word(chance: random.Random) -> str:
    return "".join(chance.choice(_SYLLABLES) for _ in range(3))
