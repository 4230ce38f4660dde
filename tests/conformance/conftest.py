"""Conformance tests, only with MOLDAU_CONFORMANCE=1 (`make conformance`): they need Java, Maven and kcat.

A whole run writes `docs/conformance.md`; a run of selected tests does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
ENABLED = os.environ.get("MOLDAU_CONFORMANCE") == "1"

if not ENABLED:
    collect_ignore_glob = ["*.py"]
else:
    from benchmarks.apache_kafka import ApacheKafka
    from benchmarks.moldau_broker import MoldauBroker
    from tests.conformance.conformance_report import Check, write_report
    from tests.conformance.conformance_run import ConformanceRun, available_pairings
    from tests.conformance.golden_transcripts import read_transcript
    from tests.conformance.kafka_tools import JavaTools

    RUN_KEY = pytest.StashKey[ConformanceRun]()

    def pytest_configure(config: pytest.Config) -> None:
        config.stash[RUN_KEY] = ConformanceRun()
        config.addinivalue_line("markers", "check(client, what): a line in the table of docs/conformance.md")

    def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
        """One test for each command of each transcript, for each pair of tools and broker."""
        if "golden_case" not in metafunc.fixturenames:
            return
        cases = [
            (pairing, transcript.stem, block.number)
            for pairing in available_pairings()
            for transcript in sorted((HERE / "golden").glob("*.txt"))
            for block in read_transcript(transcript.stem)
        ]
        ids = [
            f"{tools}-tools-on-{broker}-{transcript}-{number}"
            for (tools, broker), transcript, number in cases
        ]
        metafunc.parametrize("golden_case", cases, ids=ids)

    def pytest_sessionfinish(session: pytest.Session) -> None:
        whole = not session.config.option.keyword and not any(
            "::" in str(word) or str(word).endswith(".py") for word in session.config.args
        )
        if whole and not session.config.option.collectonly and not session.shouldstop:
            write_report(session.config.stash[RUN_KEY], PROJECT / "docs" / "conformance.md")

    @pytest.fixture(scope="session")
    def run(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[ConformanceRun]:
        conformance: ConformanceRun = request.config.stash[RUN_KEY]
        conformance.open(tmp_path_factory.mktemp("conformance"))
        yield conformance
        conformance.close()

    @pytest.fixture(scope="session")
    def java_tools(run: ConformanceRun) -> JavaTools:
        return run.java_tools

    @pytest.fixture(scope="session")
    def moldau(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauBroker]:
        with MoldauBroker(tmp_path_factory.mktemp("moldau")) as broker:
            yield broker

    @pytest.fixture(scope="session")
    def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
        with ApacheKafka(tmp_path_factory.mktemp("kafka")) as broker:
            yield broker

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
        """A test marked `check(client, what)` is a line in the report's table of clients."""
        outcome = yield
        report = outcome.get_result()  # type: ignore[attr-defined]
        mark = item.get_closest_marker("check")
        if mark is not None and (report.when == "call" or (report.when == "setup" and not report.passed)):
            why = "" if report.passed else str(report.longrepr).strip().splitlines()[-1]
            client, what = mark.args
            check = Check(client, what, "works" if report.passed else report.outcome, why)
            item.config.stash[RUN_KEY].checks.append(check)
