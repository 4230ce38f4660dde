"""Writes docs/settings.md from the declared settings: ``python docs/generate_settings.py``.

Invariant: the page says nothing that the declarations do not; a test fails when it is out of date.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from moldau.base.settings import Setting, SettingsTable, Value, render
from moldau.cluster.configs.broker_configs import BROKER_SETTINGS
from moldau.cluster.configs.topic_configs import (
    BROKER_LOGGERS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    LOG_LEVELS,
    TOPIC_SETTINGS,
)
from moldau.cluster.configs.without_effect import settings_without_effect

PAGE = Path(__file__).parent / "settings.md"

_INTRODUCTION = """\
# Settings

Written by `docs/generate_settings.py` from the declarations in `src/moldau/cluster/`; do not edit.

Names, types, ranges and defaults are those of Apache Kafka 4.3, and a `server.properties` file of Kafka is
taken as it is: `moldau broker --config server.properties`, with `--set key=value` above it. Settings that
mean nothing here and settings that nobody knows are named in one warning at start; a value that cannot be
is an error.

Where we differ from Kafka:

- `listeners` opens the loopback address only, unless it is set.
- The replication factor and the min.insync.replicas of internal topics are bounded by the number of brokers.
- `node.id` is 1 unless it is set. Listeners named in `controller.listener.names` are not opened.
- `listeners` and `listener.security.protocol.map` do not change while a broker runs.
- `transaction.two.phase.commit.enable` is true: a client that asks for two-phase commit gets it.
- What Kafka has no word for begins with `moldau.`; settings around schemas have Confluent's names.
- `moldau broker` sets `log.dirs` from `--data-dir`; Kafka's default directory counts when nothing is said.

*Changes* says when a setting may change: `static` at start only, `per-broker` while that broker runs,
`cluster-wide` for one broker or for all while they run (`kafka-configs --alter --entity-type brokers`).
"""


_NOT_THERE = "[what is not there](compatibility.md#not-there)"
#: Sections whose settings are taken, checked and shown, and on which nothing acts.
_WITHOUT_EFFECT = ("Share groups", "Streams groups", "Tiered storage")


def page() -> str:
    parts = [_INTRODUCTION]
    inherited = "what is not set comes from the broker's setting in the last column."
    parts.append(f"## Topics\n\nSet for one topic; {inherited}\n")
    parts.extend(_sections(TOPIC_SETTINGS, "from the broker", _synonyms))
    parts.append("## Brokers\n")
    parts.extend(_sections(BROKER_SETTINGS, "changes", lambda setting: setting.dynamic))
    parts.append(f"## Groups\n\nSet for one group; {inherited}\n")
    parts.extend(_sections(GROUP_SETTINGS, "from the broker", _synonyms))
    parts.append("## Client metrics\n\nSet for one subscription.\n")
    parts.extend(_sections(CLIENT_METRICS_SETTINGS, "from the broker", _synonyms))
    parts.append(_loggers())
    parts.append(_without_effect())
    return "\n".join(parts)


def _sections(table: SettingsTable, last: str, column: Callable[[Setting], str]) -> Iterator[str]:
    for title, settings in table.sections.items():
        rows = [f"### {title}\n"]
        if title in _WITHOUT_EFFECT:
            rows.append(f"Taken, checked and shown; nothing acts on them yet ({_NOT_THERE}).\n")
        rows.append(f"| name | type | default | valid | meaning | {last} |")
        rows.append("|---|---|---|---|---|---|")
        rows.extend(
            f"| `{setting.name}` | {setting.type.name.lower()} | {_code(setting.default)} "
            f"| {setting.valid or ''} | {setting.doc} | {column(setting)} |"
            for setting in settings
        )
        yield "\n".join(rows) + "\n"


def _code(value: Value) -> str:
    return "" if value is None or value in ("", ()) else f"`{render(value)}`"


def _synonyms(setting: Setting) -> str:
    return ", ".join(f"`{name}`" for name, _ in setting.synonyms)


def _loggers() -> str:
    names = ", ".join(f"`{name}`" for name in BROKER_LOGGERS)
    levels = ", ".join(f"`{name}`" for name in LOG_LEVELS)
    return f"## Loggers\n\nLevels of {names} change while a broker runs: {levels}.\n"


def _without_effect() -> str:
    names = ", ".join(f"`{name}`" for name in sorted(settings_without_effect()))
    title = "## Kafka's settings without effect here"
    return f"{title}\n\nTaken, kept and named in the warning at start: {names}.\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
