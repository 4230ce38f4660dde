"""The settings of one listener: its own ones, ``listener.name.<name>.<setting>``, before those of the broker.

Invariant: values are typed and valid, as all settings are; a secret stays a ``Password``.
"""

from typing import Any

from moldau.base.settings import Password, SettingError
from moldau.cluster.configs.broker_configs import BROKER_SETTINGS
from moldau.cluster.configs.layers import ConfigLayers

#: Security settings that can change dynamically only for one listener, as ``listener.name.<listener>.…``.
PER_LISTENER_SETTINGS = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)


class ListenerSettings:
    def __init__(self, layers: ConfigLayers, listener_name: str) -> None:
        self._layers = layers
        self.name = listener_name
        self.prefix = f"listener.name.{listener_name.lower()}."

    def __getitem__(self, name: str) -> Any:
        """The listener's own value, else the broker's."""
        own = self.own(name)
        return self._layers.value(name) if own is None else own

    def own(self, name: str) -> Any:
        """The listener's own value; None where it has none."""
        setting = BROKER_SETTINGS[name]
        for layer in (self._layers.broker, self._layers.default_broker, self._layers.static):
            text = layer.get(self.prefix + name)
            if text is not None:
                try:
                    return setting.parse(text)
                except SettingError:
                    continue
        return None

    def secret(self, name: str) -> str | None:
        value: Password | None = self[name]
        return None if value is None else value.value

    def is_set(self, name: str) -> bool:
        """Whether the listener has a value of its own."""
        return any(self.prefix + name in layer for layer in (self._layers.broker, self._layers.static))

    def jaas(self, mechanism: str) -> str | None:
        """The JAAS line for a mechanism: the most specific one that there is."""
        own = f"{mechanism.lower()}.sasl.jaas.config"
        for name in (self.prefix + own, self.prefix + "sasl.jaas.config", own, "sasl.jaas.config"):
            for layer in (self._layers.broker, self._layers.default_broker, self._layers.static):
                if (text := layer.get(name)) is not None:
                    return text
        return None
