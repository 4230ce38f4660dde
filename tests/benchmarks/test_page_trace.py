"""Figures of a page, from the events of a trace."""

from typing import Any

from benchmarks.page_trace import Costs, costs_of


def event(
    name: str, at_ms: float, length_ms: float | None = None, tid: int = 1, **data: Any
) -> dict[str, Any]:
    length = {} if length_ms is None else {"dur": length_ms * 1000}
    return {"name": name, "ts": at_ms * 1000, "pid": 7, "tid": tid, "args": {"data": data}, **length}


def test_a_trace_becomes_figures() -> None:
    events = [
        event("navigationStart", 10, documentLoaderURL=""),
        event("EvaluateScript", 50, 40),  # of the page before
        event("navigationStart", 100, documentLoaderURL="http://127.0.0.1/c/local"),
        event("RunTask", 120, 90),
        event("RunTask", 300, 30),
        event("EvaluateScript", 130, 8),
        event("FunctionCall", 132, 4),  # inside of the one before
        event("FunctionCall", 310, 2),
        event("FunctionCall", 310, 99, tid=2),  # another thread's
        event("firstContentfulPaint", 160),
        event("largestContentfulPaint::Candidate", 160),
        event("largestContentfulPaint::Candidate", 180),
        event("LayoutShift", 185, score=0.02),
        event("LayoutShift", 190, score=0.5, had_recent_input=True),
        event("ResourceFinish", 170, tid=3, encodedDataLength=4000),
        event("ResourceFinish", 171, tid=3, encodedDataLength=500),
        {**event("ResourceFinish", 172, encodedDataLength=9_000_000), "pid": 8},  # the browser's own
    ]
    assert costs_of(events) == Costs(60.0, 80.0, 10.0, 40.0, 0.02, 4500)
