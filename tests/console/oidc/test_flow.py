"""The authorization code flow as values: what is sent, what comes back, and what does not count."""

from collections.abc import Callable
from itertools import count
from urllib.parse import parse_qs, urlsplit

import pytest

from moldau.console.oidc.flow import (
    LoginRefused,
    PendingLogin,
    PendingLogins,
    answered_code,
    authorization_url,
    challenge,
    refresh_request,
    token_request,
)
from moldau.console.oidc.settings import OidcSettings

_SETTINGS = OidcSettings("https://login.example", "console", parameters=(("resource", "urn:kafka"),))
_BACK = "http://127.0.0.1:8080/login/callback"


def numbered() -> Callable[[], str]:
    numbers = count()
    return lambda: f"random-{next(numbers)}"


def test_the_challenge_of_the_standard() -> None:
    """RFC 7636, appendix B."""
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert challenge(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_a_login_counts_once() -> None:
    logins = PendingLogins()
    made = logins.begin(numbered(), "/c/local", _BACK, 0.0)
    assert len({made.state, made.nonce, made.verifier}) == 3
    assert logins.end(made.state, 1.0) is made
    with pytest.raises(LoginRefused):
        logins.end(made.state, 1.0)


@pytest.mark.parametrize("state", ["", "made up"])
def test_a_login_that_nobody_began(state: str) -> None:
    with pytest.raises(LoginRefused, match="another page"):
        PendingLogins().end(state, 0.0)


def test_a_login_of_another_session_does_not_count() -> None:
    made = PendingLogins().begin(numbered(), "/", _BACK, 0.0)
    with pytest.raises(LoginRefused):
        PendingLogins().end(made.state, 0.0)


def test_logins_grow_old_and_are_few() -> None:
    logins, random_text = PendingLogins(), numbered()
    made = [logins.begin(random_text, "/", _BACK, 0.0) for _ in range(6)]
    with pytest.raises(LoginRefused):
        logins.end(made[0].state, 0.0)
    assert logins.end(made[1].state, 599.0)
    with pytest.raises(LoginRefused):
        logins.end(made[2].state, 601.0)


def test_what_the_provider_is_asked() -> None:
    begun = PendingLogin("s", "n", "v", "/", 0.0, _BACK)
    url = authorization_url("https://login.example/auth?tenant=1", _SETTINGS, begun)
    asked = {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}
    assert asked == {
        "tenant": "1",
        "resource": "urn:kafka",
        "response_type": "code",
        "client_id": "console",
        "redirect_uri": _BACK,
        "scope": "openid profile",
        "state": "s",
        "nonce": "n",
        "code_challenge": challenge("v"),
        "code_challenge_method": "S256",
    }
    assert "v" not in asked.values(), "the verifier stays here"
    assert token_request(_SETTINGS, "c", begun) == {
        "resource": "urn:kafka",
        "grant_type": "authorization_code",
        "code": "c",
        "redirect_uri": _BACK,
        "code_verifier": "v",
    }
    assert refresh_request(_SETTINGS, "r")["refresh_token"] == "r"


@pytest.mark.parametrize(
    ("answer", "names_issuer", "words"),
    [
        ({"code": "c", "iss": "https://another.example"}, False, "another provider"),
        ({"code": "c"}, True, "another provider"),
        ({"error": "access_denied", "error_description": "no <b>"}, False, "access_denied no <b>"),
        ({}, False, "no code"),
        ({"code": "c" * 3_000}, False, "no code"),
    ],
)
def test_an_answer_that_does_not_count(answer: dict[str, str], names_issuer: bool, words: str) -> None:
    with pytest.raises(LoginRefused, match=words):
        answered_code(answer, "https://login.example", names_issuer=names_issuer)


def test_an_answer_that_counts() -> None:
    issuer = "https://login.example"
    assert answered_code({"code": "c"}, issuer, names_issuer=False) == "c"
    assert answered_code({"code": "c", "iss": issuer}, issuer, names_issuer=True) == "c"
