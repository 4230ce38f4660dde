"""Compiles a declared message into a reader and a writer for each version.

``reader(cls, version)(frame, position)`` returns the message and the position after it; ``writer(cls,
version)(message, out, splices)`` appends the message to ``out``. They are generated as Python source on
first use: adjacent numbers become one ``struct`` call and nested structures are inlined, which is about
twice as fast as composed closures.

A message of unknown size is read and written in steps: ``stepped_reader`` and ``stepped_writer`` make
generators that do the same and pause after every element of an array.

``splices`` collects record batches that are in files: pairs of a position in ``out`` and an object with a
``size``, whose bytes have to be inserted there. Their length is already written.

Invariant: a reader raises ``MalformedMessage`` and nothing else, whatever the bytes. It never allocates by
a length that was not compared with the bytes, and copies no record batch. It takes no more than ``elements``
in all arrays together; an array of one is free, as its element belongs to what it is in.
"""

import struct
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, TypeVar

from moldau.protocol.primitives import (
    LONGEST_STRING,
    MalformedMessage,
    TooManyElements,
    read_string_length,
    read_tag_count,
    read_unsigned_varint,
    refuse_text,
    skip_tagged_fields,
    write_unsigned_varint,
)
from moldau.protocol.schema import Declaration, Field, declaration

_T = TypeVar("_T")

#: Reads a message from a frame at a position; the third argument is the most elements that it may have.
Reader = Callable[..., tuple[Any, int]]
#: Appends a message to a buffer.
Writer = Callable[[Any, bytearray, list[tuple[int, Any]]], None]
SteppedReader = Callable[[Any, int, int], Generator[None, None, tuple[Any, int]]]
SteppedWriter = Callable[[Any, bytearray, list[tuple[int, Any]]], Generator[None, None, None]]

#: For messages of our own, and of brokers that we chose to ask.
UNLIMITED = 1 << 62

_FIXED = {
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "bool": ("?", 1),
    "uuid": ("16s", 16),
}


def _make_reader(cls: type, version: int) -> Reader:
    made: Reader = _ReaderSource(declaration(cls), version).build(cls)
    return made


def _make_writer(cls: type, version: int) -> Writer:
    made: Writer = _WriterSource(declaration(cls), version).build(cls)
    return made


def _make_stepped_reader(cls: type, version: int) -> SteppedReader:
    made: SteppedReader = _ReaderSource(declaration(cls), version, stepped=True).build(cls)
    return made


def _make_stepped_writer(cls: type, version: int) -> SteppedWriter:
    made: SteppedWriter = _WriterSource(declaration(cls), version, stepped=True).build(cls)
    return made


#: The reader and the writer of a class in one version, compiled on first use and cached.
reader: Callable[[type, int], Reader] = cache(_make_reader)
writer: Callable[[type, int], Writer] = cache(_make_writer)
stepped_reader: Callable[[type, int], SteppedReader] = cache(_make_stepped_reader)
stepped_writer: Callable[[type, int], SteppedWriter] = cache(_make_stepped_writer)


def decode(cls: type[_T], version: int, buffer: Any, position: int = 0, *, elements: int = UNLIMITED) -> _T:
    """Reads one message; bytes after it are ignored, as by Kafka's broker."""
    message: _T = reader(cls, version)(memoryview(buffer), position, elements)[0]
    return message


def encode(message: object, version: int) -> bytes:
    """Writes one message whose record batches, if any, are in memory."""
    out = bytearray()
    splices: list[tuple[int, Any]] = []
    writer(type(message), version)(message, out, splices)
    assert not splices, "this message holds record batches that are not in memory"
    return bytes(out)


class _Source:
    """What both directions share: indented lines, unique names, struct objects."""

    def __init__(self, top: Declaration, version: int, *, stepped: bool = False) -> None:
        if version not in top.versions:
            raise ValueError(f"{top.name} has no version {version}")
        self.top = top
        self.version = version
        self.stepped = stepped
        self.flexible = version in top.flexible
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {
            "MalformedMessage": MalformedMessage,
            "TooManyElements": TooManyElements,
            "StructError": struct.error,
            "UNLIMITED": UNLIMITED,
            "long_varint": read_unsigned_varint,
            "string_length": read_string_length,
            "tag_count": read_tag_count,
            "put_varint": write_unsigned_varint,
            "refuse_text": refuse_text,
            "skip_tags": skip_tagged_fields,
        }
        self.depth = 1
        self.names = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def fields(self, of: Declaration) -> tuple[list[Field], list[Field]]:
        """The untagged and the tagged fields of a structure in this version."""
        here = [f for f in of.fields if self.version in f.present]
        tagged = [f for f in here if self.flexible and self.version in f.tagged]
        plain = [f for f in here if f not in tagged]
        return plain, sorted(tagged, key=lambda f: f.tag or 0)

    def constant(self, stem: str, value: object) -> str:
        for name, known in self.scope.items():
            if known is value:
                return name
        name = self.fresh(stem)
        self.scope[name] = value
        return name

    def packer(self, codes: str, method: str) -> str:
        name = f"{method}_{''.join(c if c.isalnum() else 'B' for c in codes)}"
        self.scope.setdefault(name, getattr(struct.Struct(">" + codes), method))
        return name

    def nullable(self, f: Field) -> bool:
        return self.version in f.nullable

    def pause(self) -> None:
        """Between two elements of an array."""
        if self.stepped:
            self.line("yield")

    def minimum_size(self, kind: Any, nullable: bool = False) -> int:
        """The fewest bytes that a value can have, which bounds the number of elements of an array."""
        if not isinstance(kind, str):
            if nullable:
                return 1
            plain, _ = self.fields(declaration(kind))
            inside = sum(
                (1 if self.flexible else 4) if f.is_array else self.minimum_size(f.kind, self.nullable(f))
                for f in plain
            )
            return inside + (1 if self.flexible else 0)
        if kind in _FIXED:
            return _FIXED[kind][1]
        if self.flexible:
            return 1
        return 2 if kind == "string" else 4


class _ReaderSource(_Source):
    def build(self, cls: type) -> Any:
        self.depth = 2
        result = self.structure(cls)
        self.line(f"return {result}, p")
        source = (
            "def read(b, p, left=UNLIMITED):\n    try:\n        end = len(b)\n"
            + ("        yield\n" if self.stepped else "")
            + "\n".join(self.lines)
            + "\n    except (IndexError, StructError, UnicodeDecodeError) as error:\n"
            + f"        raise MalformedMessage('{self.top.name} v{self.version}: ' + str(error)) from None\n"
        )
        exec(compile(source, f"<reader of {self.top.name} v{self.version}>", "exec"), self.scope)
        return self.scope["read"]

    def structure(self, cls: type) -> str:
        """Emits code that reads the fields of a structure; returns an expression that builds it."""
        of = declaration(cls)
        plain, tagged = self.fields(of)
        values = self.plain_fields(plain)
        for f in tagged:
            values[f.name] = self.fresh("t")
            self.line(f"{values[f.name]} = {self.default(f)}")
        if self.flexible:
            self.tagged_fields(tagged, values)
        arguments = [values.get(f.name, self.default(f)) for f in of.fields]
        return f"{self.constant('C', cls)}({', '.join(arguments)})"

    def default(self, f: Field) -> str:
        if f.is_array and not isinstance(f.default, list) and f.default is not None:
            return "[]"
        if f.default is None or isinstance(f.default, bool | int | float | str | bytes):
            return repr(f.default)
        return f"{self.constant('C', f.kind)}()"

    def plain_fields(self, plain: list[Field]) -> dict[str, str]:
        values: dict[str, str] = {}
        run: list[Field] = []
        for f in plain:
            if not f.is_array and f.kind in _FIXED:
                run.append(f)
                continue
            self.fixed_run(run, values)
            run = []
            values[f.name] = self.value(f)
        self.fixed_run(run, values)
        return values

    def fixed_run(self, run: list[Field], values: dict[str, str]) -> None:
        """Adjacent numbers are unpacked together."""
        if not run:
            return
        for f in run:
            values[f.name] = self.fresh("v")
        codes = "".join(_FIXED[f.kind][0] for f in run)
        size = sum(_FIXED[f.kind][1] for f in run)
        targets = ", ".join(values[f.name] for f in run)
        self.line(f"{targets}, = {self.packer(codes, 'unpack_from')}(b, p); p += {size}")

    def value(self, f: Field) -> str:
        name = self.fresh("v")
        if f.is_array:
            self.array(name, f)
        elif isinstance(f.kind, str):
            self.primitive(name, f.kind, self.nullable(f))
        else:
            self.nested(name, f)
        return name

    def nested(self, name: str, f: Field) -> None:
        if not self.nullable(f):
            self.line(f"{name} = {self.structure(f.kind)}")
            return
        self.line("p += 1")
        self.line("if b[p - 1] > 127:")
        self.line(f"    {name} = None")
        self.line("else:")
        self.depth += 1
        self.line(f"{name} = {self.structure(f.kind)}")
        self.depth -= 1

    def length(self, name: str, short: bool) -> None:
        """Reads a length into ``name``; -1 stands for null. That of a string is ``short``."""
        if self.flexible:
            self.line(f"{name} = b[p]; p += 1")
            long = "string_length" if short else "long_varint"
            self.line(f"if {name} > 127: {name}, p = {long}(b, p - 1)")
            self.line(f"{name} -= 1")
        else:
            code, size = ("h", 2) if short else ("i", 4)
            self.line(f"{name}, = {self.packer(code, 'unpack_from')}(b, p); p += {size}")

    def refuse(self, condition: str, why: str) -> None:
        self.line(f"if {condition}: raise MalformedMessage('{self.top.name} v{self.version} {why}')")

    def array(self, name: str, f: Field) -> None:
        count = self.fresh("n")
        self.length(count, short=False)
        if self.nullable(f):
            self.line(f"if {count} < 0:")
            self.line(f"    {name} = None")
            self.line("else:")
            self.depth += 1
        self.check_count(count, f)
        if f.kind in _FIXED and f.kind != "uuid":
            code, size = _FIXED[f.kind]
            unpack = self.constant("unpack_many", struct.unpack_from)
            self.line(f"{name} = list({unpack}('>%d{code}' % {count}, b, p)); p += {count} * {size}")
        else:
            self.line(f"{name} = []")
            self.line(f"for _ in range({count}):")
            self.depth += 1
            self.pause()
            if isinstance(f.kind, str):
                item = self.fresh("v")
                self.primitive(item, f.kind, nullable=False)
                self.line(f"{name}.append({item})")
            else:
                self.line(f"{name}.append({self.structure(f.kind)})")
            self.depth -= 1
        if self.nullable(f):
            self.depth -= 1

    def check_count(self, count: str, f: Field) -> None:
        """Compares the number of elements with the bytes and with what may come; one needs no look."""
        self.line(f"if {count} != 1:")
        self.depth += 1
        if not self.nullable(f):
            self.refuse(f"{count} < 0", "has a null where none is allowed")
        least = max(self.minimum_size(f.kind), 1)
        self.refuse(f"{count} * {least} > end - p", "has an array that is cut")
        self.line(f"left -= {count}")
        what = f"{self.top.name} v{self.version} has too many elements"
        self.line(f"if left < 0: raise TooManyElements('{what}')")
        self.depth -= 1

    def primitive(self, name: str, kind: str, nullable: bool) -> None:
        if kind in _FIXED:
            code, size = _FIXED[kind]
            self.line(f"{name}, = {self.packer(code, 'unpack_from')}(b, p); p += {size}")
            return
        count, stop = self.fresh("n"), self.fresh("e")
        self.length(count, short=kind == "string")
        if nullable:
            self.line(f"if {count} < 0:")
            self.line(f"    {name} = None")
            self.line("else:")
            self.depth += 1
        else:
            self.refuse(f"{count} < 0", "has a null where none is allowed")
        self.line(f"{stop} = p + {count}")
        self.refuse(f"{stop} > end", "is cut")
        taken = {"string": "str(b[p:%s], 'utf-8')", "bytes": "bytes(b[p:%s])", "records": "b[p:%s]"}[kind]
        self.line(f"{name} = {taken % stop}; p = {stop}")
        if nullable:
            self.depth -= 1

    def tagged_fields(self, tagged: list[Field], values: dict[str, str]) -> None:
        if not tagged:
            self.line("p = skip_tags(b, p) if b[p] else p + 1")
            return
        count, tag, size, stop = (self.fresh(s) for s in ("n", "g", "n", "e"))
        self.line(f"{count}, p = tag_count(b, p) if b[p] else (0, p + 1)")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        self.line(f"{tag}, p = long_varint(b, p)")
        self.line(f"{size}, p = long_varint(b, p)")
        self.line(f"{stop} = p + {size}")
        self.refuse(f"{stop} > end", "is cut")
        for f in tagged:
            self.line(f"if {tag} == {f.tag}:")
            self.depth += 1
            read = self.value(f)
            self.line(f"{values[f.name]} = {read}")
            self.refuse(f"p != {stop}", "has a tagged field of another length than it says")
            self.depth -= 1
        self.line(f"p = {stop}")
        self.depth -= 1


class _WriterSource(_Source):
    def build(self, cls: type) -> Any:
        self.pause()
        self.structure("m", cls, "out")
        self.line("return None")
        source = "def write(m, out, splices):\n" + "\n".join(self.lines)
        exec(compile(source, f"<writer of {self.top.name} v{self.version}>", "exec"), self.scope)
        return self.scope["write"]

    def structure(self, value: str, cls: type, out: str) -> None:
        plain, tagged = self.fields(declaration(cls))
        run: list[Field] = []
        for f in plain:
            if not f.is_array and f.kind in _FIXED:
                run.append(f)
                continue
            self.fixed_run(value, run, out)
            run = []
            self.value(f"{value}.{f.name}", f, out)
        self.fixed_run(value, run, out)
        if self.flexible:
            self.tagged_fields(value, tagged, out)

    def fixed_run(self, value: str, run: list[Field], out: str) -> None:
        if run:
            codes = "".join(_FIXED[f.kind][0] for f in run)
            arguments = ", ".join(f"{value}.{f.name}" for f in run)
            self.line(f"{out} += {self.packer(codes, 'pack')}({arguments})")

    def value(self, expression: str, f: Field, out: str) -> None:
        name = self.fresh("v")
        self.line(f"{name} = {expression}")
        if f.is_array:
            self.array(name, f, out)
        elif isinstance(f.kind, str):
            self.primitive(name, f.kind, self.nullable(f), out)
        elif self.nullable(f):
            self.line(f"if {name} is None: {out} += b'\\xff'")
            self.line("else:")
            self.depth += 1
            self.line(f"{out} += b'\\x01'")
            self.structure(name, f.kind, out)
            self.depth -= 1
        else:
            self.structure(name, f.kind, out)

    def length(self, count: str, short: bool, out: str) -> None:
        if self.flexible:
            self.line(f"if {count} < 127: {out}.append({count} + 1)")
            self.line(f"else: put_varint({count} + 1, {out})")
        else:
            self.line(f"{out} += {self.packer('h' if short else 'i', 'pack')}({count})")

    def null(self, name: str, nullable: bool, short: bool, out: str) -> None:
        """Opens the branch for a value that is not null; a null that is not allowed raises in the writer."""
        if nullable:
            zero = "b'\\x00'" if self.flexible else ("b'\\xff\\xff'" if short else "b'\\xff\\xff\\xff\\xff'")
            self.line(f"if {name} is None: {out} += {zero}")
            self.line("else:")
            self.depth += 1

    def array(self, name: str, f: Field, out: str) -> None:
        self.null(name, self.nullable(f), False, out)
        count = self.fresh("n")
        self.line(f"{count} = len({name})")
        self.length(count, False, out)
        if f.kind in _FIXED and f.kind != "uuid":
            pack = self.constant("pack_many", struct.pack)
            self.line(f"{out} += {pack}('>%d{_FIXED[f.kind][0]}' % {count}, *{name})")
        else:
            item = self.fresh("i")
            self.line(f"for {item} in {name}:")
            self.depth += 1
            self.pause()
            if isinstance(f.kind, str):
                self.primitive(item, f.kind, False, out)
            else:
                before = len(self.lines)
                self.structure(item, f.kind, out)
                if len(self.lines) == before:
                    self.line("pass")
            self.depth -= 1
        if self.nullable(f):
            self.depth -= 1

    def primitive(self, name: str, kind: str, nullable: bool, out: str) -> None:
        if kind in _FIXED:
            self.line(f"{out} += {self.packer(_FIXED[kind][0], 'pack')}({name})")
            return
        self.null(name, nullable, kind == "string", out)
        count = self.fresh("n")
        if kind == "string":
            self.line(f"{name} = {name}.encode()")
        if kind == "records":
            assert out == "out", "splices count from the start of the message, not of a tagged field"
            self.line(f"if isinstance({name}, (bytes, bytearray, memoryview)):")
            self.line(f"    {count} = len({name})")
            self.line("else:")
            self.line(f"    {count} = {name}.size")
            self.length(count, False, out)
            self.line(f"if isinstance({name}, (bytes, bytearray, memoryview)): {out} += {name}")
            self.line(f"elif {count}: splices.append((len({out}), {name}))")
        else:
            self.line(f"{count} = len({name})")
            if kind == "string" and self.top.name.endswith("Request"):
                self.line(f"if {count} > {LONGEST_STRING}: refuse_text({count})")
            self.length(count, kind == "string", out)
            self.line(f"{out} += {name}")
        if nullable:
            self.depth -= 1

    def tagged_fields(self, value: str, tagged: list[Field], out: str) -> None:
        if not tagged:
            self.line(f"{out}.append(0)")
            return
        count = self.fresh("n")
        tests = []
        for f in tagged:
            flag = self.fresh("g")
            self.line(f"{flag} = {self.differs(f'{value}.{f.name}', f)}")
            tests.append(flag)
        self.line(f"{count} = {' + '.join(tests)}")
        self.line(f"{out}.append({count})")
        self.line(f"if {count}:")
        self.depth += 1
        for f, flag in zip(tagged, tests, strict=True):
            inner = self.fresh("o")
            self.line(f"if {flag}:")
            self.depth += 1
            self.line(f"{inner} = bytearray()")
            self.value(f"{value}.{f.name}", f, inner)
            self.line(f"put_varint({f.tag}, {out})")
            self.line(f"put_varint(len({inner}), {out})")
            self.line(f"{out} += {inner}")
            self.depth -= 1
        self.depth -= 1

    def differs(self, expression: str, f: Field) -> str:
        """An expression that is true if a tagged field has to be written: it differs from its default."""
        if f.default is None:
            return f"{expression} is not None"
        if f.is_array:
            return f"bool({expression})"
        if isinstance(f.default, bool | int | float | str | bytes):
            return f"{expression} != {f.default!r}"
        return f"{self.constant('differ', _comparison(f.kind))}({expression})"


@cache
def _comparison(cls: type) -> Callable[[Any], bool]:
    """Whether a structure differs from its default; comparing the fields here is much faster than ``==``."""
    made = cls()
    scope: dict[str, Any] = {f"d_{f.name}": getattr(made, f.name) for f in declaration(cls).fields}
    tests = " or ".join(f"s.{f.name} != d_{f.name}" for f in declaration(cls).fields)
    exec(f"def differs(s): return {tests}", scope)
    compiled: Callable[[Any], bool] = scope["differs"]
    return compiled
