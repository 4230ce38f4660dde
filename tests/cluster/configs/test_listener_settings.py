"""Settings of one listener before those of the broker."""

from moldau.cluster.configs.broker_configs import BROKER_SETTINGS
from moldau.cluster.configs.layers import ConfigLayers
from moldau.cluster.configs.listener_settings import PER_LISTENER_SETTINGS, ListenerSettings


def test_the_listeners_own_value_comes_first() -> None:
    layers = ConfigLayers(
        {"ssl.client.auth": "required", "listener.name.internal.ssl.client.auth": "none"},
        broker={"listener.name.public.ssl.keystore.location": "/new"},
    )
    assert ListenerSettings(layers, "INTERNAL")["ssl.client.auth"] == "none"
    public = ListenerSettings(layers, "PUBLIC")
    assert public["ssl.client.auth"] == "required"
    assert public["ssl.keystore.location"] == "/new"
    assert public["ssl.enabled.protocols"] == ("TLSv1.2", "TLSv1.3")


def test_jaas_lines_by_listener_and_mechanism() -> None:
    names = (
        "listener.name.a.plain.sasl.jaas.config",
        "listener.name.a.sasl.jaas.config",
        "plain.sasl.jaas.config",
        "sasl.jaas.config",
    )
    for count in range(len(names)):
        layers = ConfigLayers({name: name for name in names[count:]})
        assert ListenerSettings(layers, "A").jaas("PLAIN") == names[count]
    assert ListenerSettings(ConfigLayers(), "A").jaas("PLAIN") is None


def test_secrets_are_texts_only_where_they_are_asked_for() -> None:
    settings = ListenerSettings(ConfigLayers({"ssl.key.password": "hunter2"}), "A")
    assert settings.secret("ssl.key.password") == "hunter2"
    assert "hunter2" not in repr(settings["ssl.key.password"])
    assert settings.secret("ssl.keystore.password") is None


def test_what_a_listener_may_have_is_known() -> None:
    assert BROKER_SETTINGS.keys() >= PER_LISTENER_SETTINGS
