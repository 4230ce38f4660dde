"""Bugs that no run of the simulation has met: for each of them a test that fails when the bug is there.

The tests stand where their subject is tested; here each is called without its mutant and with it.
"""

import asyncio
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.cluster.records import BrokerFenced
from moldau.cluster.store.contract import StaleControllerEpoch, StaleVersion
from tests.cluster_simulation.cluster_mutants import AIMED, NOT_NOTICED, Mutant
from tests.cluster_simulation.simulated_store import SimulatedStore, StoreServer

TESTS = Path(__file__).parent.parent


def aimed_test(file: str, name: str) -> Callable[[], None]:
    path = TESTS / file
    spec = importlib.util.spec_from_file_location(f"aimed_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[[], None] = getattr(module, name)
    return found


@pytest.mark.parametrize("mutant", AIMED, ids=lambda mutant: mutant.__name__)
def test_a_test_notices_when(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    test = aimed_test(*AIMED[mutant])
    test()
    mutant(monkeypatch)
    with pytest.raises((Exception, pytest.fail.Exception)):
        test()


def test_every_mutant_that_no_run_notices_has_one() -> None:
    assert AIMED.keys() == NOT_NOTICED.keys()


def test_the_simulated_store_refuses_an_old_controller() -> None:
    """As ``tests/cluster/store/test_contract.py`` asks of the stores of the product."""

    async def run() -> None:
        world: Any = SimpleNamespace(call_outside=lambda seconds, callback: None)
        process: Any = object()
        server = StoreServer(world, 1, 4.0)
        store = SimulatedStore(server, process)
        server.controller_epoch = 2
        with pytest.raises(StaleControllerEpoch):
            await store.append([BrokerFenced(1)], 0, 1)
        with pytest.raises(StaleVersion):
            await store.append([BrokerFenced(1)], 7, 2)
        assert server.log.version == 0
        assert await store.append([BrokerFenced(1)], 0, 2) == 1

    asyncio.run(run())
