"""Settings of consumer instances: texts and plain JSON mean the same."""

import pytest

from moldau.rest.consumers.settings import InstanceSettings, read_settings
from moldau.rest.formats import Format
from moldau.web.problems import Problem


def test_nothing_is_the_default():
    assert read_settings({}) == InstanceSettings()
    assert InstanceSettings().auto_commit


def test_texts_and_plain_values():
    as_texts = {
        "name": "c",
        "format": "JSON",
        "auto.offset.reset": "EARLIEST",
        "auto.commit.enable": "false",
        "fetch.min.bytes": "512",
        "consumer.request.timeout.ms": "30000",
        "isolation.level": "read_committed",
        "redelivery": "true",
        "group.protocol": "consumer",
    }
    plain = {
        **as_texts,
        "auto.commit.enable": False,
        "fetch.min.bytes": 512,
        "consumer.request.timeout.ms": 30000,
        "redelivery": True,
    }
    expected = InstanceSettings("c", Format.JSON, "earliest", False, 512, 30000, True, True, "consumer")
    assert read_settings(as_texts) == read_settings(plain) == expected


def test_a_client_that_follows_is_not_told_all_the_time_that_there_is_nothing():
    assert read_settings({"consumer.request.timeout.ms": 0}).quiet_ms == 100
    assert read_settings({"consumer.request.timeout.ms": 5000}).quiet_ms == 5000


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x" * 201},
        {"format": 1},
        {"fetch.min.bytes": True},
        {"fetch.min.bytes": -2},
        {"fetch.min.bytes": "9" * 50},
        {"fetch.min.bytes": "--5"},
        {"consumer.request.timeout.ms": -1},
        {"redelivery": 1},
        {"group.protocol": "newest"},
    ],
)
def test_what_makes_no_sense(body):
    with pytest.raises(Problem) as refused:
        read_settings(body)
    assert refused.value.code == 42204
