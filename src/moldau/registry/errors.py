"""What the registry answers when it will not or cannot: Confluent's error codes with their words.

Invariant: one exception, ``RegistryProblem``; one function for each thing that can be wrong. Clients decide
by the code, so a code means here what it means there.
"""

from moldau.web.problems import Problem

SUBJECT_NOT_FOUND, INVALID_SCHEMA = 40401, 42201


class RegistryProblem(Problem):
    """A problem with one of Confluent's codes."""


def subject_not_found(subject: str) -> RegistryProblem:
    return RegistryProblem(SUBJECT_NOT_FOUND, 404, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryProblem:
    return RegistryProblem(40402, 404, f"Version {version} not found.")


def schema_not_found(schema: object = None) -> RegistryProblem:
    return RegistryProblem(40403, 404, "Schema not found" if schema is None else f"Schema {schema} not found")


def subject_soft_deleted(subject: str) -> RegistryProblem:
    said = f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
    return RegistryProblem(40404, 404, said)


def subject_not_soft_deleted(subject: str) -> RegistryProblem:
    said = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return RegistryProblem(40405, 404, said)


def version_soft_deleted(subject: str, version: int) -> RegistryProblem:
    said = f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    return RegistryProblem(40406, 404, said)


def version_not_soft_deleted(subject: str, version: int) -> RegistryProblem:
    said = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return RegistryProblem(40407, 404, said)


def config_not_found(subject: str) -> RegistryProblem:
    said = f"Subject '{subject}' does not have subject-level compatibility configured"
    return RegistryProblem(40408, 404, said)


def mode_not_found(subject: str) -> RegistryProblem:
    return RegistryProblem(40409, 404, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, details: list[str]) -> RegistryProblem:
    said = f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
    return RegistryProblem(409, 409, f"{said}, details: [{', '.join(details)}]")


def invalid_schema(why: object) -> RegistryProblem:
    return RegistryProblem(INVALID_SCHEMA, 422, f"Invalid schema: {why}")


def reference_not_found(name: str, subject: str, version: int) -> RegistryProblem:
    wanted = f"{{name='{name}', subject='{subject}', version={version}}}"
    return invalid_schema(
        f'No schema reference found for {wanted}: no subject "{subject}" with version {version}'
    )


def invalid_version(version: object) -> RegistryProblem:
    said = (
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"'
    )
    return RegistryProblem(42202, 422, said)


def invalid_level() -> RegistryProblem:
    said = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive"
    )
    return RegistryProblem(42203, 422, said)


def invalid_mode() -> RegistryProblem:
    said = "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT, and FORWARD"
    return RegistryProblem(42204, 422, said)


def not_permitted(why: str) -> RegistryProblem:
    return RegistryProblem(42205, 422, why)


def reference_exists(subject: str, version: int) -> RegistryProblem:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    said = f"One or more references exist to the schema {key}."
    return RegistryProblem(42206, 422, said)


def invalid_subject(subject: str) -> RegistryProblem:
    return RegistryProblem(42208, 422, f"The specified subject '{subject}' is not a valid subject.")


def schema_too_large(why: object) -> RegistryProblem:
    return RegistryProblem(42209, 422, f"The schema is too large for a record: {why}")


def unprocessable(why: str) -> RegistryProblem:
    """A request that cannot be read as what it should be."""
    return RegistryProblem(422, 422, why)


def store_error(why: object) -> RegistryProblem:
    return RegistryProblem(50001, 500, f"Error in the backend data store: {why}")


def timed_out(why: object) -> RegistryProblem:
    return RegistryProblem(50002, 500, f"The operation timed out: {why}")


def takes_too_long() -> RegistryProblem:
    return timed_out("the schema takes too long to look at; make it smaller, or try again")


def unknown_leader() -> RegistryProblem:
    """Says that nothing was done, so that the request can be sent to the next leader."""
    return RegistryProblem(50004, 500, "The leader of the registry is not known at the moment")
