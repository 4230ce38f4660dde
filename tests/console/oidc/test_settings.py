"""What a console is told of its provider, and what it refuses to be told."""

from pathlib import Path
from typing import Any

import pytest

from moldau.console.oidc.settings import OidcSettings, read_oidc
from moldau.console.settings import ClusterSettings, ConsoleSettings
from moldau.web.server import ListenerOptions

_BEARER = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
_OIDC = OidcSettings("https://login.example", "console")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"issuer": "http://login.example"}, "https"),
        ({"issuer": "https://ann:secret@login.example"}, "https"),
        ({"issuer": "https://[::bad"}, "no address"),
        ({"issuer": "file:///keys"}, "https"),
        ({"client_id": ""}, "client id"),
        ({"scope": "profile"}, "openid"),
        ({"scope": "openid\nx"}, "openid"),
        ({"parameters": (("redirect_uri", "https://evil.example"),)}, "the console's own"),
        ({"role_claim": "roles"}, "both"),
        ({"editors": ("admin",)}, "both"),
        ({"public_url": "https://console.example/below"}, "no path"),
        ({"public_url": "http://console.example"}, "https"),
    ],
)
def test_what_is_not_safe_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        OidcSettings(**{"issuer": "https://login.example", "client_id": "console", **change})


def test_http_is_for_this_machine_alone() -> None:
    found = OidcSettings("http://127.0.0.1:4444/", "console", "hush")
    assert found.discovery_url == "http://127.0.0.1:4444/.well-known/openid-configuration"
    assert "hush" not in repr(found)


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    file = tmp_path / "oidc.toml"
    file.write_text(
        'issuer = "https://login.example"\nclient_id = "console"\nclient_secret_file = "secret"\n'
        'parameters = { audience = "kafka" }\nrole_claim = "roles"\neditors = ["admin"]\n'
    )
    assert read_oidc(file) == OidcSettings(
        *("https://login.example", "console", "hush"),
        parameters=(("audience", "kafka"),),
        role_claim="roles",
        editors=("admin",),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("issuer", "no TOML"),
        ('issuer = "https://login.example"', "missing: client_id"),
        ('issuer = "https://login.example"\nclient_id = 4', "client_id is a text"),
        ('isuer = "https://login.example"', "unknown: isuer"),
    ],
)
def test_a_file_that_makes_no_sense(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "oidc.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_oidc(file)


def settings(client: dict[str, str], oidc: OidcSettings = _OIDC, **options: Any) -> ConsoleSettings:
    clusters = (ClusterSettings("local", "127.0.0.1:1", client),)
    return ConsoleSettings(clusters, **{"login": True, **options}, oidc=oidc)


def test_people_act_as_themselves_or_not_at_all() -> None:
    assert settings(_BEARER).oidc is _OIDC
    for client in ({}, {**_BEARER, "sasl.mechanism": "PLAIN"}, {"sasl.mechanism": "OAUTHBEARER"}):
        with pytest.raises(ValueError, match="takes no bearer tokens"):
            settings(client)
    with pytest.raises(ValueError, match="belongs to a login"):
        settings(_BEARER, login=False)


def test_the_account_of_the_console_is_never_used_for_a_person() -> None:
    own = {
        **_BEARER,
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
        "sasl.oauthbearer.client.credentials.client.id": "service",
        "sasl.oauthbearer.client.credentials.client.secret": "of the service",
        "sasl.jaas.config": 'x required clientId="service" clientSecret="of the service";',
    }
    found = ClusterSettings("local", "127.0.0.1:1", own).security_of_token("of ann")
    assert found.credentials.token == "of ann"
    assert (found.credentials.username, found.credentials.password, found.credentials.token_url) == ("",) * 3


def test_on_the_network_it_has_a_public_address() -> None:
    network = ListenerOptions("0.0.0.0")
    with pytest.raises(ValueError, match="public address"):
        settings(_BEARER, listener=network)
    public = OidcSettings("https://login.example", "console", public_url="https://console.example")
    found = settings(_BEARER, public, listener=network)
    assert found.hosts == ("console.example",)
    assert found.is_https, "cookies are for https alone where browsers use it"
    assert not settings(_BEARER).is_https
