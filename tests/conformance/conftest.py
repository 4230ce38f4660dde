"""Conformance tests, only with MOLDAU_CONFORMANCE=1 (`make conformance`): they need Java, Maven and kcat.

A whole run writes `docs/conformance.md`; so does a run of some files when all others were run before it
(`pytest tests/conformance/test_kcat.py`; MOLDAU_CONFORMANCE_PAIRS=java:moldau for some of the transcripts).
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
    from tests.conformance.conformance_report import WORKS, Check, write_report
    from tests.conformance.conformance_results import code_of, load, save
    from tests.conformance.conformance_run import (
        PAIRINGS,
        ConformanceRun,
        available_pairings,
        transcript_piece,
    )
    from tests.conformance.golden_transcripts import read_transcript
    from tests.conformance.kafka_tools import JavaTools

    RUN_KEY = pytest.StashKey[ConformanceRun]()
    RESULTS = PROJECT / ".cache" / "conformance"

    def pytest_configure(config: pytest.Config) -> None:
        config.stash[RUN_KEY] = ConformanceRun(RESULTS, code_of(PROJECT))
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
        option = session.config.option
        selected = option.keyword or any("::" in str(word) for word in session.config.args)
        if selected or option.collectonly or session.shouldstop:
            return
        run = session.config.stash[RUN_KEY]
        for name, checks in run.checks.items():
            save(RESULTS, name, checks, run.code)
        transcripts, missing = load(
            RESULTS,
            (
                transcript_piece(pairing, path.stem)
                for pairing in PAIRINGS
                for path in sorted((HERE / "golden").glob("*.txt"))
            ),
        )
        files = sorted(path for path in HERE.glob("test_*.py") if "mark.check" in path.read_text())
        checks, missing_checks = load(RESULTS, (path.stem for path in files))
        if missing := missing + missing_checks:
            some = ", ".join(missing[:5])
            print(f"\ndocs/conformance.md stays as it is: {len(missing)} results are missing ({some} …)")
        else:
            write_report(checks, transcripts, PROJECT / "docs" / "conformance.md")

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
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            why = "" if report.passed else str(reason).strip().splitlines()[-1]
            client, what = mark.args
            check = Check(client, what, WORKS if report.passed else report.outcome, why)
            item.config.stash[RUN_KEY].checks.setdefault(item.path.stem, []).append(check)
