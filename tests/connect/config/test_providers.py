"""Secrets from files, directories and the environment, and what is refused."""

from pathlib import Path

import pytest

from moldau.connect.config.providers import (
    DIRECTORY,
    ENVIRONMENT,
    FILE,
    EnvironmentProvider,
    hidden,
    providers_of,
    resolved,
)
from moldau.connect.errors import ConfigException


def worker(kind: str, **parameters: str) -> dict[str, str]:
    return {
        "config.providers": "p",
        "config.providers.p.class": kind,
        **{f"config.providers.p.param.{name.replace('_', '.')}": value for name, value in parameters.items()},
    }


def test_a_key_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "db.properties"
    file.write_text("user=ann\npassword=hush:hush\n")
    providers = providers_of(worker(FILE, allowed_paths=str(tmp_path)))
    given = {"url": f"db://${{p:{file}:user}}:${{p:{file}:password}}@host", "other": "${q:x:y} $x"}
    assert resolved(given, providers) == {"url": "db://ann:hush:hush@host", "other": "${q:x:y} $x"}
    assert resolved({"a": f"${{p:{file}:nope}}"}, providers) == {"a": f"${{p:{file}:nope}}"}


def test_a_file_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hush")
    providers = providers_of(worker(DIRECTORY, allowed_paths=str(tmp_path)))
    assert resolved({"a": f"${{p:{tmp_path}:password}}"}, providers) == {"a": "hush"}
    with pytest.raises(ConfigException, match="no name of a file"):
        resolved({"a": f"${{p:{tmp_path}:../secret}}"}, providers)


def test_paths_that_are_not_allowed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "s.properties").write_text("a=secret-value")
    (inside / "link").symlink_to(outside)
    providers = providers_of(worker(FILE, allowed_paths=str(inside)))
    for path in (outside / "s.properties", inside / "../out/s.properties", inside / "link/s.properties"):
        with pytest.raises(ConfigException, match="is not permitted to be accessed") as error:
            resolved({"x": f"${{p:{path}:a}}"}, providers)
        assert "secret-value" not in str(error.value)


def test_variables_of_the_environment() -> None:
    provider = EnvironmentProvider({"allowlist.pattern": "DB_.*"}, {"DB_PASSWORD": "hush", "HOME": "/root"})
    assert resolved({"a": "${env:DB_PASSWORD}"}, {"env": provider}) == {"a": "hush"}
    assert resolved({"a": "${env:HOME}"}, {"env": provider}) == {"a": "${env:HOME}"}
    with pytest.raises(ConfigException, match="Path is not supported"):
        resolved({"a": "${env:/x:HOME}"}, {"env": provider})
    assert list(providers_of(worker(ENVIRONMENT))) == ["p"]


def test_providers_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match=r"Class com\.x\.Evil could not be found"):
        providers_of(worker("com.x.Evil"))
    with pytest.raises(ConfigException, match="is not absolute"):
        providers_of(worker(FILE, allowed_paths="relative"))
    with pytest.raises(ConfigException, match="Could not read"):
        resolved({"a": f"${{p:{tmp_path}/none:k}}"}, providers_of(worker(FILE)))


def test_what_was_given_is_hidden_again() -> None:
    provider = EnvironmentProvider({}, {"PASSWORD": "hush-hush", "PART": "hush", "ONE": "1"})
    secrets: dict[str, str] = {}
    known = resolved({"a": "${e:PASSWORD}", "b": "x${e:PART}x", "c": "${e:ONE}"}, {"e": provider}, secrets)
    assert known == {"a": "hush-hush", "b": "xhushx", "c": "1"}
    assert (
        hidden("login with hush-hush, 1 of 10: hush", secrets)
        == "login with ${e:PASSWORD}, 1 of 10: ${e:PART}"
    )
