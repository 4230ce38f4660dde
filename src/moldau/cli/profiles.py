"""Profiles: how to reach a cluster, under a name, so that no command needs its address and secrets again.

A profile is a properties file of Kafka's clients, ``bootstrap.servers`` included, in
``$XDG_CONFIG_HOME/moldau/profiles`` (``~/.config`` without it).

Invariant: files and their directory are for their owner alone, from the first byte on; a file that others can
read is not used. No error shows a value.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from moldau.base.settings import parse_properties

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
#: Settings whose values are not shown.
_SECRETS = re.compile(r"password|secret|jaas|\.key$|token", re.IGNORECASE)


class ProfileError(ValueError):
    """A profile that cannot be used, and what to do."""


def directory(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or str(
        Path(environment.get("HOME", "~")).expanduser() / ".config"
    )
    return Path(base) / "moldau" / "profiles"


def _path(name: str, within: Path) -> Path:
    if _NAME.fullmatch(name) is None or name.startswith("."):
        raise ProfileError(f"the name of a profile has letters, digits, '.', '_' and '-'; not {name!r}")
    return within / f"{name}.properties"


def save(name: str, settings: Mapping[str, str], within: Path) -> Path:
    """Writes a profile; one of the name is replaced as a whole."""
    path = _path(name, within)
    within.mkdir(mode=0o700, parents=True, exist_ok=True)
    within.chmod(0o700)
    text = "".join(f"{key}={_escaped(value)}\n" for key, value in sorted(settings.items()))
    written = path.with_suffix(".new")
    written.unlink(missing_ok=True)
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    written.replace(path)
    return path


def load(name: str, within: Path) -> dict[str, str]:
    """The settings of a profile."""
    path = _path(name, within)
    try:
        mode = path.stat().st_mode
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise ProfileError(
            f"there is no profile {name!r}: 'moldau profile list' shows what there is"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ProfileError(f"{path} cannot be read: {reason}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise ProfileError(f"{path} may be read by others: chmod 600 {path}, and change its secrets")
    return parse_properties(text)


def names(within: Path) -> list[str]:
    return sorted(path.stem for path in within.glob("*.properties")) if within.is_dir() else []


def remove(name: str, within: Path) -> None:
    try:
        _path(name, within).unlink()
    except FileNotFoundError:
        raise ProfileError(
            f"there is no profile {name!r}: 'moldau profile list' shows what there is"
        ) from None


def shown(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with stars in the place of secrets."""
    return {
        name: "********" if _SECRETS.search(name) and not name.endswith(".location") else value
        for name, value in sorted(settings.items())
    }


def _escaped(value: str) -> str:
    """A value as a properties file has it; its lines stay one line."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return f"\\{text}" if text.startswith(" ") else text
