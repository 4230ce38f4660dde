"""``moldau mcp`` as an assistant starts it: a process that speaks the protocol on its standard streams."""

import asyncio
import os
import sys

import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

from moldau.cli.commands.services.mcp import mcp
from moldau.testing import Broker


@pytest.mark.slow
def test_an_assistant_asks_for_topics(broker: Broker) -> None:
    broker.create_topic("orders", 2)
    arguments = ["-m", "moldau", "mcp", "-b", broker.bootstrap_servers]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))

    async def ask() -> object:
        async with Client(server) as client:
            answer = await client.call_tool("list_topics", {})
            return answer.structured_content

    assert asyncio.run(asyncio.wait_for(ask(), 60)) == {
        "result": [{"name": "orders", "partitions": 2, "replicas": 1, "bytes": 0}]
    }


def test_wrong_options_are_said() -> None:
    result = CliRunner().invoke(mcp, ["--mask", "nonsense"])
    assert (result.exit_code, "is no mask" in result.output) == (2, True)
