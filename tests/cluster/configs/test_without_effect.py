"""Settings of Kafka that are taken, kept and ignored."""

from moldau.base.settings import SettingType
from moldau.cluster.configs.broker_configs import BROKER_SETTINGS
from moldau.cluster.configs.without_effect import settings_without_effect


def test_a_name_is_declared_in_one_place_only() -> None:
    assert not settings_without_effect().keys() & BROKER_SETTINGS.keys()


def test_each_has_a_type() -> None:
    found = settings_without_effect()
    assert found["process.roles"].type is SettingType.LIST
    assert found["controller.quorum.fetch.timeout.ms"].type is SettingType.INT
    assert all(setting.type is not SettingType.UNKNOWN for setting in found.values())
