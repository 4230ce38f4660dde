"""Where a database is, as configurations say it: ``jdbc:sqlite:test.db``, ``jdbc:postgresql://host/db?user=me``.

Invariant: parameters that are not known are refused, because some drivers read files or load classes by
theirs; a password never stands in an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from moldau.connect.errors import ConfigException

_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
#: Parameters that mean the same here, or that are about Java's drivers alone and change nothing here.
_TAKEN = frozenset({"user", "password", "sslmode", "currentschema", "applicationname"})
_PASSED_OVER = frozenset(
    {
        "usessl",
        "characterencoding",
        "useunicode",
        "servertimezone",
        "allowpublickeyretrieval",
        "rewritebatchedstatements",
        "rewritebatchedinserts",
        "stringtype",
        "tcpkeepalive",
        "usecursorfetch",
        "zerodatetimebehavior",
    }
)


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """``kind`` is sqlite, postgresql or mysql."""

    kind: str
    #: The file of SQLite, else the name of the database.
    database: str
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, url: str, user: str | None = None, password: str | None = None) -> "DatabaseAddress":
        kind, rest = _kind(url)
        if kind == "sqlite":
            path = rest.partition("?")[0].removeprefix("file:")
            if not path or path == ":memory:":
                raise _bad("a file has to be named, as in jdbc:sqlite:/data/test.db")
            return cls(kind, path)
        try:
            parts = urlsplit(f"//{rest.removeprefix('//')}")
            port = parts.port or _PORTS[kind]
        except ValueError:
            raise _bad(f"it is written as jdbc:{kind}://host:port/database") from None
        parameters = _parameters(parts.query)
        host = parts.hostname or "localhost"
        if "," in host or "(" in host:
            raise _bad("one host is supported")
        return cls(
            "mysql" if kind == "mariadb" else kind,
            unquote(parts.path.lstrip("/")),
            host,
            port,
            user or parameters.pop("user", ""),
            password or parameters.pop("password", ""),
            {name: value for name, value in parameters.items() if name not in ("user", "password")},
        )


def _kind(url: str) -> tuple[str, str]:
    words = url.strip().split(":", 2)
    if len(words) == 3 and words[0] == "jdbc" and words[1] in ("sqlite", *_PORTS):
        return words[1], words[2]
    raise _bad("known are jdbc:sqlite:, jdbc:postgresql:, jdbc:mysql: and jdbc:mariadb:")


def _parameters(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        lower = name.lower()
        if lower in _TAKEN:
            found[lower] = value
        elif lower not in _PASSED_OVER:
            raise _bad(f"the parameter {name} is not supported")
    return found


def _bad(reason: str) -> ConfigException:
    """The URL itself may hold a password, so it is not shown."""
    return ConfigException(f"Invalid value for configuration connection.url: {reason}")
