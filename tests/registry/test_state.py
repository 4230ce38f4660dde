"""What the log says, and what is decided on it: ids, versions, deletions, configs, modes, contexts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.registry.decisions import Decisions, SchemaToRegister
from moldau.registry.errors import RegistryProblem
from moldau.registry.parsing import Parser
from moldau.registry.records import (
    ClearSubjectKey,
    ContextKey,
    DeleteSubjectKey,
    Entry,
    FieldsValue,
    NoopKey,
    SchemaKey,
    SchemaValue,
    UnknownKey,
    read,
    write,
)
from moldau.registry.schemas import Reference
from moldau.registry.state import State
from moldau.registry.subjects import check, context_name, normal, split, within

STRING, INT, LONG = '"string"', '"int"', '"long"'


def record(*fields: str, name: str = "R") -> str:
    listed = [json.loads(field) for field in fields]
    return json.dumps({"type": "record", "name": name, "fields": listed}, separators=(",", ":"))


V1 = record('{"name":"a","type":"int"}')
V2 = record('{"name":"a","type":"int"}', '{"name":"b","type":"int","default":0}')
BAD = record('{"name":"a","type":"int"}', '{"name":"c","type":"int"}')


class Bench:
    """A state with its log: every decision goes through bytes, as it does in life."""

    def __init__(self) -> None:
        self.state = State()
        self.decisions = Decisions(self.state, Parser())
        self.log: list[tuple[bytes, bytes | None]] = []

    def do(self, decision):
        for entry in decision.entries:
            self.log.append(write(entry))
            self.state.apply(read(*self.log[-1]))
        return decision.answer

    def register(self, subject, schema, normalize=False, **more):
        return self.do(
            self.decisions.register(subject, SchemaToRegister(schema, **more), normalize=normalize)
        )

    def replayed(self) -> State:
        state = State()
        for key, value in self.compacted():
            state.apply(read(key, value))
        return state

    def compacted(self):
        """What compaction leaves at the worst: the last record of each key, and no tombstone."""
        last = {key: at for at, (key, _) in enumerate(self.log)}
        return [pair for at, pair in enumerate(self.log) if last[pair[0]] == at and pair[1] is not None]


@pytest.fixture
def bench():
    return Bench()


def error(code):
    return pytest.raises(RegistryProblem, check=lambda found: found.code == code)


# Names.


def test_names_of_subjects():
    assert split("orders") == (".", "orders")
    assert split(":.eu:orders") == (".eu", "orders")
    assert normal(":.:orders") == "orders"
    assert within(":.eu:a", "b") == ":.eu:b"
    assert within(":.eu:a", ":.:b") == "b"
    assert context_name("eu") == context_name(".eu") == context_name(":.eu:") == ".eu"
    for bad in ("", ":.eu:", "__GLOBAL", "a\nb"):
        with error(42208):
            check(bad)


# Registering.


def test_versions_and_ids_count_up(bench):
    first, second = bench.register("s", V1), bench.register("s", V2)
    assert (first.version, first.id, second.version, second.id) == (1, 1, 2, 2)


def test_the_same_schema_is_registered_once(bench):
    bench.register("s", V1)
    decision = bench.decisions.register("s", SchemaToRegister(json.dumps(json.loads(V1), indent=2)))
    assert decision.entries == ()
    assert decision.answer.version == 1


def test_a_schema_has_one_id_in_all_subjects_of_a_context(bench):
    assert bench.register("a", V1).id == bench.register("b", V1).id == 1
    assert bench.register("b", V2).id == 2
    assert bench.register(":.eu:a", V2).id == 1  # another context counts for itself


def test_metadata_and_rules_make_another_version_and_stay(bench):
    bench.register("s", V1)
    owned = bench.register("s", V1, metadata={"properties": {"owner": "ann"}})
    assert (owned.version, owned.id) == (2, 2)
    after = bench.register("s", V2)
    assert after.metadata == {"properties": {"owner": "ann"}}


def test_absent_null_and_empty_are_one(bench):
    rules = {"domainRules": [{"name": "r", "type": "CEL"}]}
    bench.register("s", V1)
    told = bench.register("s", V1, metadata={"properties": {"owner": "ann"}}, rule_set=rules)
    assert told.version == 2
    said = {
        "metadata": {"properties": {"owner": "ann"}, "tags": {}, "sensitive": None},
        "rule_set": {"migrationRules": [], "domainRules": [{**rules["domainRules"][0], "tags": None}]},
    }
    assert bench.register("s", V1, **said).version == 2
    assert bench.decisions.look_up("s", SchemaToRegister(V1, **said)).version == 2
    plain = SchemaToRegister(V1, metadata={"sensitive": []}, rule_set={"migrationRules": None})
    assert bench.decisions.look_up("s", plain).version == 1, "the one that is the same in everything"
    bench.register("t", V1, metadata={})
    assert bench.register("t", V1).version == 1
    assert bench.state.version("t", 1).metadata is None


def test_an_empty_object_takes_metadata_back_where_none_at_all_keeps_it(bench):
    bench.register("s", V1, metadata={"properties": {"owner": "ann"}})
    assert bench.register("s", V2).metadata == {"properties": {"owner": "ann"}}
    assert bench.register("s", V2, metadata={}).metadata is None


INVALID_DEFAULT = record('{"name":"a","type":"int","default":"no number"}')
DASHED = '{"type":"record","name":"R","namespace":"a-b.c","fields":[{"name":"a","type":"int"}]}'


@pytest.mark.parametrize("text", [INVALID_DEFAULT, DASHED])
def test_stored_schemas_are_read_more_leniently_than_new_ones(bench, text):
    with error(42201):
        bench.register("s", text)
    bench.state.apply(Entry(SchemaKey("s", 1), SchemaValue("s", 1, 1, text)))
    assert bench.decisions.look_up("s", SchemaToRegister(text)).version == 1
    assert bench.register("s", record('{"name":"a","type":"long","default":0}')).version == 2
    with error(409):
        bench.register("s", record('{"name":"a","type":"boolean"}'))
    bench.do(bench.decisions.set_mode("moved", "IMPORT"))
    assert bench.register("moved", text, id=7).id == 7
    assert bench.state.version("moved", 1).schema == text


def test_what_is_no_schema_is_refused(bench):
    with error(42201):
        bench.register("s", "{nonsense")
    with error(42201):
        bench.register("s", V1, schema_type="COBOL")
    with error(42201):
        bench.register("s", V1, references=(Reference("x", "nowhere", 1),))
    assert bench.log == []


def test_the_level_decides(bench):
    bench.register("s", V1)
    with error(409):
        bench.register("s", BAD)
    bench.do(bench.decisions.set_config("s", {"compatibility": "none"}))
    assert bench.register("s", BAD).version == 2


def test_transitive_levels_look_at_all_versions(bench):
    bench.do(bench.decisions.set_config(None, {"compatibility": "NONE"}))
    bench.register("s", INT)
    bench.register("s", STRING)
    bench.do(bench.decisions.set_config("s", {"compatibility": "BACKWARD_TRANSITIVE"}))
    messages = bench.decisions.incompatibilities("s", SchemaToRegister('"bytes"'))
    assert "{oldSchemaVersion: 1}" in messages
    assert messages[-1] == "{validateFields: 'false', compatibility: 'BACKWARD_TRANSITIVE'}"
    bench.do(bench.decisions.set_config("s", {"compatibility": "BACKWARD"}))
    assert bench.decisions.incompatibilities("s", SchemaToRegister('"bytes"')) == []


def test_groups_of_compatibility_are_apart(bench):
    bench.do(bench.decisions.set_config("s", {"compatibilityGroup": "major"}))
    bench.register("s", INT, metadata={"properties": {"major": "1"}})
    assert bench.register("s", STRING, metadata={"properties": {"major": "2"}}).version == 2
    with error(409):
        bench.register("s", '"boolean"', metadata={"properties": {"major": "2"}})


def test_config_lends_metadata(bench):
    config = {
        "defaultMetadata": {"properties": {"owner": "nobody"}},
        "overrideMetadata": {"properties": {"site": "eu"}},
    }
    bench.do(bench.decisions.set_config("s", config))
    found = bench.register("s", V1, metadata={"properties": {"owner": "ann"}})
    assert found.metadata == {"properties": {"owner": "ann", "site": "eu"}}


def test_normalize_keeps_the_normal_form(bench):
    loose = '{"type":"record","fields":[{"type":"int","name":"a"}],"name":"R"}'
    first = bench.register("s", loose, normalize=True)
    assert bench.decisions.look_up("s", SchemaToRegister(V1), normalize=True) == bench.state.version("s", 1)
    assert first.version == 1


def test_references_are_settled_and_protected(bench):
    bench.register("address", record('{"name":"street","type":"string"}', name="Address"))
    user = record('{"name":"home","type":"Address"}', name="User")
    found = bench.register("user", user, references=(Reference("Address", "address", -1),))
    assert found.references == (Reference("Address", "address", 1),)
    assert [v.subject for v in bench.state.referrers("address", 1)] == ["user"]
    with error(42206):
        bench.decisions.delete_version("address", 1, permanent=False)
    with error(42206):
        bench.decisions.delete_subject("address", permanent=False)
    bench.do(bench.decisions.delete_subject("user", permanent=False))
    bench.do(bench.decisions.delete_subject("address", permanent=False))
    with error(42206):  # a schema that was deleted softly can still be read, and needs it
        bench.decisions.delete_subject("address", permanent=True)
    bench.do(bench.decisions.delete_subject("user", permanent=True))
    bench.do(bench.decisions.delete_subject("address", permanent=True))
    assert bench.state.subjects(deleted=True) == []


def test_references_lie_in_the_context_of_the_schema(bench):
    bench.register(":.eu:address", record('{"name":"street","type":"string"}', name="Address"))
    user = record('{"name":"home","type":"Address"}', name="User")
    found = bench.register(":.eu:user", user, references=(Reference("Address", "address", 1),))
    assert [v.subject for v in bench.state.referrers(":.eu:address", 1)] == [found.subject]


def test_the_long_part_of_parsing_is_done_elsewhere_and_once(bench):
    def do(task):
        task.keep(task.function(*task.arguments))

    do(bench.decisions.work("s", SchemaToRegister(V1)))
    assert bench.decisions.work("s", SchemaToRegister(V1)) is None
    assert bench.register("s", V1).id == 1
    for number in range(150):  # failures that nobody asks for do not pile up
        do(bench.decisions.work("s", SchemaToRegister(f"{{wrong {number}")))
    assert len(bench.decisions.parser._failed) <= 100
    with error(42201):
        bench.register("s", "{wrong 149")
    assert bench.decisions.work("s", SchemaToRegister(V1, references=(Reference("x", "nowhere", 1),))) is None
    assert bench.decisions.work("s", SchemaToRegister(V1, schema_type="COBOL")) is None


# Looking.


def test_looking_up_a_schema(bench):
    with error(40401):
        bench.decisions.look_up("s", SchemaToRegister(V1))
    bench.register("s", V1)
    assert bench.decisions.look_up("s", SchemaToRegister(V1)).version == 1
    with error(40403):
        bench.decisions.look_up("s", SchemaToRegister(V2))
    with error(40403):
        bench.decisions.look_up("s", SchemaToRegister(V1, metadata={"properties": {"x": "y"}}))


def test_versions_that_are_not_there(bench):
    with error(40401):
        bench.state.version("s", 1)
    bench.register("s", V1)
    with error(40402):
        bench.state.version("s", 2)
    assert bench.state.version("s", -1).version == 1


def test_subjects_of_contexts(bench):
    for subject in ("a1", "a2", "b", ":.eu:a1"):
        bench.register(subject, V1)
    assert bench.state.subjects() == ["a1", "a2", "b"]
    assert bench.state.subjects("a") == ["a1", "a2"]
    assert bench.state.subjects(":.eu:") == [":.eu:a1"]
    assert bench.state.subjects(":*:a1") == [":.eu:a1", "a1"]
    assert bench.state.contexts() == [".", ".eu"]


# Deleting.


def test_a_version_goes_in_two_steps(bench):
    bench.register("s", V1)
    bench.register("s", V2)
    with error(40407):
        bench.decisions.delete_version("s", 1, permanent=True)
    assert bench.do(bench.decisions.delete_version("s", 1, permanent=False)) == 1
    with error(40406):
        bench.decisions.delete_version("s", 1, permanent=False)
    assert bench.state.with_id(".", 1)  # by its id a schema can be read until it is gone for good
    assert [v.version for v in bench.state.versions("s")] == [2]
    bench.do(bench.decisions.delete_version("s", 1, permanent=True))
    assert bench.state.with_id(".", 1) == []
    with error(40402):
        bench.decisions.delete_version("s", 1, permanent=True)


def test_a_subject_goes_in_two_steps(bench):
    with error(40401):
        bench.decisions.delete_subject("s", permanent=False)
    bench.register("s", V1)
    bench.register("s", V2)
    bench.do(bench.decisions.set_config("s", {"compatibility": "FULL"}))
    with error(40405):
        bench.decisions.delete_subject("s", permanent=True)
    assert bench.do(bench.decisions.delete_subject("s", permanent=False)) == [1, 2]
    assert bench.state.configs == {}
    with error(40404):
        bench.decisions.delete_subject("s", permanent=False)
    assert bench.state.subjects(deleted_only=True) == ["s"]
    assert bench.do(bench.decisions.delete_subject("s", permanent=True)) == [1, 2]
    assert bench.state.subjects(deleted=True) == []


def test_a_schema_that_comes_back_has_its_id_and_a_new_version(bench):
    bench.register("s", V1)
    bench.do(bench.decisions.delete_subject("s", permanent=False))
    back = bench.register("s", V1)
    assert (back.id, back.version) == (1, 2)
    assert [v.version for v in bench.state.versions("s", deleted=True)] == [2]


def test_an_id_is_never_given_again_even_after_compaction(bench):
    bench.register("s", V1)
    bench.register("s", V2)
    bench.do(bench.decisions.delete_subject("s", permanent=False))
    bench.do(bench.decisions.delete_subject("s", permanent=True))
    assert bench.replayed().next_id(".") == 3
    assert bench.register("t", STRING).id == 3


# Configs and modes.


def test_configs_of_subject_context_and_all(bench):
    decisions, state = bench.decisions, bench.state
    bench.do(decisions.set_config(None, {"compatibility": "FULL"}))
    bench.do(decisions.set_config(":.eu:", {"compatibility": "FORWARD"}))
    assert state.effective_config("s")["compatibilityLevel"] == "FULL"
    assert state.effective_config(":.eu:s")["compatibilityLevel"] == "FORWARD"
    answer = bench.do(decisions.set_config("s", {"compatibility": "backward", "normalize": True}))
    assert answer == {"compatibility": "BACKWARD", "normalize": True}
    bench.do(decisions.set_config("s", {"alias": "t"}))
    assert state.configs["s"]["compatibilityLevel"] == "BACKWARD"
    assert bench.do(decisions.delete_config("s"))["compatibilityLevel"] == "BACKWARD"
    with error(40401):
        decisions.delete_config("s")
    for bad in ({"compatibility": "SOMEWHAT"}, {"compatibility": 7}, {}):
        with error(42203):
            decisions.set_config("s", bad)
    with error(422):
        decisions.set_config("s", {"normalize": "yes"})


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE", "FORWARD"])
def test_closed_modes_refuse_writes_and_answer_what_is_known(bench, mode):
    bench.register("s", V1)
    bench.do(bench.decisions.set_mode(None, mode))
    assert bench.register("s", V1).id == 1
    for write_something in (
        lambda: bench.register("s", V2),
        lambda: bench.decisions.delete_subject("s", permanent=False),
        lambda: bench.decisions.delete_version("s", 1, permanent=False),
        lambda: bench.decisions.set_config("s", {"compatibility": "NONE"}),
    ):
        with error(42205):
            write_something()


def test_the_nearest_mode_counts_unless_all_is_overridden(bench):
    bench.do(bench.decisions.set_mode("s", "READWRITE"))
    bench.do(bench.decisions.set_mode(None, "READONLY"))
    assert bench.state.effective_mode("s") == "READWRITE"
    bench.do(bench.decisions.set_mode(None, "READONLY_OVERRIDE"))
    assert bench.state.effective_mode("s") == "READONLY_OVERRIDE"
    bench.do(bench.decisions.delete_mode("s"))
    with error(40401):
        bench.decisions.delete_mode("s")
    with error(42204):
        bench.decisions.set_mode(None, "SLEEPING")


def test_import_keeps_ids_and_checks_nothing_but_them(bench):
    with error(42205):
        bench.register("s", V1, id=40)
    bench.register("other", STRING)
    with error(42205):
        bench.decisions.set_mode(None, "IMPORT")
    bench.do(bench.decisions.set_mode("s", "IMPORT"))
    with error(42205):
        bench.register("s", V1)
    imported = bench.register("s", V1, id=40, version=7)
    assert (imported.id, imported.version) == (40, 7)
    assert bench.register("s", BAD, id=41, version=9).version == 9
    with error(42205):
        bench.register("s", LONG, id=40, version=10)
    with error(42205):
        bench.register("s", LONG, id=42, version=7)
    bench.do(bench.decisions.set_mode("s", "READWRITE"))
    assert bench.register("new", LONG).id == 42


# The log.


def test_garbage_and_news_are_passed_over(bench):
    state = bench.state
    state.apply(Entry(UnknownKey(b"?", "no JSON")))
    state.apply(Entry(NoopKey()))
    state.apply(Entry(DeleteSubjectKey("s"), FieldsValue({})))
    state.apply(Entry(SchemaKey("s", 1), SchemaValue("s", 1, 5, "{this is no schema")))
    assert state.passed_over_count == 2
    assert state.version("s", 1).schema == "{this is no schema"
    with error(409):  # it can be read, but nothing can be compared with it
        bench.register("s", V1)
    bench.do(bench.decisions.set_config("s", {"compatibility": "NONE"}))
    assert bench.register("s", V1).id == 6


def test_one_id_for_two_schemas_is_passed_over():
    state = State()
    state.apply(Entry(SchemaKey("a", 1), SchemaValue("a", 1, 1, STRING)))
    state.apply(Entry(SchemaKey("b", 1), SchemaValue("b", 1, 1, INT)))
    assert state.subjects() == ["a"]
    assert "id 1" in state.passed_over[0]


def test_references_in_a_circle_end():
    state = State()
    for subject, other in (("a", "b"), ("b", "a")):
        value = SchemaValue(subject, 1, ord(subject), STRING, references=(Reference(other, other, 1),))
        state.apply(Entry(SchemaKey(subject, 1), value))
    assert Parser().of(state, state.version("a", 1)) is None


def test_a_subject_can_be_cleared_and_a_context_be_empty():
    state = State()
    state.apply(Entry(SchemaKey("a", 1), SchemaValue("a", 1, 1, STRING)))
    state.apply(Entry(ClearSubjectKey("a"), FieldsValue({"subject": "a"})))
    state.apply(Entry(ContextKey(".eu"), FieldsValue({"tenant": "default", "context": ".eu"})))
    assert state.subjects(deleted=True) == []
    assert state.contexts() == [".", ".eu"]


def test_a_schema_that_another_registry_laid_out_is_recognised(bench):
    spaced = '{ "type": "record", "name": "R", "fields": [ {"name":"a","type":"int"} ] }'
    bench.state.apply(Entry(SchemaKey("s", 1), SchemaValue("s", 1, 3, spaced)))
    assert bench.register("s", V1).id == 3
    assert bench.decisions.look_up("s", SchemaToRegister(V1)).version == 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["register", "delete", "purge", "delete subject", "purge subject"]),
        st.sampled_from(["a", "b", ":.eu:a"]),
        st.sampled_from([STRING, INT, LONG, V1, V2]),
        st.integers(1, 4),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_ids_stand_for_one_schema_for_ever_and_the_log_is_the_state(steps):
    bench = Bench()
    bench.do(bench.decisions.set_config(None, {"compatibility": "NONE"}))
    given_ids: dict[tuple[str, int], str] = {}
    codes: set[int] = set()
    for action, subject, schema, version in steps:
        try:
            if action == "register":
                value = bench.register(subject, schema)
                place = (split(subject)[0], value.id)
                assert given_ids.setdefault(place, value.schema) == value.schema
            elif "subject" in action:
                bench.do(bench.decisions.delete_subject(subject, permanent="purge" in action))
            else:
                bench.do(bench.decisions.delete_version(subject, version, permanent="purge" in action))
        except RegistryProblem as refused:
            codes.add(refused.code)
    assert all(40401 <= code <= 40407 for code in codes)
    again = bench.replayed()
    for context in (".", ".eu"):
        assert again.next_id(context) == bench.state.next_id(context)
    names = bench.state.subjects(":*:", deleted=True)
    assert again.subjects(":*:", deleted=True) == names
    for name in names:
        assert again.versions(name, deleted=True) == bench.state.versions(name, deleted=True)
