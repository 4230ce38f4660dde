"""The settings of a consumer instance, from the body that creates it.

Names are v2's; values may be texts, as v2's documents write them, or plain JSON. Settings of our own are
``redelivery`` (an answer that is not acknowledged is given again) and ``group.protocol``.

Pure. What makes no sense is refused with 42204.
"""

from dataclasses import dataclass
from typing import Any

from moldau.rest import problems
from moldau.rest.formats import BY_NAME, Format

_MAX_NAME = 200
_LEAST_QUIET_MS = 100
#: Settings of v2 whose work is done elsewhere, or not needed here; taken and without effect.
_IGNORED = frozenset({"response.max.bytes"})
_KNOWN = frozenset(
    {
        "id",
        "name",
        "format",
        "auto.offset.reset",
        "auto.commit.enable",
        "enable.auto.commit",
        "fetch.min.bytes",
        "consumer.request.timeout.ms",
        "isolation.level",
        "redelivery",
        "group.protocol",
    }
)


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    name: str | None = None
    format: Format = Format.BINARY
    #: earliest, latest or none.
    offset_reset: str = "latest"
    auto_commit: bool = True
    #: Bytes to wait for; -1 answers as soon as there are records.
    min_bytes: int = -1
    timeout_ms: int = 1_000
    committed_only: bool = False
    redelivery: bool = False
    protocol: str = "classic"

    @property
    def quiet_ms(self) -> int:
        """After so long without records a client that follows them hears that it still does."""
        return max(self.timeout_ms, _LEAST_QUIET_MS)


def read_settings(body: dict[str, Any]) -> InstanceSettings:
    unknown = sorted(body.keys() - _KNOWN - _IGNORED)
    if unknown:
        raise problems.unprocessable(f"Unrecognized field: {unknown[0][:100]}")
    commit = body.get("auto.commit.enable")
    return InstanceSettings(
        name=_name(body),
        format=BY_NAME[_choice(body, "format", "binary", tuple(BY_NAME))],
        offset_reset=_choice(body, "auto.offset.reset", "latest", ("earliest", "latest", "none")),
        auto_commit=_flag(body, "auto.commit.enable" if commit is not None else "enable.auto.commit", True),
        min_bytes=_number(body, "fetch.min.bytes", -1, -1, 10_000_000),
        timeout_ms=_number(body, "consumer.request.timeout.ms", 1_000, 0, 60_000),
        committed_only=_choice(
            body, "isolation.level", "read_uncommitted", ("read_uncommitted", "read_committed")
        )
        == "read_committed",
        redelivery=_flag(body, "redelivery", False),
        protocol=_choice(body, "group.protocol", "classic", ("classic", "consumer")),
    )


def _name(body: dict[str, Any]) -> str | None:
    found = body.get("name") or body.get("id")
    if found is None:
        return None
    if not isinstance(found, str) or len(found) > _MAX_NAME:
        raise problems.invalid_consumer_config(f"name is a text of at most {_MAX_NAME} characters")
    return found


def _choice(body: dict[str, Any], name: str, default: str, choices: tuple[str, ...]) -> str:
    found = body.get(name)
    if found is None:
        return default
    if not isinstance(found, str) or found.lower() not in choices:
        raise problems.invalid_consumer_config(
            f"Invalid value {str(found)[:100]} for configuration {name}: "
            f"String must be one of: {', '.join(choices)}"
        )
    return found.lower()


def _flag(body: dict[str, Any], name: str, default: bool) -> bool:
    found = body.get(name)
    if found is None:
        return default
    if isinstance(found, bool):
        return found
    if isinstance(found, str) and found.lower() in ("true", "false"):
        return found.lower() == "true"
    raise problems.invalid_consumer_config(f"{name} is true or false")


def _number(body: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    found = body.get(name)
    if found is None:
        return default
    if isinstance(found, str) and found.removeprefix("-").isdecimal() and len(found) < 12:
        found = int(found)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise problems.invalid_consumer_config(f"{name} is a number from {least} to {most}")
    return found
