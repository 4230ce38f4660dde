"""Who a connection is: principals, and the names that certificates are mapped to.

Invariant: a principal is written ``Type:name``, as in ACLs, and compared as that text, byte for byte. A
distinguished name reads as Java's brokers show it (RFC 2253), so that ACLs of a Kafka cluster fit.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    name: str
    type: str = USER

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("ANONYMOUS")
#: A broker that asks the controller for itself, in an envelope. No client can be one: it has another type.
BROKER = Principal("self", "Broker")


class Identity(NamedTuple):
    """Whom a login has shown a client to be, and until when that holds."""

    principal: Principal
    #: Milliseconds since 1970; None for as long as the connection lives.
    expires_at_ms: int | None = None
    #: A client that came with a delegation token may not ask for further tokens.
    by_delegation_token: bool = False


def parse_principal(text: str) -> Principal:
    """``User:alice``; ValueError, in Kafka's words, for what is none."""
    if not text:
        raise ValueError("expected a string in format principalType:principalName but got ")
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(
            f"Could not parse principal from `{text}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    return Principal(name, kind)


def parse_super_users(text: str) -> frozenset[str]:
    """``super.users``: principals with a semicolon between them, because names may have commas."""
    return frozenset(str(parse_principal(item.strip())) for item in text.split(";") if item.strip())


# --- Distinguished names -------------------------------------------------------------------------------

#: Attribute types as Python's ``ssl`` names them, and the keywords of RFC 2253.
_KEYWORDS = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
#: Attribute types without a keyword are shown by number, their values in hexadecimal.
_NUMBERS = {"emailAddress": ("1.2.840.113549.1.9.1", 0x16), "serialNumber": ("2.5.4.5", 0x13)}
_SPECIAL = re.compile(r'([,+"\\<>;])')


def distinguished_name(subject: Iterable[Sequence[tuple[str, str]]]) -> str:
    """A subject as ``ssl.SSLObject.getpeercert`` gives it, such as ``CN=Alice,OU=Users,C=CZ``."""
    parts = ["+".join(_attribute(kind, value) for kind, value in relative) for relative in subject]
    return ",".join(reversed(parts))


def _attribute(kind: str, value: str) -> str:
    keyword = _KEYWORDS.get(kind)
    if keyword is not None:
        return f"{keyword}={_escaped(value)}"
    number, tag = _NUMBERS.get(kind, (kind, 0x0C))
    data = value.encode()
    return f"{number}=#{tag:02x}{len(data):02x}{data.hex()}"


def _escaped(value: str) -> str:
    value = _SPECIAL.sub(r"\\\1", value)
    if value[:1] in (" ", "#"):
        value = "\\" + value
    if value[-1:] == " ":
        value = value[:-1] + "\\ "
    return value


# --- ssl.principal.mapping.rules -----------------------------------------------------------------------

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_BACK_REFERENCE = re.compile(r"\$(\d+)")


class _Rule(NamedTuple):
    """One rule; without a pattern it is DEFAULT, the name as it stands."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name.strip())
        if found is None:
            return None
        groups = (found.group(0), *(group or "" for group in found.groups()))

        def group(reference: re.Match[str]) -> str:
            number = int(reference.group(1))
            return groups[number] if number < len(groups) else reference.group(0)

        mapped = _BACK_REFERENCE.sub(group, self.replacement)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)


class PrincipalMapping:
    """Names of certificates to names of principals, by the first rule that fits."""

    def __init__(self, text: str = "DEFAULT") -> None:
        """ValueError for rules that cannot be read."""
        self._rules: list[_Rule] = []
        position = 0
        text = text.strip() or "DEFAULT"
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None or found.end() == position:
                raise ValueError(f"Invalid rule: `{text[position:]}`")
            default, pattern, replacement, case = found.groups()
            try:
                rule = _Rule() if default else _Rule(re.compile(pattern), replacement, case)
            except re.error as error:
                raise ValueError(f"Invalid rule: `{pattern}` ({error})") from None
            self._rules.append(rule)
            position = found.end()

    def name_of(self, distinguished: str) -> str:
        """ValueError where no rule fits: a client that cannot be named is nobody."""
        for rule in self._rules:
            mapped = rule.apply(distinguished)
            if mapped is not None:
                return mapped
        raise ValueError(f"no rule of ssl.principal.mapping.rules fits {distinguished}")
