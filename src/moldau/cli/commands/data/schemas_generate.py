"""``moldau schemas generate``: dataclasses from a subject.

Invariant: an existing file is overwritten only with ``--force``.
"""

from pathlib import Path

import click

from moldau.cli.schema_registry import connected, parsed, registry_options


@click.command("generate")
@click.argument("subject")
@click.option("--version", default="latest", show_default=True, help="A number, or latest.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Instead of stdout.")
@click.option("--force", is_flag=True, help="Write over the output file.")
@click.option("--plain", is_flag=True, help="Avro: without what moldau.serde needs to find int and fixed.")
@registry_options
def generate(subject: str, version: str, output: Path | None, force: bool, plain: bool) -> None:
    """Write Python dataclasses for the schema of SUBJECT: Avro, JSON Schema or Protobuf.
    With moldau.serde the classes of Avro and JSON Schema are serialized as they are; for Protobuf they are
    for reading and plain code, since its serializers take protoc's own classes.

    \b
    Examples:
      moldau schemas generate orders-value
      moldau schemas generate orders-value --version 2 -o order.py
    """
    if output is not None and output.exists() and not force:
        raise click.ClickException(f"{output} is there already. Next: --force writes over it")
    with connected() as client:
        schema = client.version(subject, version)
        text = module_text(subject, schema.version, parsed(client, schema), plain)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}") from error
    click.echo(f"wrote {output}")


def module_text(subject: str, version: object, schema: object, plain: bool = False) -> str:
    from moldau.cli.codegen.classes import Module
    from moldau.registry.schemas import ParsedSchema
    from moldau.schemas.avro.types import AvroSchema
    from moldau.schemas.json_schema.parse import JsonDocument
    from moldau.schemas.protobuf.schema import ProtobufSchema

    assert isinstance(schema, ParsedSchema)
    module = Module(f"Version {version} of {subject}; written by 'moldau schemas generate'.")
    match schema.form:
        case AvroSchema() as avro:
            from moldau.cli.codegen.avro import write_avro

            write_avro(module, avro, plain)
        case JsonDocument() as document:
            from moldau.cli.codegen.json import write_json

            write_json(module, document, subject.removesuffix("-value").removesuffix("-key"))
        case ProtobufSchema() as protobuf:
            from moldau.cli.codegen.protobuf import write_protobuf

            write_protobuf(module, protobuf)
    return module.text()
