"""Answers with JSON or binary records, written the quick way: the records of a batch in one go.

What is unusual is left to the general way of ``Proxy.renders``, one record at a time.

Pure. Invariant: the texts are those of the general way, to the letter.
"""

import json
from binascii import b2a_base64

import orjson

from moldau.rest.consumers.reader import Ready
from moldau.rest.formats import Format

#: Of one call, so that other requests have a turn.
_MOST = 200


def plain_texts(form: Format, at_hand: Ready, max_bytes: int) -> tuple[list[str], int]:
    """The records at hand as v2 shows them, as many as fit and can be read; and the bytes of their data."""
    front = f'{{"topic":{json.dumps(at_hand.batch.topic)},"key":'
    middle = f',"partition":{at_hand.batch.partition},"offset":'
    shown = _json if form is Format.JSON else _base64
    texts: list[str] = []
    size = 0
    try:
        for offset, _, key, value, _ in at_hand.records[at_hand.begin : at_hand.begin + _MOST]:
            more = size
            if key is not None:
                more += len(key)
                key_text = shown(key)
            else:
                key_text = "null"
            if value is not None:
                more += len(value)
                value_text = shown(value)
            else:
                value_text = "null"
            if more > max_bytes:
                break
            texts.append(f'{front}{key_text},"value":{value_text}{middle}{offset}}}')
            size = more
    except ValueError:
        pass  # the general way says what is wrong with it, or that nothing is
    return texts, size


def _json(data: bytes) -> str:
    orjson.loads(data)
    return data.decode()


def _base64(data: bytes) -> str:
    return f'"{b2a_base64(data, newline=False).decode("ascii")}"'
