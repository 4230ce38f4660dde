"""What v2 answers to records that were produced: the place or the error of each, as values and as text.

Pure. Invariant: the text is that of the values, as JSON without spaces.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.rest import problems
from moldau.rest.plain_answers import consecutive_numbers
from moldau.rest.producing import Outcome, Written
from moldau.web.routes import Text

_END = ',"error_code":null,"error":null}'


def offset(outcome: Outcome) -> dict[str, Any]:
    if not isinstance(outcome, KafkaError):
        return {"partition": outcome.partition, "offset": outcome.offset, "error_code": None, "error": None}
    if outcome.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        problem = problems.partition_not_found()
    else:
        problem = problems.from_kafka(outcome, v2=True)
    code = problem.code
    if problem.code not in (40301, 40402):
        code = problems.KAFKA_RETRIABLE_ERROR if outcome.retriable else problems.KAFKA_ERROR
    return {"partition": None, "offset": None, "error_code": code, "error": problem.message}


def answer_text(offsets: Iterable[str]) -> Text:
    """The whole answer to records without a schema."""
    return Text(f'{{"offsets":[{",".join(offsets)}],"key_schema_id":null,"value_schema_id":null}}')


def offset_text(outcome: Outcome) -> str:
    if isinstance(outcome, KafkaError):
        return json.dumps(offset(outcome), separators=(",", ":"))
    return f'{{"partition":{outcome.partition},"offset":{outcome.offset}{_END}'


def offset_texts(written: Sequence[Written], count: int) -> list[str]:
    """Those of all ``count`` records, in their order; neighbours may share a text, with commas in it."""
    if len(written) == 1 and not isinstance(written[0].outcome, KafkaError):
        front = _front(written[0])
        return [f"{front}{_numbers(written[0]).replace(',', f'{_END},{front}')}{_END}"]
    texts = [""] * count
    for each in written:
        if isinstance(each.outcome, KafkaError):
            shown = [offset_text(each.outcome)] * len(each.places)
        else:
            front = _front(each)
            shown = [f"{front}{number}{_END}" for number in _numbers(each).split(",")]
        for place, text in zip(each.places, shown, strict=True):
            texts[place] = text
    return texts


def _front(written: Written) -> str:
    return f'{{"partition":{written.partition},"offset":'


def _numbers(written: Written) -> str:
    """The offsets of records that travelled together, with commas; -1 for each where nobody knows."""
    first, count = written.outcome, len(written.places)
    assert not isinstance(first, KafkaError)
    return consecutive_numbers(first, count) if first >= 0 else ",".join(["-1"] * count)
