import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moldau.base.settings import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    Items,
    OneOf,
    Password,
    RangeOr,
    Setting,
    SettingError,
    SettingsTable,
    SettingType,
    Validator,
    at_least,
    between,
    nearest_name,
    parse_properties,
    parse_value,
    render,
)


def setting(type: SettingType, valid: Validator | None = None) -> Setting:
    return Setting("n", type, None, "for this test", valid)


@pytest.mark.parametrize(
    ("type", "text", "value", "shown"),
    [
        (BOOLEAN, " TRUE ", True, "true"),
        (BOOLEAN, "False", False, "false"),
        (INT, " 1 ", 1, "1"),
        (INT, "+1", 1, "1"),
        (INT, "-2147483648", -2147483648, "-2147483648"),
        (INT, "١", 1, "1"),
        (SHORT, "32767", 32767, "32767"),
        (LONG, "9223372036854775807", 9223372036854775807, "9223372036854775807"),
        (DOUBLE, "1", 1.0, "1.0"),
        (DOUBLE, ".5", 0.5, "0.5"),
        (DOUBLE, "5.", 5.0, "5.0"),
        (DOUBLE, "1e3", 1000.0, "1000.0"),
        (DOUBLE, "3.14D", 3.14, "3.14"),
        (DOUBLE, "1f", 1.0, "1.0"),
        (DOUBLE, "1e7", 1e7, "1.0E7"),
        (DOUBLE, "9999999", 9999999.0, "9999999.0"),
        (DOUBLE, "12345678.9", 12345678.9, "1.23456789E7"),
        (DOUBLE, "0.001", 0.001, "0.001"),
        (DOUBLE, "0.0001", 0.0001, "1.0E-4"),
        (DOUBLE, "-0.00025", -0.00025, "-2.5E-4"),
        (DOUBLE, "-0.0", -0.0, "-0.0"),
        (DOUBLE, "123456789012345680000", 1.2345678901234568e20, "1.2345678901234568E20"),
        (DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308, "1.7976931348623157E308"),
        (DOUBLE, "1e400", math.inf, "Infinity"),
        (DOUBLE, "-Infinity", -math.inf, "-Infinity"),
        (STRING, " y ", "y", "y"),
        (STRING, "", "", ""),
        (CLASS, "some.Class", "some.Class", "some.Class"),
        (LIST, "a,b", ("a", "b"), "a,b"),
        (LIST, " a ,\tb ", ("a", "b"), "a,b"),
        (LIST, "", (), ""),
        (LIST, "  ", (), ""),
        (LIST, "a,,b", ("a", "", "b"), "a,,b"),
        (LIST, "a,b,a", ("a", "b"), "a,b"),
        (PASSWORD, " secret ", Password("secret"), "[hidden]"),
    ],
)
def test_what_kafka_reads(type: SettingType, text: str, value: object, shown: str) -> None:
    parsed = setting(type).parse(text)
    assert parsed == value
    assert setting(type).render(parsed) == shown


@pytest.mark.parametrize(
    ("type", "text", "reason"),
    [
        (BOOLEAN, "yes", "Expected value to be either true or false"),
        (BOOLEAN, "", "Expected value to be either true or false"),
        (INT, "abc", "Not a number of type INT"),
        (INT, "", "Not a number of type INT"),
        (INT, "1_000", "Not a number of type INT"),
        (INT, "1.0", "Not a number of type INT"),
        (INT, "0x10", "Not a number of type INT"),
        (INT, "2147483648", "Not a number of type INT"),
        (INT, "\u00a01", "Not a number of type INT"),
        (INT, "9" * 5000, "Not a number of type INT"),
        (SHORT, "32768", "Not a number of type SHORT"),
        (LONG, "9223372036854775808", "Not a number of type LONG"),
        (LONG, "1L", "Not a number of type LONG"),
        (DOUBLE, "x", "Not a number of type DOUBLE"),
        (DOUBLE, "nan", "Not a number of type DOUBLE"),
        (DOUBLE, "inf", "Not a number of type DOUBLE"),
        (DOUBLE, "1_0", "Not a number of type DOUBLE"),
        (DOUBLE, "", "Not a number of type DOUBLE"),
        (DOUBLE, "--1", "Not a number of type DOUBLE"),
    ],
)
def test_what_kafka_refuses(type: SettingType, text: str, reason: str) -> None:
    with pytest.raises(SettingError) as caught:
        setting(type).parse(text)
    assert str(caught.value) == f"Invalid value {text} for configuration n: {reason}"
    assert caught.value.name == "n"


@pytest.mark.parametrize(
    ("type", "valid", "text", "message"),
    [
        (INT, at_least(1), "0", "Invalid value 0 for configuration n: Value must be at least 1"),
        (INT, between(1, 17), "18", "Invalid value 18 for configuration n: Value must be no more than 17"),
        (DOUBLE, between(0, 1), "-1", "Invalid value -1.0 for configuration n: Value must be at least 0"),
        (
            DOUBLE,
            between(0, 1),
            "1e3",
            "Invalid value 1000.0 for configuration n: Value must be no more than 1",
        ),
        (DOUBLE, between(0, 1), "NaN", "Invalid value NaN for configuration n: Value must be at least 0"),
        (
            INT,
            RangeOr(1, 9, -1),
            "0",
            "Invalid value 0 for configuration n: Value must be between 1 and 9 or equal to -1",
        ),
        (STRING, OneOf("a", "b"), "A", "Invalid value A for configuration n: String must be one of: a, b"),
        (
            STRING,
            OneOf("A", "B", ignore_case=True),
            "x",
            "Invalid value x for configuration n: String must be one of (case insensitive): A, B",
        ),
        (LIST, Items("a", "b"), "a,c", "Invalid value c for configuration n: String must be one of: a, b"),
        (LIST, Items("a", "b"), "a,,b", "Configuration 'n' values must not be empty."),
        (
            LIST,
            Items("a", may_be_empty=False),
            "",
            "Configuration 'n' must not be empty. Valid values include: [a]",
        ),
        (
            LIST,
            Items(may_be_empty=False),
            "",
            "Configuration 'n' must not be empty. Valid values include: any non-empty value",
        ),
    ],
)
def test_what_is_not_valid(type: SettingType, valid: Validator, text: str, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        setting(type, valid).parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("type", "valid", "text"),
    [
        (INT, RangeOr(1, 9, -1), "-1"),
        (STRING, OneOf("A", ignore_case=True), "a"),
        (LIST, Items("a"), ""),
        (LIST, Items(), "anything"),
    ],
)
def test_what_is_valid(type: SettingType, valid: Validator, text: str) -> None:
    assert setting(type, valid).parse(text) is not None


def test_validity_reads_like_the_manual() -> None:
    rules = (
        at_least(1),
        between(0, 1),
        RangeOr(1, 9, -1),
        OneOf("a", "b"),
        Items("a"),
        Items(),
        Items(may_be_empty=False),
    )
    assert [str(rule) for rule in rules] == [
        "[1,...]",
        "[0,...,1]",
        "[1,...,9] or -1",
        "[a, b]",
        "[a]",
        "",
        "non-empty list",
    ]


def test_a_password_never_shows() -> None:
    secret = Password("hunter2")
    assert "hunter2" not in f"{secret} {secret!r} {render(secret)}"
    assert secret != Password("other")
    assert len({secret, Password("hunter2")}) == 1


@given(st.floats(allow_nan=False))
def test_doubles_survive(value: float) -> None:
    assert parse_value("n", DOUBLE, render(value)) == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_longs_survive(value: int) -> None:
    assert parse_value("n", LONG, render(value)) == value


@given(st.lists(st.text("abc.*:/-", min_size=1), unique=True))
def test_lists_survive(items: list[str]) -> None:
    assert parse_value("n", LIST, render(tuple(items))) == tuple(items)


@given(st.sampled_from(list(SettingType)), st.text())
@example(LIST, ",")
def test_any_text_is_a_value_or_refused(type: SettingType, text: str) -> None:
    try:
        value = parse_value("n", type, text)
    except SettingError:
        return
    # One item without a letter (",") is written as no item is; Kafka's clients do not tell them apart either.
    if type != PASSWORD and value == value and value != ("",):
        assert parse_value("n", type, render(value)) == value


def test_a_table_keeps_its_order() -> None:
    rows = [Setting(name, INT, 0, "", at_least(0)) for name in ("b", "a", "c")]
    table = SettingsTable({"first": rows[:2], "second": rows[2:]})
    assert list(table) == ["b", "a", "c"]
    assert table["a"] is rows[1]
    assert "x" not in table
    assert len(table) == 3
    assert table.parse({"c": "1", "b": "2", "x": "3"}) == {"b": 2, "c": 1}
    assert repr(rows[0]) == "Setting('b', INT, 0)"


def test_the_nearest_name() -> None:
    known = ["num.partitions", "num.io.threads", "listeners"]
    assert nearest_name("num.partition", known) == "num.partitions"
    assert nearest_name("listners", known) == "listeners"
    assert nearest_name("zzz", known) is None


# The expectations below were compared with java.util.Properties.
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("a=1\nb:2\nc 3\nd\t=\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n! no\n  # no\n\na=#yes", {"a": "#yes"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1", {"": "1"}),
        ("a==b", {"a": "=b"}),
        ("a = b = c ", {"a": "b = c "}),
        ("a=1\\\n   2\\\n3", {"a": "123"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# 2", {"a": "1# 2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("\\\n# no\na=1", {"a": "1"}),
        ("a=1\\", {"a": "1"}),
        ("a\\ b\\=c\\:d=1", {"a b=c:d": "1"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u0041\\u00e9", {"a": "Aé"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=\u2028x\x0bb=2", {"a": "\u2028x\x0bb=2"}),
        (
            'sasl.jaas.config=x required \\\n  username="u" \\\n  password="p";',
            {"sasl.jaas.config": 'x required username="u" password="p";'},
        ),
    ],
)
def test_properties_as_java_reads_them(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12g4", "a=\\u"])
def test_a_broken_escape_names_its_line(text: str) -> None:
    with pytest.raises(SettingError, match="Malformed"):
        parse_properties(f"b=1\n{text}")


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" if not c.isalnum() or ord(c) > 126 else c for c in text)


@given(
    st.dictionaries(
        st.text(st.characters(max_codepoint=0xD7FF), min_size=1), st.text(st.characters(max_codepoint=0xD7FF))
    )
)
def test_escaped_properties_survive(values: dict[str, str]) -> None:
    text = "\n".join(f"{_escaped(key)} = {_escaped(value)}" for key, value in values.items())
    assert parse_properties(text) == values


@given(st.text("ab=: \t\f\\\n\r#!u0"))
def test_any_text_is_properties_or_refused(text: str) -> None:
    try:
        values = parse_properties(text)
    except SettingError:
        return
    assert all("\n" not in key for key in values)
