"""Profiles as files: for their owner alone, and read as they were written."""

import stat
from pathlib import Path

import pytest

from moldau.cli import profiles

_SETTINGS = {
    "bootstrap.servers": "a:1,b:2",
    "sasl.jaas.config": 'm required username="a\\\\b" password=" c\td";',
    "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
    "x": " leading",
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    within = tmp_path / "profiles"
    path = profiles.save("prod", _SETTINGS, within)
    assert profiles.load("prod", within) == _SETTINGS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(within.stat().st_mode) == 0o700
    profiles.save("prod", {"a": "b"}, within)
    assert profiles.load("prod", within) == {"a": "b"}
    assert profiles.names(within) == ["prod"]
    profiles.remove("prod", within)
    assert profiles.names(within) == []


def test_a_file_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = profiles.save("prod", _SETTINGS, tmp_path)
    path.chmod(0o640)
    with pytest.raises(profiles.ProfileError, match="chmod 600"):
        profiles.load("prod", tmp_path)


@pytest.mark.parametrize("name", ["", "../other", "a/b", ".hidden", "a b"])
def test_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(profiles.ProfileError, match="the name of a profile"):
        profiles.save(name, {}, tmp_path)


def test_what_is_not_there(tmp_path: Path) -> None:
    for action in (profiles.load, profiles.remove):
        with pytest.raises(profiles.ProfileError, match="there is no profile"):
            action("none", tmp_path / "nowhere")
    assert profiles.names(tmp_path / "nowhere") == []


def test_secrets_are_not_shown() -> None:
    shown = profiles.shown(_SETTINGS | {"ssl.keystore.location": "/k", "ssl.keystore.password": "s"})
    assert shown["sasl.jaas.config"] == shown["ssl.keystore.password"] == "********"
    assert (shown["ssl.keystore.location"], shown["bootstrap.servers"]) == ("/k", "a:1,b:2")


def test_where_they_are() -> None:
    assert profiles.directory({"XDG_CONFIG_HOME": "/c"}) == Path("/c/moldau/profiles")
    assert profiles.directory({"HOME": "/home/a"}) == Path("/home/a/.config/moldau/profiles")
