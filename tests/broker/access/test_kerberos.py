"""A listener with GSSAPI that cannot be: it says what is missing. Real logins: ``tests/conformance``."""

from pathlib import Path

import pytest

from moldau.base.settings import SettingError
from moldau.testing import Broker

_MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"


@pytest.mark.parametrize(
    ("jaas", "message"),
    [
        (None, "GSSAPI has no key table: set listener.name.sasl_plaintext.gssapi.sasl.jaas.config"),
        (f"{_MODULE};", "GSSAPI needs keyTab and principal"),
        (f'{_MODULE} keyTab="/none" principal="kafka/h@R";', "there is no key table /none"),
    ],
)
def test_what_is_missing_is_named(jaas: str | None, message: str) -> None:
    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "GSSAPI"}
    if jaas is not None:
        settings["listener.name.sasl_plaintext.gssapi.sasl.jaas.config"] = jaas
    with pytest.raises(SettingError, match=message), Broker(settings):
        pass


def test_a_rule_that_is_none(tmp_path: Path) -> None:
    table = tmp_path / "kafka.keytab"
    table.write_bytes(b"\x05\x02")
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.principal.to.local.rules": "RULE:x",
        "sasl.jaas.config": f'{_MODULE} keyTab="{table}" principal="kafka/h@R";',
    }
    with pytest.raises(SettingError, match="which is no rule"), Broker(settings):
        pass
