"""Hosts of connectors: what is refused, in whatever form an address is written."""

import pytest

from moldau.connect.config.hosts import AllowedHosts
from moldau.connect.errors import ConfigException


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "2852039166",
        "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376",
        "[::ffff:169.254.169.254]",
        "fe80::1",
        "fd00:ec2::254",
        "[64:ff9b::a9fe:a9fe]",
        "::169.254.169.254",
        "100.100.100.200",
        "metadata.google.internal",
        "METADATA.google.internal.",
        "",
    ],
)
def test_where_clouds_keep_secrets_is_refused(host: str) -> None:
    with pytest.raises(ConfigException):
        AllowedHosts().check(host)


def test_without_a_list_other_hosts_are_allowed() -> None:
    for host in ("127.0.0.1", "localhost", "10.0.0.7", "::1"):
        AllowedHosts().check(host)


def test_a_list_is_all_there_is() -> None:
    known = {"db.example": ["10.1.2.3"], "evil.example": ["10.1.2.3", "127.0.0.1"]}
    hosts = AllowedHosts(
        ["10.1.0.0/16", "*.inner.example"], lambda name: known.get(name, [name] if name[0].isdigit() else [])
    )
    for allowed in ("10.1.9.9", "db.example", "a.inner.example"):
        hosts.check(allowed)
    for refused in ("10.2.0.1", "evil.example", "127.0.0.1", "inner.example"):
        with pytest.raises(ConfigException, match="is not permitted to be reached"):
            hosts.check(refused)
