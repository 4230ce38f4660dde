"""Finds the one sentence that says what went wrong in the hundred lines of Spark's error.

A Python error that has crossed the JVM comes back as its whole traceback inside a message inside a message.
The sentence is the last line of the innermost traceback; where there is none, what Spark itself says.

Pure. The whole message stays in the error; this only picks the line to show.
"""

import re

#: Errors of our own: their message stands alone, without the name of a class.
_OUR_OWN = frozenset(
    {"OptionError", "DataLoss", "KafkaError", "PipelineError", "RegistryError", "JavaNotFound"}
)
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?:: (.*))?$")
#: Where the words of a message end and the details for programmers begin.
_DETAILS = re.compile(
    r"\n\s*at [\w.$]+\(|\n\s*\.\.\. \d+ more|\nJVM stacktrace|\n=== Streaming Query ===|\n== |\n'|"
    r"\nDriver stacktrace|\n\s*\n|\nCaused by:"
)
_TERMINATED = re.compile(r".*?terminated with exception: ", re.DOTALL)
_LOST_TASK = re.compile(r"Job aborted due to stage failure: .*?\([^)]*executor [^)]*\)\s*:\s*", re.DOTALL)
_SQL_STATE = re.compile(r"\.?\s*SQLSTATE: \w+")


def sentence(failure: BaseException | str) -> str:
    """One line for the person who has to do something about it."""
    text = _SQL_STATE.sub("", failure if isinstance(failure, str) else str(failure))
    found = _of_traceback(text)
    if found is None:
        text = _TERMINATED.sub("", text, count=1)
        text = _LOST_TASK.sub("", text, count=1)
        found = _DETAILS.split(text, maxsplit=1)[0]
    said = " ".join(found.split()).rstrip(";")
    if said and type(failure).__module__ == "builtins" and not isinstance(failure, str):
        return f"{type(failure).__name__}: {said}"
    if said:
        return said
    return "" if isinstance(failure, str) else type(failure).__name__


def _of_traceback(text: str) -> str | None:
    """The error at the end of the last traceback."""
    start = text.rfind("Traceback (most recent call last):")
    if start < 0:
        return None
    lines = text[start:].splitlines()[1:]
    for index, line in enumerate(lines):
        match = _RAISED.match(line)
        if match is None or line.startswith(" "):
            continue
        name, message = match.group(1), match.group(2) or ""
        rest = "\n".join([message, *lines[index + 1 :]])
        message = _DETAILS.split(rest, maxsplit=1)[0].strip()
        if name in _OUR_OWN and message:
            return message
        return f"{name}: {message}" if message else name
    return None
