"""Answers of the transaction coordinator in the words that each kind of client knows.

Invariant: values only.
"""

from collections.abc import Iterable
from typing import Any

from moldau.base.names import TopicPartition
from moldau.coordinators.machine import Reply, Step, Token
from moldau.protocol.errors import ErrorCode


def answer(token: Token, response: Any) -> Step:
    return Step(replies=(Reply(token, response),))


def answer_write(token: Token, partitions: Iterable[TopicPartition], code: ErrorCode) -> Step:
    return Step(replies=(write_reply(token, partitions, code),))


def write_reply(token: Token, partitions: Iterable[TopicPartition], code: ErrorCode) -> Reply:
    """Writers of records know a fenced epoch by another name than users of the coordinator."""
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return Reply(token, dict.fromkeys(partitions, code))


def fenced_in_words_of(version: int, since: int, code: ErrorCode) -> ErrorCode:
    """Clients of versions before ``since`` do not know PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
