"""Findings: what each kind says, and where."""

from moldau.inspection.findings import Finding, Severity, note, problem, warning


def test_three_kinds() -> None:
    found = problem("a.log", "a hole", "records are lost", "repair it", position=7, offset=3)
    assert found == Finding(Severity.PROBLEM, "a.log", "a hole", "records are lost", "repair it", 7, 3)
    assert warning("a.index", "is old", "it is rebuilt", "nothing").severity is Severity.WARNING
    plain = note("a.log", "is empty")
    assert (plain.severity, plain.meaning, plain.action) == (Severity.NOTE, "", "")
    assert (plain.position, plain.offset) == (None, None)


def test_severities_are_written_as_words() -> None:
    assert [str(each) for each in Severity] == ["problem", "warning", "note"]
