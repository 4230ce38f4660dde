"""The settings of a broker: each declared once, with a sentence, and a default that it would take itself."""

from moldau.cluster.configs.broker_configs import BROKER_SETTINGS, broker_setting
from moldau.cluster.configs.topic_configs import TOPIC_SETTINGS


def test_every_setting_takes_its_own_default() -> None:
    for setting in BROKER_SETTINGS.values():
        assert setting.doc, setting.name
        if setting.default is not None and setting.valid is not None:
            setting.valid.check(setting.name, setting.default)


def test_what_topics_inherit_is_there() -> None:
    wider = {name for setting in TOPIC_SETTINGS.values() for name, _ in setting.synonyms}
    assert wider
    assert wider <= {*BROKER_SETTINGS}


def test_a_setting_is_found_with_and_without_effect() -> None:
    found = broker_setting("num.partitions")
    assert found is BROKER_SETTINGS["num.partitions"]
    ignored = broker_setting("process.roles")
    assert ignored is not None
    assert "process.roles" not in BROKER_SETTINGS
    assert broker_setting("no.such.setting") is None


def test_settings_of_one_listener_are_known_by_their_own_name() -> None:
    found = broker_setting("listener.name.internal.ssl.keystore.location")
    assert found is not None
    assert found.name == "ssl.keystore.location"
