"""Answers with JSON or binary records, written the quick way: the records of a batch in one go.

What is unusual is left to the general way of ``Proxy.renders``, one record at a time.

Pure. Invariant: the texts are those of the general way, to the letter.
"""

import json
from binascii import b2a_base64
from collections.abc import Callable
from typing import Any

import orjson

from moldau.protocol.payload import Record
from moldau.rest.consumers.reader import Ready
from moldau.rest.formats import Format

#: Of one call, so that other requests have a turn.
_MOST = 200


def plain_texts(form: Format, at_hand: Ready, max_bytes: int) -> tuple[list[str], int]:
    """The records at hand as v2 shows them, as many as fit and can be read; and the bytes of their data."""
    front = f'{{"topic":{json.dumps(at_hand.batch.topic)},"key":'
    middle = f',"partition":{at_hand.batch.partition},"offset":'
    shown = _json_texts if form is Format.JSON else _binary_texts
    return shown(at_hand.records[at_hand.begin : at_hand.begin + _MOST], front, middle, max_bytes)


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
