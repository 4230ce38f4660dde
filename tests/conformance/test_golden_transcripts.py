"""Every command of every golden transcript: Kafka's tools and ours, on our broker and on Apache Kafka."""

from __future__ import annotations

import pytest

from tests.conformance.conformance_report import Pairing, difference_text, is_fine
from tests.conformance.conformance_run import ConformanceRun

pytestmark = pytest.mark.timeout(900)


def test_command_prints_what_it_prints_on_apache_kafka(
    golden_case: tuple[Pairing, str, int], run: ConformanceRun
) -> None:
    pairing, transcript, number = golden_case
    outcome = run.outcome(pairing, transcript, number)
    assert is_fine(outcome), "\n" + difference_text(outcome, most=60)
