"""JAAS lines: ``…PlainLoginModule required username="ada" password="secret";``, and files of them.

Invariant: only the options are read; the name of the module is compared with known ones where that matters
and never loaded. No error shows a value, because values are secrets.
"""

import re
from typing import NamedTuple

_OPTION = re.compile(r"""([\w.\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_ESCAPE = re.compile(r"\\(.)")


class LoginModule(NamedTuple):
    name: str
    options: dict[str, str]


def parse_jaas(text: str) -> LoginModule:
    """The module of a line and its options; ValueError when it is no such line."""
    words = text.split(None, 2)
    if len(words) < 2 or words[1].rstrip(";") not in ("required", "requisite", "sufficient", "optional"):
        raise ValueError("a JAAS line reads: <login module> required <option>=<value> …;")
    return LoginModule(words[0], jaas_options(text))


def jaas_options(text: str) -> dict[str, str]:
    """The options of a line, without their quotes."""
    options = {}
    for name, double, single, bare in _OPTION.findall(text):
        options[name] = _ESCAPE.sub(r"\1", double or single) or bare
    return options


def plain_users(text: str) -> dict[str, str]:
    """Passwords by user, from the ``user_<name>`` options of a broker's PlainLoginModule."""
    return {
        name.removeprefix("user_"): value
        for name, value in parse_jaas(text).options.items()
        if name.startswith("user_")
    }


# --- files -------------------------------------------------------------------------------------------------

_COMMENT = re.compile(r"""("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_SECTION = re.compile(r"""\s*([\w.\-]+)\s*\{((?:[^{}"]|"(?:[^"\\]|\\.)*")*)\}\s*;?""")
_LINE = re.compile(r"""(?:[^;"]|"(?:[^"\\]|\\.)*")+;""")
#: The last word of a module's name, and the mechanisms that it is for.
_MECHANISMS = {
    "PlainLoginModule": ("plain",),
    "ScramLoginModule": ("scram-sha-256", "scram-sha-512"),
    "OAuthBearerLoginModule": ("oauthbearer",),
    "Krb5LoginModule": ("gssapi",),
}
_SERVER, _CLIENT, _ZOOKEEPER = "KafkaServer", "KafkaClient", "Client"


def check_login_module(text: str) -> None:
    """ValueError, without a value, when a line names no login module that is known, or has no clear end."""
    module = parse_jaas(text)
    if module.name.rpartition(".")[2] not in _MECHANISMS:
        raise ValueError(f"the login module must be one of {', '.join(_MECHANISMS)}")
    if not text.rstrip().endswith(";"):
        raise ValueError("a JAAS line ends with a semicolon")


def parse_jaas_file(text: str) -> dict[str, list[str]]:
    """The lines of each section, as ``KafkaServer { … };``; ValueError when it is no such file."""
    text = _COMMENT.sub(lambda found: found[1] or " ", text)
    sections: dict[str, list[str]] = {}
    position = 0
    while text[position:].strip():
        found = _SECTION.match(text, position)
        if found is None:
            raise ValueError(
                "a JAAS file reads: KafkaServer { <login module> required <option>=<value> …; };"
            )
        lines = [line.strip() for line in _LINE.findall(found[2])]
        for line in lines:
            parse_jaas(line)
        sections.setdefault(found[1], []).extend(lines)
        position = found.end()
    return sections


def server_settings(text: str) -> dict[str, str]:
    """A broker's settings that say the same as a JAAS file: ``plain.sasl.jaas.config`` and others.

    A section ``<listener>.KafkaServer`` is for that listener alone.
    """
    settings: dict[str, str] = {}
    for section, lines in parse_jaas_file(text).items():
        listener, _, kind = section.rpartition(".")
        if kind != _SERVER:
            continue
        prefix = f"listener.name.{listener.lower()}." if listener else ""
        for line in lines:
            for mechanism in _MECHANISMS.get(parse_jaas(line).name.rpartition(".")[2], ()):
                settings.setdefault(f"{prefix}{mechanism}.sasl.jaas.config", line)
    return settings


def client_setting(text: str) -> str | None:
    """The line of a JAAS file that is for clients, if there is one."""
    return next(iter(parse_jaas_file(text).get(_CLIENT, ())), None)


def zookeeper_settings(text: str, options: str) -> dict[str, str]:
    """A broker's settings for its login at ZooKeeper, from a JAAS file and the properties of ``KAFKA_OPTS``.

    The section is ``Client`` unless ``-Dzookeeper.sasl.clientconfig`` names another, and what the servers are
    called in Kerberos is ``-Dzookeeper.sasl.client.username``; ``-Dzookeeper.sasl.client=false`` is no login.
    """
    lines = parse_jaas_file(text).get(_property(options, "zookeeper.sasl.clientconfig") or _ZOOKEEPER)
    if not lines or _property(options, "zookeeper.sasl.client") == "false":
        return {}
    found = {"moldau.zookeeper.sasl.jaas.config": lines[0]}
    service = _property(options, "zookeeper.sasl.client.username")
    return found if service is None else found | {"moldau.zookeeper.sasl.service.name": service}


def file_of_options(options: str) -> str | None:
    """The JAAS file that ``KAFKA_OPTS`` names: ``-Djava.security.auth.login.config=FILE``."""
    return _property(options, "java.security.auth.login.config")


def _property(options: str, name: str) -> str | None:
    found = re.search(rf"""-D{re.escape(name)}==?("[^"]*"|'[^']*'|\S+)""", options)
    return None if found is None else found[1].strip("\"'")
