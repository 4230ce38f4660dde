"""The shell of SQL as a person has it: a terminal, completion, Ctrl-C."""

import os
import pty
import select
import sys
from pathlib import Path

import pytest

from moldau.cli import sql_shell
from moldau.cli.sql_shell import ReadingBar, complete, only_looks
from moldau.testing import Broker

CLICKS = "CREATE STREAM clicks (page STRING) WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON', PARTITIONS=1);"
CTRL_C = "\x03"


class Terminal:
    """``moldau sql`` at a terminal."""

    def __init__(self, home: Path, servers: str) -> None:
        command = [sys.executable, "-m", "moldau.cli.main", "sql", "-b", servers]
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execve(sys.executable, command, {**os.environ, "HOME": str(home), "TERM": "dumb"})

    def until(self, text: str) -> str:
        """What it prints up to a text; fails where nothing comes for a minute."""
        found = ""
        while text not in found:
            assert select.select([self._terminal], [], [], 60)[0], found
            found += os.read(self._terminal, 4096).decode()
        return found

    def interrupt(self) -> None:
        """Ctrl-C, and again where readline did not wait for keys yet when it came."""
        self.type(CTRL_C)
        while not select.select([self._terminal], [], [], 1)[0]:
            self.type(CTRL_C)
        self.until("sql> ")

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def ended(self) -> int:
        self.type("exit\n")
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


@pytest.mark.slow
def test_ctrl_c_forgets_what_was_typed_and_ends_what_looks(tmp_path: Path) -> None:
    with Broker() as broker:
        shell = Terminal(tmp_path, broker.bootstrap_servers)
        shell.until("sql> ")
        shell.type("SELECT nothing\n")
        shell.until("...> ")
        shell.interrupt()
        shell.type(f"{CLICKS}\n")
        shell.until("Stream CLICKS created\r\nsql> ")
        shell.type("SELECT page FROM clicks EMIT CHANGES;\n")
        shell.until("PAGE\r\n")
        shell.interrupt()
        shell.type("INSERT INTO clicks VALUES ('/a');\n")
        shell.until("1 row written to clicks\r\nsql> ")
        shell.type("SELECT COUNT(*) + 41 AS n FROM clicks GROUP BY page;\n")
        shell.until(" 42 ")
        assert shell.ended() == 0
    assert "INSERT INTO clicks" in (tmp_path / ".moldau" / "sql_history").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sel", ["SELECT "]),
        ("tu", ["TUMBLING "]),
        ("zz", []),
        ("S", ["SELECT ", "STREAM "]),
        ("cli", ["CLICKS "]),
        ("`m", ["`mixed Case` "]),
    ],
)
def test_completion(text: str, words: list[str]) -> None:
    names = ["CLICKS", "`mixed Case`"]
    assert [complete(text, number, names) for number in range(len(words))] == words
    if not words:
        assert complete(text, 0, names) is None


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("SELECT a FROM s; PRINT 't'; SHOW STREAMS; DESCRIBE s; EXPLAIN SELECT a FROM s;", True),
        ("SHOW STREAMS; DROP STREAM s;", False),
        ("INSERT INTO s VALUES (1);", False),
        ("this is no SQL", True),
    ],
)
def test_what_only_looks(text: str, looks: bool) -> None:
    assert only_looks(text) is looks


def test_a_bar_while_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = ReadingBar()
    bar(1, 2)
    assert bar._bar is None  # no terminal, no bar

    class Terminal:
        is_terminal = True

    monkeypatch.setattr(sql_shell, "console", lambda *, stderr: Terminal())
    bar(5, 10)
    shown = bar._bar
    assert shown is not None
    assert (shown.tasks[0].completed, shown.tasks[0].total) == (5, 10)
    bar(10, 10)
    assert bar._bar is None
