"""From a file to a pipeline: Python with decorated functions, or SQL.

A pipeline has the name of its file unless a name is given.

Invariant: a file is executed once. A mistake in it is reported with its line and without a traceback.
"""

import sys
import traceback
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from moldau.pipelines.definitions import MARK, Pipeline, Step, check_name
from moldau.pipelines.errors import PipelineError

_EXAMPLE = (
    "decorate a function that returns a DataFrame with @to_topic(…), @to_parquet(…) or @to_console(); "
    "'moldau pipeline init NAME' writes an example"
)


class StreamsProgram(PipelineError):
    """A file that is none of ours: its program is one of ``moldau streams``."""


def load(path: str | Path, name: str | None = None) -> Pipeline:
    """Reads a ``.py`` or ``.sql`` file; PipelineError says what is wrong with it."""
    file = Path(path).absolute()
    if not file.is_file():
        raise PipelineError(f"there is no file {file}: 'moldau pipeline init {file.stem}' writes one")
    called = check_name(name or file.stem)
    if file.suffix == ".sql":
        from moldau.pipelines.sql_steps import sql_pipeline

        return sql_pipeline(called, file)
    if file.suffix != ".py":
        raise PipelineError(f"{file.name} is no pipeline: it is a file of Python (.py) or SQL (.sql)")
    return _from_module(called, file, _run(file))


def _run(file: Path) -> ModuleType:
    code = _compiled(file)
    module_name = f"moldau_pipeline_{file.stem}"
    spec = spec_from_file_location(module_name, file, loader=SourceFileLoader(module_name, str(file)))
    assert spec is not None
    module = module_from_spec(spec)
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))  # it may import modules beside it, as any script
    sys.modules[module_name] = module
    try:
        exec(code, module.__dict__)
    except PipelineError as error:
        raise PipelineError(f"{file.name}:{_line(error, file)}: {error}") from None
    except Exception as error:
        raise PipelineError(f"{file.name}:{_line(error, file)}: {type(error).__name__}: {error}") from error
    finally:
        # Functions of a module that cannot be imported are pickled by value for Spark's workers.
        del sys.modules[module_name]
    return module


def _compiled(file: Path) -> CodeType:
    try:
        return compile(file.read_text("utf-8"), str(file), "exec")
    except UnicodeDecodeError as error:
        raise PipelineError(f"{file.name} is no text in UTF-8: {error}") from None
    except SyntaxError as error:
        raise PipelineError(f"{file.name}:{error.lineno}: {error.msg}") from None
    except ValueError as error:
        raise PipelineError(f"{file.name} is no Python: {error}") from None


def line_in(error: BaseException, file: Path) -> int | None:
    """The line of the file that an error was raised in or passed through last."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
    return frames[-1].lineno if frames else None


def _line(error: BaseException, file: Path) -> int:
    return line_in(error, file) or 1


def _is_of_streams(name: str, value: object) -> bool:
    """As ``moldau streams run`` knows it, without its library."""
    if name == "build":
        return callable(value)
    return name in ("topology", "builder") and type(value).__module__.startswith("moldau.streams.")


def _from_module(name: str, file: Path, module: ModuleType) -> Pipeline:
    functions = {
        each: value
        for each, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
    }
    steps = tuple(
        Step(each, function, getattr(function, MARK), function.__code__.co_firstlineno)
        for each, function in functions.items()
        if hasattr(function, MARK)
    )
    if not steps and any(_is_of_streams(name, value) for name, value in vars(module).items()):
        raise StreamsProgram(f"{file.name} is a program of streams: 'moldau streams run {file}' runs it")
    if not steps:
        raise PipelineError(f"{file.name} writes nothing: {_EXAMPLE}")
    return Pipeline(name, file, steps, functions)
