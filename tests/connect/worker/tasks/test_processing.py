"""Steps that fail: with whatever error, it is the record's, and says which step it was."""

import pytest

from moldau.connect.worker.settings import WorkerSettings, standalone_settings
from moldau.connect.worker.tasks.processing import RawRecord, Stage, StepFailed, process, processing_of

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def worker() -> WorkerSettings:
    given = {"key.converter": STRING, "value.converter": JSON, "offset.storage.file.filename": "-"}
    return standalone_settings({**given, "value.converter.schemas.enable": "false"})


def raw(value: bytes) -> RawRecord:
    return RawRecord("t", 0, None, value, (), None, 0)


@pytest.mark.parametrize("depth", [900, 100_000])
def test_a_value_that_is_nested_too_deeply_is_a_bad_record(worker: WorkerSettings, depth: int) -> None:
    """One that ``errors.tolerance`` is about: else whoever may write to a topic stops its sinks."""
    deep = b"[" * depth + b"]" * depth
    found = process([raw(b"1"), raw(deep), raw(b"2")], processing_of({}, worker).incoming)
    assert len(found.done) == 1
    assert isinstance(found.failed, StepFailed)
    assert found.failed.stage is Stage.VALUE_CONVERTER
    assert found.failed.error.java_class == "org.apache.kafka.connect.errors.DataException"


def test_a_transform_that_fails_in_its_own_way(
    worker: WorkerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"transforms": "h", "transforms.h.type": "org.apache.kafka.connect.transforms.HoistField$Value"}
    processing = processing_of({**given, "transforms.h.field": "f"}, worker)

    def fail(record: object) -> None:
        raise KeyError("colour")

    monkeypatch.setattr(processing.chain[0].transform, "apply", fail)
    with pytest.raises(StepFailed) as raised:
        processing.incoming(raw(b"1"))
    assert raised.value.stage is Stage.TRANSFORMATION
    assert raised.value.error.message == "KeyError: 'colour'"
