"""Records of share groups and control records of the metadata log, as Kafka 4.3.0 wrote and printed them."""

import json

import pytest

from moldau.cli.kafka_tools.records.share_record_decoders import control_record, share_group_state
from moldau.protocol.control_records import ControlType
from moldau.protocol.records import Record

KEY = "0000 0003736731 3ce8dcd173a74ed6a9c7fad49a071b74 00000002"
SNAPSHOT = (
    "0000 00000000 00000004 00000000 ffffffffffffffff 000001a1e13468f5 000001a1e13468f5 01 00"  # no batches
)
UPDATE = "0000 00000000 00000002 ffffffffffffffff 01 00"
SHOWN_KEY = {"groupId": "sg1", "topicId": "POjc0XOnTtapx_rUmgcbdA", "partition": 2}


def record(key: str, value: str | None) -> Record:
    return Record(7, 0, bytes.fromhex(key), None if value is None else bytes.fromhex(value))


def test_a_snapshot() -> None:
    key, value = share_group_state(record(KEY, SNAPSHOT))
    assert key == json.dumps({"type": "0", "data": SHOWN_KEY}, separators=(",", ":"))
    assert value == (
        '{"version":"0","data":{"snapshotEpoch":0,"stateEpoch":4,"leaderEpoch":0,"startOffset":-1,'
        '"createTimestamp":1794779670773,"writeTimestamp":1794779670773,"stateBatches":[]}}'
    )
    tagged = SNAPSHOT.removesuffix("00") + "01 00 04 00000000"
    _, value = share_group_state(record(KEY, tagged))
    assert value is not None
    assert '"startOffset":-1,"deliveryCompleteCount":0,"createTimestamp"' in value


def test_an_update_and_a_deletion() -> None:
    key, value = share_group_state(record(f"0001{KEY[4:]}", UPDATE))
    assert key.startswith('{"type":"1"')
    assert value == (
        '{"version":"0","data":{"snapshotEpoch":0,"leaderEpoch":2,"startOffset":-1,"stateBatches":[]}}'
    )
    assert share_group_state(record(KEY, None))[1] == "<DELETE>"
    batch = "02 0000000000000001 0000000000000005 02 0003 00"
    _, value = share_group_state(record(f"0001{KEY[4:]}", UPDATE.replace("01 00", f"{batch} 00")))
    assert value is not None
    assert '[{"firstOffset":1,"lastOffset":5,"deliveryState":2,"deliveryCount":3}]' in value


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("0009", None, "Unknown record type 9 at offset 7, skipping."),
        ("", None, "Could not read record at offset 7 due to: it has no version"),
        ("000000", None, "Could not read record at offset 7"),
        (KEY, "0009", "Could not read record at offset 7"),
        (KEY, "0000 00", "Could not read record at offset 7"),
    ],
)
def test_what_cannot_be_read(key: str, value: str | None, told: str) -> None:
    shown, nothing = share_group_state(record(key, value))
    assert shown.startswith(told)
    assert nothing is None


def test_control_records() -> None:
    leader = bytes.fromhex("0000 00000001 02 00000001 00 02 00000001 00 00")
    assert control_record(ControlType.LEADER_CHANGE, leader) == (
        'LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}'
    )
    header = bytes.fromhex("0000 0000000000000000 00")
    assert control_record(ControlType.SNAPSHOT_HEADER, header) == (
        'SnapshotHeader {"version":0,"lastContainedLogTimestamp":0}'
    )
    footer = bytes.fromhex("0000 00")
    assert control_record(ControlType.SNAPSHOT_FOOTER, footer) == 'SnapshotFooter {"version":0}'
    assert control_record(ControlType.KRAFT_VOTERS, footer) is None
    assert control_record(ControlType.LEADER_CHANGE, b"\0\0") is None
    assert control_record(ControlType.LEADER_CHANGE, None) is None
