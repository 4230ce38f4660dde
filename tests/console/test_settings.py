"""Clusters from a file, and what cannot be used."""

import pytest

from moldau.console.settings import ClusterSettings, ConsoleSettings, read_clusters

TEXT = """
mask = ["*:value.password"]
[[cluster]]
name = "production"
bootstrap_servers = "kafka1:9092,kafka2:9092"
schema_registry = "http://registry:8081"
client = { "security.protocol" = "SASL_PLAINTEXT", "sasl.mechanism" = "PLAIN" }
[[cluster]]
name = "test"
bootstrap_servers = "127.0.0.1:9092"
[cluster.client]
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "PLAIN"
"""


def test_a_file_of_clusters() -> None:
    clusters, masks = read_clusters(TEXT)
    assert [each.name for each in clusters] == ["production", "test"]
    assert clusters[0].client == clusters[1].client
    assert masks[0].steps == ("password",)
    settings = ConsoleSettings(clusters, login=True)
    assert settings.cluster("test") is clusters[1]
    assert settings.cluster("other") is None
    own = clusters[0].security("ann", "secret")
    assert (own.credentials.username, own.credentials.password) == ("ann", "secret")
    assert "secret" not in repr(clusters[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = ", "no TOML"),
        ("x = 1", "unknown: x"),
        ("cluster = 1", "written as"),
        ('[[cluster]]\nname = "a"', "bootstrap_servers is missing"),
        ('[[cluster]]\nname = "a/b"\nbootstrap_servers = "x:1"', "letters, digits"),
        ('[[cluster]]\nbootstrap_servers = "x:1"\nregistry = "y"', "unknown: registry"),
        ('mask = ["x"]', "is no mask"),
        ('[[cluster]]\nbootstrap_servers = "x:1"\nclient = "y"', "client is a table"),
    ],
)
def test_what_is_wrong_is_said(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_clusters(text)


def test_settings_that_do_not_fit() -> None:
    plain = ClusterSettings("local", "127.0.0.1:9092")
    with pytest.raises(ValueError, match="asks nobody who they are"):
        ConsoleSettings((plain,), login=True)
    with pytest.raises(ValueError, match="a name of its own"):
        ConsoleSettings((plain, plain))
    with pytest.raises(ValueError, match="no regular expression"):
        ConsoleSettings((plain,), topic_pattern="(")
