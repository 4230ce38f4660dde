"""The store that a broker's settings name."""

import asyncio
import sys
from pathlib import Path

import pytest

from moldau.base.clock import SystemClock
from moldau.cluster.configs.broker_settings import load_broker_settings
from moldau.cluster.store.contract import MetadataStoreError
from moldau.cluster.store.local import LocalStore
from moldau.cluster.store.opening import metadata_store


def test_files_in_the_first_log_directory_or_where_the_setting_says(tmp_path: Path) -> None:
    async def scenario(settings: dict[str, str], expected: Path) -> None:
        store = metadata_store(load_broker_settings(settings), SystemClock())
        assert isinstance(store, LocalStore)
        await store.load()
        assert (expected / "metadata.sqlite").exists()
        await store.close()

    logs = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    asyncio.run(scenario(logs, tmp_path / "a"))
    asyncio.run(scenario({**logs, "moldau.metadata.dir": str(tmp_path / "shared")}, tmp_path / "shared"))


def test_zookeeper_without_kazoo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moldau.cluster.store.zookeeper.store", None)
    settings = load_broker_settings({"zookeeper.connect": "h:2181"})
    with pytest.raises(MetadataStoreError, match=r"pip install 'moldau\[cluster\]'"):
        metadata_store(settings, SystemClock())
