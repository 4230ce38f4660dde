"""Users' names from Kerberos names, by Kafka's ``sasl.kerberos.principal.to.local.rules``.

    RULE:[2:$1-$2](bob-admin)s/-admin/_adm/,DEFAULT      bob/admin@EXAMPLE.COM is bob_adm

Invariant: the first rule that fits decides; a name that no rule fits has no user, and is refused.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

_RULE = re.compile(
    r"(?:DEFAULT|RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?)"
)
_PLACE = re.compile(r"\$(\d)")
_REFERENCE = re.compile(r"\$(\d+)")


class KerberosName(NamedTuple):
    components: tuple[str, ...]
    realm: str


def parse_name(text: str) -> KerberosName:
    """``kafka/host@REALM``; ValueError for what is none."""
    name, at, realm = text.rpartition("@")
    if not at:
        name, realm = text, ""
    components = tuple(name.split("/"))
    if not all(components) or len(components) > 2 or "@" in name:
        raise ValueError(f"{text!r} is no Kerberos name")
    return KerberosName(components, realm)


class KerberosRules:
    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """ValueError for a rule that cannot be read."""
        self._default_realm = default_realm
        self._rules = [self._read(rule.strip()) for rule in rules if rule.strip()]

    def _read(self, rule: str) -> re.Match[str]:
        read = _RULE.fullmatch(rule)
        if read is None:
            raise ValueError(f"sasl.kerberos.principal.to.local.rules has {rule!r}, which is no rule")
        for part in (read["match"], read["pattern"]):
            try:
                re.compile(part or "")
            except re.error:
                raise ValueError(
                    f"sasl.kerberos.principal.to.local.rules has {part!r}: no expression"
                ) from None
        return read

    def user(self, text: str) -> str:
        """The user that a Kerberos name stands for; ValueError when no rule fits."""
        name = parse_name(text)
        for rule in self._rules:
            found = self._apply(rule, name)
            if found is not None:
                return found
        raise ValueError(f"no rule of sasl.kerberos.principal.to.local.rules fits {text}")

    def _apply(self, rule: re.Match[str], name: KerberosName) -> str | None:
        if rule["count"] is None:  # DEFAULT: the first component of a name of this realm
            return name.components[0] if name.realm in ("", self._default_realm) else None
        if int(rule["count"]) != len(name.components):
            return None
        parts = (name.realm, *name.components)
        if any(int(place) >= len(parts) for place in _PLACE.findall(rule["format"])):
            return None
        found = _PLACE.sub(lambda place: parts[int(place[1])], rule["format"])
        if rule["match"] is not None and re.fullmatch(rule["match"], found) is None:
            return None
        if rule["pattern"] is not None:
            replacement = _REFERENCE.sub(r"\\g<\1>", rule["replacement"].replace("\\", "\\\\"))
            found = re.sub(rule["pattern"], replacement, found, count=0 if rule["all"] else 1)
        if rule["case"] == "L":
            found = found.lower()
        elif rule["case"] == "U":
            found = found.upper()
        if not found or "/" in found or "@" in found:
            raise ValueError(f"a rule of sasl.kerberos.principal.to.local.rules makes no user of {name}")
        return found
