import asyncio
import base64

import pytest
from starlette.requests import Request

from moldau.web.authentication import (
    ANONYMOUS,
    PEER_CERTIFICATE,
    BasicAuthentication,
    HttpLogin,
    MappedAuthentication,
    Principal,
    anybody,
    credentials,
    http_login,
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


def test_a_login_is_read_and_left_to_a_function():
    seen = []

    def principal_of(login):
        seen.append(login)
        return Principal(login.name or login.token) if login.name != "eve" else None

    mapped = MappedAuthentication(principal_of, "books")
    assert asyncio.run(mapped(asked("ann", "pw"))) == Principal("ann", is_verified=True)
    assert (seen[0].name, seen[0].password) == ("ann", "pw")
    assert "pw" not in repr(seen[0])
    with pytest.raises(Problem) as error:
        asyncio.run(mapped(asked("eve", "x")))
    assert (error.value.status, error.value.headers) == (401, {"WWW-Authenticate": 'Basic realm="books"'})


def test_tokens_and_certificates():
    subject = ((("commonName", "ann"),),)
    scope = {
        "type": "http",
        "headers": [(b"authorization", b"Bearer  a.b.c ")],
        "state": {PEER_CERTIFICATE: {"subject": subject}},
    }
    assert http_login(Request(scope)) == HttpLogin(token="a.b.c", subject=subject)
    assert http_login(Request({"type": "http", "headers": []})) == HttpLogin()
