"""Records that are made of others."""

from dataclasses import replace

import pytest

from moldau.connect.records import ConnectRecord, Header, SinkRecord, SourceRecord


@pytest.mark.parametrize(
    "record", [SinkRecord(topic="t", offset=5, key=1), SourceRecord(topic="t", source_offset={"at": 3})]
)
def test_a_changed_record_has_all_else_of_the_old_one(record: ConnectRecord) -> None:
    assert record.replaced() == record
    changes = {"topic": "u", "value": [1], "partition": None, "headers": (Header("a", None, 1),)}
    for names in (["topic"], ["value", "partition"], [*changes]):
        some = {name: changes[name] for name in names}
        made = record.replaced(**some)
        assert made == replace(record, **some)  # type: ignore[arg-type]
        assert type(made) is type(record)
    assert record.topic == "t"
    with pytest.raises(TypeError, match="colour"):
        record.replaced(colour="red")
