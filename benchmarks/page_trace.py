"""What a page costs a browser, from Chromium's own trace: what Lighthouse tells, measured the same way.

    with opened() as browser:
        costs = load(browser, "http://127.0.0.1:8080/c/local/topics", PHONE)

Every load has an empty cache. ``PHONE`` slows processor and network down as Lighthouse does for its figures
of a phone. ``costs_of`` is pure: events of a trace become figures.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_CATEGORIES = (
    *("-*", "blink.user_timing", "devtools.timeline", "disabled-by-default-devtools.timeline"),
    *("loading", "rail", "toplevel", "v8"),
)
_SCRIPT = ("EvaluateScript", "FunctionCall", "v8.compile")
_TASKS = ("RunTask", "ThreadControllerImpl::RunTask")
_PAINTS = {"firstContentfulPaint", "largestContentfulPaint::Candidate"}
#: A task that is longer blocks whoever types or clicks meanwhile.
_LONG_MS = 50.0


@dataclass(frozen=True, slots=True)
class Device:
    """How many times slower than here the processor is, and its network; -1 is one without a bound."""

    name: str
    slower: float = 1.0
    bytes_a_second: float = -1
    round_trip_ms: float = 0


HERE = Device("this machine")
PHONE = Device("a phone", 4.0, 1_600_000 / 8, 150)


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds (paints: since the navigation), Chromium's sum of layout shifts, bytes that came."""

    first_paint: float
    largest_paint: float
    script: float
    blocked: float
    layout_shift: float
    bytes: int


def costs_of(events: Sequence[dict[str, Any]]) -> Costs:
    """The figures of the one navigation that a trace has."""
    start = max((each for each in events if _is_navigation(each)), key=lambda each: float(each["ts"]))
    begin, thread = start["ts"], (start["pid"], start["tid"])
    here = [each for each in events if (each["pid"], each["tid"]) == thread and each["ts"] >= begin]

    def moments(name: str) -> list[float]:
        return [(each["ts"] - begin) / 1000 for each in here if each["name"] == name]

    shifts = [each["args"]["data"] for each in here if each["name"] == "LayoutShift"]
    own = [each for each in events if each["pid"] == start["pid"]]  # the browser fetches things of its own
    finished = [each["args"]["data"] for each in own if each["name"] == "ResourceFinish"]
    return Costs(
        first_paint=moments("firstContentfulPaint")[0],
        largest_paint=moments("largestContentfulPaint::Candidate")[-1],
        script=sum(_lengths(here, _SCRIPT)),
        blocked=sum(max(0.0, each - _LONG_MS) for each in _lengths(here, _TASKS)),
        layout_shift=sum(each["score"] for each in shifts if not each.get("had_recent_input")),
        bytes=sum(max(0, int(each.get("encodedDataLength") or 0)) for each in finished),
    )


def _is_navigation(event: dict[str, Any]) -> bool:
    data = (event.get("args") or {}).get("data") or {}
    return event["name"] == "navigationStart" and str(data.get("documentLoaderURL", "")).startswith("http")


def _lengths(events: Sequence[dict[str, Any]], names: tuple[str, ...]) -> Iterator[float]:
    """How long each took, in milliseconds; one inside of another is a part of that one."""
    end = 0.0
    found = [each for each in events if each["name"] in names and "dur" in each]
    for each in sorted(found, key=lambda each: (each["ts"], -each["dur"])):
        if each["ts"] >= end:
            end = each["ts"] + each["dur"]
            yield each["dur"] / 1000


@contextmanager
def opened() -> Iterator[Any]:
    """A browser; None where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        yield None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = running.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


def load(browser: Any, url: str, device: Device) -> Costs:
    """One load of a page into a tab of its own; again where the trace missed a part of it."""
    while True:
        events = _trace(browser, url, device)
        if any(map(_is_navigation, events)) and {each["name"] for each in events} >= _PAINTS:
            return costs_of(events)


def _trace(browser: Any, url: str, device: Device) -> list[dict[str, Any]]:
    """Until nothing moves any more."""
    context = browser.new_context()
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    speeds = dict.fromkeys(("downloadThroughput", "uploadThroughput"), device.bytes_a_second)
    session.send(
        "Network.emulateNetworkConditions", {"offline": False, "latency": device.round_trip_ms, **speeds}
    )
    session.send("Emulation.setCPUThrottlingRate", {"rate": device.slower})
    browser.start_tracing(page=page, categories=list(_CATEGORIES))
    page.goto(url, wait_until="networkidle")
    trace = json.loads(browser.stop_tracing())
    context.close()
    found: list[dict[str, Any]] = trace["traceEvents"]
    return found
