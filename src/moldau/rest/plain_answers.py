"""Answers with JSON or binary records, written the quick way: the records of a batch in one go.

What is unusual is left to the general way of ``Proxy.renders``, one record at a time.

Pure. Invariant: the texts are those of the general way, to the letter.
"""

import json
from binascii import b2a_base64
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import accumulate
from typing import Any

import orjson

from moldau.protocol.payload import Record
from moldau.rest.consumers.instance import Shown
from moldau.rest.consumers.reader import Ready
from moldau.rest.formats import Format

#: Of one call, so that other requests have a turn.
_MOST = 200


def plain_texts(form: Format, at_hand: Ready, max_bytes: int) -> Shown:
    """The records at hand as v2 shows them, as many as fit and can be read."""
    front = _front(at_hand.batch.topic)
    middle = f',"partition":{at_hand.batch.partition},"offset":'
    begin = at_hand.begin
    if at_hand.values is not None:
        values, size = _fitting(at_hand.values[begin : begin + _MOST], max_bytes)
        if not values:
            return Shown("", 0, 0)
        try:
            shown = _json_values(values) if form is Format.JSON else map(_base64, values)
            text = _joined(shown, len(values), f'{front}null,"value":', middle, at_hand.offset(begin))
            return Shown(text, len(values), size)
        except ValueError:
            pass  # one of them cannot be read: the others are found one by one
    texts = _json_texts if form is Format.JSON else _binary_texts
    found, size = texts(at_hand.records[begin : begin + _MOST], front, middle, max_bytes)
    return Shown(",".join(found), len(found), size)


def consecutive_numbers(first: int, count: int) -> str:
    """Numbers with commas between them, in less time than one by one."""
    return orjson.dumps(list(range(first, first + count)))[1:-1].decode()


@lru_cache(1000)
def _front(topic: str) -> str:
    return f'{{"topic":{json.dumps(topic)},"key":'


# Values alone ------------------------------------------------------------------------------------------


def _fitting(values: list[bytes], max_bytes: int) -> tuple[list[bytes], int]:
    """The first values that are not larger together, and how large they are."""
    ends = list(accumulate(map(len, values)))
    if ends[-1] <= max_bytes:
        return values, ends[-1]
    count = bisect_right(ends, max_bytes)
    return values[:count], ends[count - 1] if count else 0


def _json_values(values: list[bytes]) -> Iterable[str]:
    """ValueError where one is no JSON."""
    deque(map(orjson.loads, values), maxlen=0)
    return map(bytes.decode, values)


def _joined(values: Iterable[str], count: int, front: str, middle: str, offset: int) -> str:
    """Records at consecutive offsets, with commas between them."""
    pieces = [middle] * (4 * count)
    pieces[0::4] = [f"}},{front}"] * count
    pieces[1::4] = values
    pieces[3::4] = consecutive_numbers(offset, count).split(",")
    pieces[0] = front
    pieces.append("}")
    return "".join(pieces)


# Records with keys, and those before one that cannot be read -------------------------------------------


def _json_texts(
    records: list[Record],
    front: str,
    middle: str,
    max_bytes: int,
    loads: Callable[[bytes], Any] = orjson.loads,
) -> tuple[list[str], int]:
    texts: list[str] = []
    size = 0
    try:
        for offset, _, key, value, _ in records:
            more = size
            key_text = value_text = "null"
            if key is not None:
                loads(key)
                key_text = key.decode()
                more += len(key)
            if value is not None:
                loads(value)
                value_text = value.decode()
                more += len(value)
            if more > max_bytes:
                break
            texts.append(f'{front}{key_text},"value":{value_text}{middle}{offset}}}')
            size = more
    except ValueError:
        pass  # the general way says what is wrong with it, or that nothing is
    return texts, size


def _binary_texts(records: list[Record], front: str, middle: str, max_bytes: int) -> tuple[list[str], int]:
    texts: list[str] = []
    size = 0
    for offset, _, key, value, _ in records:
        size += len(key or b"") + len(value or b"")
        if size > max_bytes:
            return texts, size - len(key or b"") - len(value or b"")
        texts.append(f'{front}{_base64(key)},"value":{_base64(value)}{middle}{offset}}}')
    return texts, size


def _base64(data: bytes | None) -> str:
    return "null" if data is None else f'"{b2a_base64(data, newline=False).decode("ascii")}"'
