import sys

import click
import pytest

from moldau.cli.output import (
    echo,
    note,
    parse_size,
    print_json,
    print_json_line,
    print_table,
    progress,
    size_text,
)


def test_a_table_is_not_cut_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 500
    print_table(["Name", "Count>"], [[long, 7], ["[bold]as it is[/]", None]], title="T")
    shown = capsys.readouterr().out
    assert any(long in line and line.rstrip().endswith("7") for line in shown.splitlines())
    assert "[bold]as it is[/]" in shown
    assert "Count>" not in shown


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"b": 1, "a": "ü"}])
    print_json_line({"b": 1, "a": None})
    assert capsys.readouterr().out == '[\n  {\n    "b": 1,\n    "a": "ü"\n  }\n]\n{"b":1,"a":null}\n'


def test_a_terminal_is_not_commanded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    echo("group \x07")
    print_table(["Name"], [["evil\x1b[31m"]])
    assert "group \x07\n" in (piped := capsys.readouterr().out)
    assert "evil\\u001b[31m" in piped
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    echo("group \x1b[2J")
    print_json({"name": "\x9b"})
    note("member \x07")
    out, err = capsys.readouterr()
    assert out == 'group \\u001b[2J\n{\n  "name": "\\u009b"\n}\n'
    assert err == "member \\u0007\n"


def test_remarks_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    note("hm")
    assert capsys.readouterr() == ("", "hm\n")


def test_progress_is_silent_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    bar, task = progress("working", 10)
    with bar:
        bar.update(task, completed=5, rate="1/s")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (-1, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 << 30, "5.0 GiB"),
        (1 << 60, "1048576.0 TiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


def test_sizes_as_people_write_them() -> None:
    given = ("500000", "20MB", "1.5GiB", "3 kb", "7b")
    assert [parse_size(text) for text in given] == [500_000, 20 << 20, 3 << 29, 3072, 7]
    for bad in ("", "x", "-1", "0", "20XB"):
        with pytest.raises(click.BadParameter):
            parse_size(bad)
