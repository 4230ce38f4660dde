"""Which topics, groups and configs go over a flow: lists of names and regular expressions.

Invariant: pure. As in MirrorMaker 2, an expression has to match the whole name, and what is excluded stays
out whatever else includes it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

TOPICS_EXCLUDE = (r"mm2.*\.internal", r".*\.replica", r"__.*")
GROUPS_EXCLUDE = (r"console-consumer-.*", r"connect-.*", r"__.*")
CONFIGS_EXCLUDE = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
)


@dataclass(frozen=True, slots=True)
class NameFilter:
    include: re.Pattern[str]
    exclude: re.Pattern[str]

    def __contains__(self, name: str) -> bool:
        return self.include.fullmatch(name) is not None and self.exclude.fullmatch(name) is None


def name_filter(include: Iterable[str], exclude: Iterable[str] = ()) -> NameFilter:
    """ValueError names an expression that is none."""
    return NameFilter(_joined(include), _joined(exclude))


def _joined(expressions: Iterable[str]) -> re.Pattern[str]:
    parts = [part.strip() for part in expressions if part.strip()]
    for part in parts:
        try:
            re.compile(part)
        except re.error as error:
            raise ValueError(f"{part!r} is not a regular expression: {error}") from None
    # An expression that matches nothing, where there are none.
    return re.compile("|".join(f"(?:{part})" for part in parts) if parts else r"(?!)")
