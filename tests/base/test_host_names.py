"""Which addresses are this machine's alone, and which names it goes by."""

import platform

import pytest

from moldau.base.host_names import is_loopback, is_own_name


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("", False),
        ("10.0.0.1", False),
        ("books.example", False),
    ],
)
def test_loopback(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone


@pytest.mark.parametrize(
    ("header", "own"),
    [
        ("", True),
        ("localhost:8083", True),
        ("LOCALHOST", True),
        ("127.0.0.1:1", True),
        ("[::1]:1", True),
        ("192.168.1.7", True),
        ("console.localhost:1", True),
        (platform.node(), True),
        ("proxy.example:80", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evillocalhost", False),
        ("[::1", False),
        (":80", False),
    ],
)
def test_own_names(header: str, own: bool) -> None:
    assert is_own_name(header, ("proxy.example",)) is own
