"""Secrets that stand outside of a configuration: ``${file:/run/secrets/db.properties:password}``.

A worker's ``config.providers`` names providers, and configurations of connectors refer to them. What is
stored and shown is always the reference; only tasks get the value.

Invariant: a path outside of the allowed ones, and a name that the environment's pattern does not allow, is
refused, also by way of a link or of dots; no value ever stands in an error.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from moldau.base.settings import parse_properties
from moldau.connect.errors import ConfigException

_REFERENCE = re.compile(r"\$\{([^}:]*):(([^}]*?):)?([^}]*?)\}")
MAX_FILE_BYTES = 1024 * 1024
#: What is shorter stands in any text by accident.
_SHORTEST_SECRET = 4

FILE = "org.apache.kafka.common.config.provider.FileConfigProvider"
DIRECTORY = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
ENVIRONMENT = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"


class ConfigProvider(Protocol):
    def get(self, path: str, key: str) -> str | None:
        """The value of a key, or None if there is none."""
        ...


class AllowedPaths:
    """Directories below which files may be read; all of them where none is named."""

    def __init__(self, allowed: str | None) -> None:
        self._allowed = [Path(part.strip()) for part in (allowed or "").split(",") if part.strip()]
        for path in self._allowed:
            if not path.is_absolute():
                raise ConfigException(f"Path {path} is not absolute")
            if not path.exists():
                raise ConfigException(f"Path {path} does not exist")
        self._allowed = [path.resolve() for path in self._allowed]

    def resolve(self, path: str) -> Path:
        real = Path(path).resolve()
        if self._allowed and not any(real == each or each in real.parents for each in self._allowed):
            raise ConfigException(f"The path {path} is not permitted to be accessed")
        return real


class FileProvider:
    """Keys of a file of properties."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._paths = AllowedPaths(settings.get("allowed.paths"))

    def get(self, path: str, key: str) -> str | None:
        return parse_properties(_read(self._paths.resolve(path), path)).get(key)


class DirectoryProvider:
    """Files of a directory, each of them a value; the key is the name of the file."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._paths = AllowedPaths(settings.get("allowed.paths"))

    def get(self, path: str, key: str) -> str | None:
        file = Path(path) / key
        if "/" in key or key in ("", ".", ".."):
            raise ConfigException(f"The key {key} is no name of a file")
        resolved = self._paths.resolve(str(file))
        return _read(resolved, str(file)) if resolved.is_file() else None


class EnvironmentProvider:
    """Variables of the worker's environment."""

    def __init__(self, settings: Mapping[str, str], environment: Mapping[str, str] | None = None) -> None:
        self._pattern = re.compile(settings.get("allowlist.pattern", ".*"))
        self._environment = os.environ if environment is None else environment

    def get(self, path: str, key: str) -> str | None:
        if path:
            raise ConfigException(
                "Path is not supported for EnvVarConfigProvider, invalid value '" + path + "'"
            )
        return self._environment.get(key) if self._pattern.fullmatch(key) else None


def _read(path: Path, shown: str) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigException(f"Could not read {shown}: {error.strerror}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigException(f"{shown} is larger than {MAX_FILE_BYTES} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigException(f"{shown} is no UTF-8") from error


_KINDS: dict[str, Callable[[Mapping[str, str]], ConfigProvider]] = {
    FILE: FileProvider,
    DIRECTORY: DirectoryProvider,
    ENVIRONMENT: EnvironmentProvider,
}


def providers_of(worker: Mapping[str, str]) -> dict[str, ConfigProvider]:
    """The providers that a worker's settings name."""
    found: dict[str, ConfigProvider] = {}
    for name in (part.strip() for part in worker.get("config.providers", "").split(",")):
        if not name:
            continue
        kind = worker.get(f"config.providers.{name}.class", "")
        maker = _KINDS.get(kind)
        if maker is None:
            raise ConfigException.of(
                f"config.providers.{name}.class", kind, f"Class {kind} could not be found."
            )
        prefix = f"config.providers.{name}.param."
        found[name] = maker(
            {key.removeprefix(prefix): value for key, value in worker.items() if key.startswith(prefix)}
        )
    return found


def resolved(
    settings: Mapping[str, str],
    providers: Mapping[str, ConfigProvider],
    secrets: dict[str, str] | None = None,
) -> dict[str, str]:
    """Settings with every reference replaced by its value; what no provider knows stays as it is.

    ``secrets`` gets the references by the values that stand for them.
    """

    def value(match: "re.Match[str]") -> str:
        provider = providers.get(match[1])
        if provider is None:
            return match[0]
        found = provider.get(match[3] or "", match[4])
        if found is None:
            return match[0]
        if secrets is not None and len(found) >= _SHORTEST_SECRET:
            secrets[found] = match[0]
        return found

    return {name: _REFERENCE.sub(value, text) for name, text in settings.items()}


def hidden(text: str, secrets: Mapping[str, str]) -> str:
    """A text in which references stand again for the values that they gave."""
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, secrets[value])
    return text
