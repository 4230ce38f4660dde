"""Answers for people: pages, files, streams that end with their reader, problems as pages."""

import asyncio
import threading

from moldau.web.application import Application, Service
from moldau.web.openapi import Description
from moldau.web.pages import asset, download, events, not_modified, page, redirect
from moldau.web.problems import Problem
from moldau.web.routes import Route, RouteTable
from tests.shared.waiting import wait_until


def test_answers() -> None:
    shown = page("\ud800 é", 404, {"X-A": "b"})
    assert (shown.status_code, shown.headers["x-a"], shown.headers["cache-control"]) == (404, "b", "no-store")
    assert shown.body == "? é".encode()
    assert redirect("/x").headers["location"] == "/x"
    kept = download(b"data", "text/csv", 'a"b\r\né.csv')
    assert kept.headers["content-disposition"] == "attachment; filename*=UTF-8''a%22b%0D%0A%C3%A9.csv"
    assert asset(b"x", "text/css", "tag").headers["etag"] == not_modified("tag").headers["etag"] == '"tag"'


def test_a_service_for_people(run_application) -> None:
    ended = threading.Event()

    async def stream(call):
        async def source():
            try:
                yield "first", "two\nlines"
                while True:
                    yield "more", "x"
                    await asyncio.sleep(0.01)  # a stream that nobody ends
            finally:
                ended.set()

        return events(source())

    async def refuse(call):
        raise Problem(404, 404, "There is nothing")

    def make():
        routes = RouteTable([Route("GET", "/stream", stream, "Stream"), Route("GET", "/no", refuse, "No")])
        return Application(
            Service(
                Description("Test", "1"),
                routes,
                media_types=("text/html",),
                problem_page=lambda request, problem: page(f"<p>{problem.message}</p>", problem.status),
                headers={"X-Frame-Options": "DENY"},
            )
        )

    with run_application(make, stop_timeout_seconds=2) as serving, serving.client() as http:
        refused = http.get("/no", headers={"accept": "text/html"})
        assert (refused.status_code, refused.text) == (404, "<p>There is nothing</p>")
        assert refused.headers["x-frame-options"] == http.get("/nowhere").headers["x-frame-options"] == "DENY"
        with http.stream("GET", "/stream") as answer:
            lines = answer.iter_lines()
            assert [next(lines) for _ in range(4)] == ["event: first", "data: two", "data: lines", ""]
        wait_until(ended.is_set, "the stream goes on without its reader")
