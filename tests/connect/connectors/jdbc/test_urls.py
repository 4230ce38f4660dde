"""URLs of databases: what they say, and which are refused."""

import pytest

from moldau.connect.connectors.jdbc.urls import DatabaseAddress
from moldau.connect.errors import ConfigException


def test_what_urls_say() -> None:
    assert DatabaseAddress.parse("jdbc:sqlite:test.db") == DatabaseAddress("sqlite", "test.db")
    assert DatabaseAddress.parse("jdbc:postgresql://db/shop?user=ann&password=s%20x") == DatabaseAddress(
        "postgresql", "shop", "db", 5432, "ann", "s x"
    )
    assert DatabaseAddress.parse("jdbc:mariadb://[::1]:3307/a%2Fb?useSSL=false", "me", "pw") == (
        DatabaseAddress("mysql", "a/b", "::1", 3307, "me", "pw")
    )


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sqlite:test.db",
        "jdbc:sqlite:",
        "jdbc:sqlite::memory:",
        "jdbc:oracle:thin:@db",
        "jdbc:postgresql://a,b/shop",
        "jdbc:postgresql://db:port/shop",
        "jdbc:mysql://db/shop?allowLoadLocalInfile=true&password=secret",
        "jdbc:postgresql://db/shop?socketFactory=org.springframework.x&password=secret",
        "jdbc:mysql://(host=db,autoDeserialize=true)/shop",
    ],
)
def test_what_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigException) as caught:
        DatabaseAddress.parse(url)
    assert "secret" not in str(caught.value)
