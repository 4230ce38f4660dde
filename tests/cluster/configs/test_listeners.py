from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.settings import SettingError
from moldau.cluster.configs.listeners import broker_listeners, parse_listeners, parse_protocol_map
from moldau.cluster.records import Endpoint


@pytest.mark.parametrize(
    ("text", "listeners"),
    [
        ("PLAINTEXT://127.0.0.1:9092", [Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")]),
        ("PLAINTEXT://:9092", [Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT")]),
        ("plaintext://host_name:0", [Endpoint("PLAINTEXT", "host_name", 0, "PLAINTEXT")]),
        ("PLAINTEXT://[::1]:9092", [Endpoint("PLAINTEXT", "::1", 9092, "PLAINTEXT")]),
        ("PLAINTEXT://[fe80::1%eth0]:9092", [Endpoint("PLAINTEXT", "fe80::1%eth0", 9092, "PLAINTEXT")]),
        ("PLAINTEXT://::1:9092", [Endpoint("PLAINTEXT", "::1", 9092, "PLAINTEXT")]),
        (
            "PLAINTEXT://h:1, SSL://[::]:2",
            [Endpoint("PLAINTEXT", "h", 1, "PLAINTEXT"), Endpoint("SSL", "::", 2, "SSL")],
        ),
    ],
)
def test_listeners(text: str, listeners: list[Endpoint]) -> None:
    assert parse_listeners(text) == listeners


def test_a_listener_with_a_name_of_its_own() -> None:
    (listener,) = parse_listeners("A-B://h:1", {"A-B": "SASL_SSL"})
    assert listener == Endpoint("A-B", "h", 1, "SASL_SSL")


def test_listeners_read_back() -> None:
    text = "PLAINTEXT://[::1]:9092,SSL://h:1"
    assert ",".join(map(str, parse_listeners(text))) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PLAINTEXT://127.0.0.1", "Unable to parse PLAINTEXT://127.0.0.1 to a broker endpoint"),
        ("PLAINTEXT://127.0.0.1:x", "Unable to parse"),
        ("PLAINTEXT://127.0.0.1:-1", "Unable to parse"),
        ("PLAINTEXT:9092", "Unable to parse"),
        ("://h:1", "Unable to parse"),
        ("PLAINTEXT://a b:1", "Unable to parse"),
        ("PLAINTEXT://[::1:1", "Unable to parse"),
        ("", "Unable to parse"),
        ("PLAINTEXT://h:99999", "The port of PLAINTEXT://h:99999 must be between 0 and 65535"),
        ("FOO://h:1", "No security protocol defined for listener FOO"),
        ("SSL://h:1,SSL://h:2", "Each listener must have a different name, listeners: SSL://h:1, SSL://h:2"),
    ],
)
def test_no_listeners(text: str, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse_listeners(text)
    assert message in str(caught.value)


@pytest.mark.slow
@given(st.text("PLAINTEXT:/[]0123456789.,- "))
def test_any_text_is_listeners_or_refused(text: str) -> None:
    try:
        listeners = parse_listeners(text)
    except SettingError:
        return
    assert parse_listeners(",".join(map(str, listeners))) == listeners


def test_protocols() -> None:
    assert parse_protocol_map("internal:plaintext, PUBLIC:SASL_SSL,") == {
        "INTERNAL": "PLAINTEXT",
        "PUBLIC": "SASL_SSL",
    }
    assert parse_protocol_map("") == {}
    for text in ("PLAINTEXT:FOO", "PLAINTEXT", ":SSL"):
        with pytest.raises(SettingError, match="Invalid security protocol"):
            parse_protocol_map(text)


def values(**changes: Any) -> dict[str, Any]:
    return {
        "listeners": ("PLAINTEXT://127.0.0.1:9092",),
        "advertised.listeners": None,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,SSL:SSL",
        "controller.listener.names": None,
        "inter.broker.listener.name": None,
        "security.inter.broker.protocol": "PLAINTEXT",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


def test_advertised_unless_told_otherwise() -> None:
    listeners = broker_listeners(values())
    assert listeners.bound == listeners.advertised
    assert listeners.inter_broker == listeners.bound[0]


def test_the_controllers_listeners_are_left_out() -> None:
    listeners = broker_listeners(
        values(
            listeners=("PLAINTEXT://:9092", "CONTROLLER://:9093"),
            advertised_listeners=("PLAINTEXT://h:9092", "CONTROLLER://h:9093"),
            controller_listener_names=("CONTROLLER",),
        )
    )
    assert [listener.name for listener in listeners.bound] == ["PLAINTEXT"]
    assert listeners.advertised == (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),)
    assert listeners.left_out == ("CONTROLLER",)


def test_brokers_come_in_by_the_listener_that_is_named() -> None:
    two = ("PLAINTEXT://:1", "OTHER://:2")
    assert broker_listeners(values(listeners=two)).inter_broker.name == "PLAINTEXT"
    assert (
        broker_listeners(values(listeners=two, inter_broker_listener_name="OTHER")).inter_broker.name
        == "OTHER"
    )
    assert broker_listeners(values(listeners=("OTHER://:2",))).inter_broker.name == "OTHER"


@pytest.mark.parametrize(
    "listeners",
    [
        ("PLAINTEXT://127.0.0.1:1", "OTHER://[::1]:1"),
        ("PLAINTEXT://:0", "OTHER://:0"),
        ("PLAINTEXT://:1", "OTHER://:2"),
    ],
)
def test_ports_that_go_together(listeners: tuple[str, ...]) -> None:
    assert len(broker_listeners(values(listeners=listeners)).bound) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"listeners": ("PLAINTEXT://127.0.0.1:1", "OTHER://127.0.0.2:1")}, "must have a different port"),
        ({"listeners": ("PLAINTEXT://:1", "OTHER://[::1]:1")}, "must have a different port"),
        ({"controller_listener_names": ("PLAINTEXT",)}, "at least one that is not for the controller"),
        ({"listeners": ("X://:1",)}, "No security protocol defined for listener X"),
        ({"listeners": ("PLAINTEXT://0.0.0.0:1",)}, "cannot use the nonroutable meta-address 0.0.0.0"),
        ({"advertised_listeners": ("PLAINTEXT://0.0.0.0:1",)}, "cannot use the nonroutable meta-address"),
        (
            {"advertised_listeners": ("OTHER://h:1",)},
            "must be equal to or a subset of the ones defined in listeners",
        ),
        (
            {"inter_broker_listener_name": "X"},
            "inter.broker.listener.name must be a listener name defined in",
        ),
        (
            {
                "listeners": ("PLAINTEXT://:1", "OTHER://:2"),
                "controller_listener_names": ("OTHER",),
                "advertised_listeners": ("OTHER://h:2",),
            },
            "advertised.listeners must have at least one of PLAINTEXT",
        ),
    ],
)
def test_what_does_not_agree(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        broker_listeners(values(**changes))
    assert message in str(caught.value)
