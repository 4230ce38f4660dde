import pytest

from moldau.web.media_types import (
    ANY,
    accepted,
    check_content_encoding,
    check_content_type,
)
from moldau.web.problems import Problem

OFFERED = ("application/vnd.a+json", "application/json")


@pytest.mark.parametrize(
    ("header", "media_type"),
    [
        (None, OFFERED[0]),
        (" ", OFFERED[0]),
        ("*/*", OFFERED[0]),
        ("application/json", OFFERED[1]),
        ("text/html, application/json;q=0.5", OFFERED[1]),
        ("application/json;q=0.1, application/vnd.a+json", OFFERED[0]),
        ("application/json;q=odd, application/*", OFFERED[0]),
    ],
)
def test_the_client_chooses(header, media_type):
    assert accepted(header, OFFERED) == media_type


def test_what_no_answer_is_called_is_not_acceptable():
    for header in ("text/html", "application/json;q=0"):
        with pytest.raises(Problem, match="HTTP 406 Not Acceptable"):
            accepted(header, OFFERED)


def test_bodies():
    check_content_type("POST", "", OFFERED)
    check_content_type("POST", "Application/JSON; charset=utf-8", OFFERED)
    check_content_type("GET", "text/plain", OFFERED)
    for method in ("POST", "PUT", "PATCH"):
        with pytest.raises(Problem, match="HTTP 415"):
            check_content_type(method, "text/plain", OFFERED)


def test_a_service_may_take_anything():
    assert accepted("text/html", ("application/json", ANY)) == "application/json"
    check_content_type("POST", "text/plain", (ANY,))


def test_compressed_bodies_are_not_taken():
    for plain in (None, "", "identity", " Identity "):
        check_content_encoding(plain)
    for packed in ("gzip", "deflate, gzip", "br"):
        with pytest.raises(Problem, match="is not taken") as error:
            check_content_encoding(packed)
        assert error.value.status == 415
