"""Files under names, in a folder and in a bucket."""

from pathlib import Path
from typing import Any

import pytest

from moldau.base.object_stores import LocalStore, ObjectStore, Store, StoreError


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return LocalStore(tmp_path / "there")
    stores: Any = pytest.importorskip("obstore.store")
    made = ObjectStore("bucket", {"region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"})
    made._store = stores.MemoryStore()  # the same calls, without a server
    made._prefix = "below/"
    return made


def test_there_and_back(store: Store) -> None:
    store.put("a/2", b"two")
    store.put("a/1", b"one")
    store.put("b/3", b"three")
    store.put("a/1", b"another")
    assert store.names("a/") == ["a/1", "a/2"]
    assert store.get("a/1") == b"another"
    store.delete("a/1")
    assert store.names("a/") == ["a/2"]
    assert store.names("nowhere/") == []


def test_what_is_not_there(store: Store) -> None:
    with pytest.raises(FileNotFoundError):
        store.get("nowhere")


def test_no_name_leads_out(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="leads out"):
        LocalStore(tmp_path).put("../x", b"")


def test_a_store_that_does_not_answer_tells_no_secret() -> None:
    pytest.importorskip("obstore")
    options = {
        "region": "us-east-1",
        "endpoint": "http://127.0.0.1:1",
        "access_key_id": "a",
        "secret_access_key": "hush-hush",
    }
    store = ObjectStore("bucket", options)
    from datetime import timedelta

    import obstore.store

    # Nothing listens at port 1: one attempt is enough to know.
    store._store = obstore.store.S3Store(
        "bucket",
        config={**options},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=1)},
    )
    with pytest.raises(StoreError) as caught:
        store.get("x")
    assert caught.value.retriable
    assert "hush-hush" not in str(caught.value)
