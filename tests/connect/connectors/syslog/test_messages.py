"""Messages of syslog, with the examples of the RFCs, and what is none."""

from datetime import UTC, datetime
from typing import Any

import pytest

from moldau.connect.connectors.syslog.messages import MESSAGE, frames, parsed
from moldau.connect.data.types import Instant

NOW = Instant.of(datetime(2024, 1, 1, 0, 30, tzinfo=UTC)).epoch_ms


def read(raw: str) -> dict[str, Any]:
    found = parsed(raw, "10.0.0.1", NOW)
    assert found.schema == MESSAGE
    return {field.name: value for field, value in found.items() if value is not None}


def test_the_newer_format() -> None:
    raw = (
        "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 "
        '[exampleSDID@32473 iut="3" eventSource="Appli\\"cation"][second@1] \ufeffAn application event'
    )
    assert read(raw) == {
        "type": "RFC5424",
        "date": Instant.of(datetime(2003, 10, 11, 22, 14, 15, 3000, tzinfo=UTC)),
        "facility": 20,
        "level": 5,
        "host": "mymachine.example.com",
        "appName": "evntslog",
        "messageId": "ID47",
        "structuredData": {
            "exampleSDID@32473": {"iut": "3", "eventSource": 'Appli"cation'},
            "second@1": {},
        },
        "message": "An application event",
        "remoteAddress": "10.0.0.1",
        "rawMessage": raw,
    }
    assert read("<34>1 - - su 77 - - ")["processId"] == "77"


def test_the_older_format_and_its_year() -> None:
    found = read("<34>Oct 11 22:14:15 mymachine su[12]: 'su root' failed for lonvick on /dev/pts/8")
    assert (found["type"], found["host"], found["appName"], found["processId"]) == (
        "RFC3164",
        "mymachine",
        "su",
        "12",
    )
    assert found["message"] == "'su root' failed for lonvick on /dev/pts/8"
    assert found["date"] == Instant.of(datetime(2023, 10, 11, 22, 14, 15, tzinfo=UTC))
    assert read("<0>Dec 31 23:59:59 a b: c")["date"].datetime().year == 2023
    assert read("<0>Jan  1 00:29:59 a b: c")["date"].datetime().year == 2024


@pytest.mark.parametrize(
    "raw",
    ["", "plain text", "<999>x", "<34>1 x", "<34>1 - - - - - [broken", "<34>Feb 31 25:00:00 h x: y", "<"],
)
def test_what_is_neither_is_kept_as_it_is(raw: str) -> None:
    found = read(raw)
    assert found["rawMessage"] == raw
    assert found["type"] in ("UNKNOWN", "RFC3164")


def test_frames_of_a_stream() -> None:
    assert frames(b"5 a\nb c<1>line\r\nrest", 100) == ([b"a\nb c", b"<1>line"], b"rest")
    assert frames(b"10 short", 100) == ([], b"10 short")
    assert frames(b"x" * 12, 10) == ([b"x" * 10], b"xx")
    assert frames(b"999999 a\nb", 10) == ([b"999999 a"], b"b")
    assert frames(b"\n\n", 10) == ([], b"")
