import asyncio
import base64

import pytest
from starlette.requests import Request

from moldau.web.authentication import (
    ANONYMOUS,
    BasicAuthentication,
    Principal,
    anybody,
    credentials,
    read_users,
    user_entries,
)
from moldau.web.problems import Problem


def asked(name=None, password=""):
    headers = []
    if name is not None:
        headers = [(b"authorization", b"Basic " + base64.b64encode(f"{name}:{password}".encode()))]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers})


def test_names_and_passwords():
    basic = BasicAuthentication({"ann": "se:cret", "empty": ""}, "books")
    assert asyncio.run(basic(asked("ann", "se:cret"))) == Principal("ann")
    for wrong in (("ann", "x"), ("bob", "se:cret"), ("", ""), (None,)):
        with pytest.raises(Problem) as error:
            asyncio.run(basic(asked(*wrong)))
        assert (error.value.status, error.value.code, error.value.message) == (401, 401, "Unauthorized")
        assert error.value.headers == {"WWW-Authenticate": 'Basic realm="books"'}


def test_nobody_is_asked():
    assert asyncio.run(anybody(asked())) == ANONYMOUS


@pytest.mark.parametrize("header", ["", "Bearer abc", "Basic ???", "Basic /w=="])
def test_headers_without_credentials(header):
    assert credentials(header) == ("", "")


def test_users_of_a_file():
    text = '# people\nbob:pa:ss\n\n user_ann="s = x"; \nuser_eve=plain\nuser_x:y\n'
    assert read_users(user_entries(text)) == {"bob": "pa:ss", "ann": "s = x", "eve": "plain", "user_x": "y"}


def test_a_wrong_entry_is_named_by_its_number_alone():
    for wrong in ("hunter2", ":hunter2"):
        with pytest.raises(ValueError, match="user number 2 has not the form") as error:
            read_users(["a:b", wrong])
        assert "hunter2" not in str(error.value)
