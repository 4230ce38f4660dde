"""What a handler reads from a request: query and body as values, or a problem."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from moldau.web.authentication import ANONYMOUS
from moldau.web.call import Asked, Call
from moldau.web.limits import Limits
from moldau.web.problems import Problem
from moldau.web.routes import Matched, Route, flag, number, text


async def handler(call: Call) -> None:
    return None


QUERY = (flag("deleted"), number("offset"), number("limit"), text("name"))
ROUTE = Route("GET", "/subjects/{subject}", handler, "A subject", QUERY)


def call(query: str = "", body: bytes = b"", limits: Limits | None = None) -> Call:
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return parts.pop(0)  # a second read of the body would fail

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": query.encode(), "headers": []}
    matched = Matched(ROUTE, {"subject": "orders"})
    return Call(Asked(Request(scope, receive), matched, ANONYMOUS, "7", limits or Limits()))


def test_what_a_call_knows() -> None:
    made = call()
    assert (made.parameters, made.principal, made.request_id) == ({"subject": "orders"}, ANONYMOUS, "7")


@pytest.mark.parametrize(
    ("query", "deleted"),
    [
        ("", False),
        ("deleted", False),
        ("deleted=", False),
        ("deleted=true", True),
        ("deleted=TRUE", True),
        ("deleted=1", False),
        ("deleted=yes", False),
        ("deleted=false", False),
    ],
)
def test_a_flag_is_true_only_where_it_says_so(query: str, deleted: bool) -> None:
    assert call(query).flag("deleted") is deleted


@pytest.mark.parametrize(
    ("query", "value"), [("", 5), ("offset=", 5), ("offset=0", 0), ("offset=-3", -3), ("offset=%2B7", 7)]
)
def test_a_number_or_its_default(query: str, value: int) -> None:
    assert call(query).number("offset", 5) == value


@pytest.mark.parametrize("query", ["offset=x", "offset=1.5", "offset=1e3", "offset=" + "9" * 5000])
def test_what_is_no_number(query: str) -> None:
    with pytest.raises(Problem, match="is no number") as refused:
        call(query).number("offset", 5)
    assert refused.value.status == 400


def test_texts() -> None:
    made = call("name=a%20b&name=c")
    assert made.texts("name") == ["a b", "c"]
    assert call("name=").text("name") == ""
    assert (call().text("name"), call().texts("name")) == (None, [])


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("", "abcde"),
        ("offset=2", "cde"),
        ("limit=2", "ab"),
        ("offset=1&limit=2", "bc"),
        ("limit=0", ""),
        ("limit=-1", "abcde"),
        ("offset=-3&limit=1", "a"),
        ("offset=9", ""),
        ("offset=4&limit=9", "e"),
    ],
)
def test_the_part_of_a_list_that_is_asked_for(query: str, page: str) -> None:
    assert call(query).page(list("abcde")) == list(page)


def test_a_parameter_that_the_route_does_not_declare() -> None:
    for read in (Call.text, Call.texts, Call.flag):
        with pytest.raises(AssertionError, match="does not declare hidden"):
            read(call("hidden=1"), "hidden")


def test_a_body_is_read_once() -> None:
    async def run() -> None:
        made = call(body=b'{"a": [1, null]}')
        assert await made.body() == {"a": [1, None]}
        assert await made.body() == {"a": [1, None]}
        assert await made.raw_body() == b'{"a": [1, null]}'
        assert not made.reads_body

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "The request is no JSON:"),
        (b"{", "The request is no JSON:"),
        (b"\xff", "The request is no JSON:"),
        (b"[" * 100_000, "The request is no JSON:"),
        (b"[]", "The request is no JSON object"),
        (b"null", "The request is no JSON object"),
        (b'"a"', "The request is no JSON object"),
    ],
)
def test_a_body_that_is_no_json_object(body: bytes, words: str) -> None:
    with pytest.raises(Problem, match=words) as refused:
        asyncio.run(call(body=body).body())
    assert refused.value.status == 400


def test_a_body_that_is_too_large() -> None:
    made = call(body=b"12345", limits=Limits(max_body_bytes=4))
    with pytest.raises(Problem) as refused:
        asyncio.run(made.body())
    assert refused.value.status == 413


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["name", "deleted", "=", "&", ";", "a", "%20", "+", "é", ""]), max_size=10))
def test_a_query_is_read_as_starlette_reads_it(pieces: list[str]) -> None:
    made = call("".join(pieces))
    for name in ("name", "deleted"):
        assert made.text(name) == made.request.query_params.get(name)
