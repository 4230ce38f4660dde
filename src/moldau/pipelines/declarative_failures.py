"""What went wrong in a run of ``spark-pipelines``: one sentence out of all its output.

Pure. What the sentence leaves out stays in the pipeline's log.
"""

import os.path
import re
from pathlib import Path

from moldau.spark.query.failures import sentence

#: The text of an event ends before the next event, a line of Spark's log, or the traceback of the program.
_UNTIL_NEXT = r"(.*?)(?=\n\d{4}-\d\d-\d\d |\n\d\d/\d\d/\d\d |\nTraceback|\Z)"
_FLOW = re.compile(
    rf"(?:Failed to resolve flow: '([^'\n]+)'\.|Flow '([^'\n]+)' has FAILED[^\n]*)\nError: {_UNTIL_NEXT}",
    re.DOTALL,
)
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+)', re.MULTILINE)
_TRACE = "\nTraceback (most recent call last):"
_BEFORE_PYTHON = re.compile(r'^Exception in thread "main" [\w.$]+: (.*)$', re.MULTILINE)
_PORT = re.compile(
    r"BindException: Failed to bind to address \S*?:(\d+): Service '[\w.]*SparkConnectService'"
)


def failure_in(output: str, directory: Path, code: int) -> str:
    """The sentence for a run that has ended with this code; definitions are files below the directory."""
    if (port := _PORT.search(output)) is not None:
        return (
            f"port {port.group(1)}, the one of Spark Connect, is taken: another declarative pipeline runs "
            "on this machine, so start this one when that is over"
        )
    if flows := list(_FLOW.finditer(output)):
        found = flows[-1]
        flow = (found.group(1) or found.group(2)).removeprefix("spark_catalog.default.")
        return f"flow {flow} failed: {sentence(found.group(3))}"
    if _TRACE in output:
        trace = output[output.rfind(_TRACE) :]
        return f"{_file_and_line(trace, directory)}{sentence(trace)}"
    if (refused := _BEFORE_PYTHON.search(output)) is not None:
        return sentence(refused.group(1))
    return f"spark-pipelines has ended with code {code}"


def _file_and_line(trace: str, directory: Path) -> str:
    """Where in the definitions the error was raised; "" when it was raised elsewhere."""
    root = f"{directory.resolve()}{os.sep}"
    frames = [(os.path.normpath(file), line) for file, line in _FRAME.findall(trace)]
    ours = [f"{os.path.basename(file)}:{line}: " for file, line in frames if file.startswith(root)]
    return ours[-1] if ours else ""
