"""Errors for users come out bare; mistakes of our own keep every frame."""

import traceback
from collections.abc import Iterator

import pytest

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.options import OptionError
from moldau.spark.query.user_errors import shorten_user_errors


def _deep(depth: int, error: Exception) -> None:
    if depth:
        _deep(depth - 1, error)
    try:
        raise ConnectionError("below")
    except ConnectionError:
        raise error  # noqa: B904 (the context is what is left out)


@shorten_user_errors
def _whole(error: Exception) -> None:
    _deep(20, error)


@shorten_user_errors
def _pieces(error: Exception) -> Iterator[int]:
    yield 1
    _deep(20, error)


def _shown(error: BaseException) -> list[str]:
    return "".join(traceback.format_exception(error)).splitlines()


@pytest.mark.parametrize(
    "error", [OptionError("wrong"), KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "wrong")]
)
def test_one_sentence(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOLDAU_TRACEBACK", raising=False)
    with pytest.raises(type(error), match="wrong") as raised:
        _whole(error)
    assert len(_shown(raised.value)) < 12
    with pytest.raises(type(error), match="wrong") as raised:
        list(_pieces(error))
    assert len(_shown(raised.value)) < 12


def test_everything_on_request_and_for_mistakes_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOLDAU_TRACEBACK", raising=False)
    with pytest.raises(KeyError) as raised:
        _whole(KeyError("ours"))
    assert len(_shown(raised.value)) > 20
    monkeypatch.setenv("MOLDAU_TRACEBACK", "1")
    with pytest.raises(OptionError) as told:
        _whole(OptionError("wrong"))
    assert len(_shown(told.value)) > 20


def test_what_is_right_passes_through() -> None:
    assert list(shorten_user_errors(lambda: iter([1, 2]))()) == [1, 2]
