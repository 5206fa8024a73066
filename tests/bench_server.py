"""The benchmark server in one process over standard streams, with a given measuring process: CONFIG STATE COMMAND…"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.stdio import stdio_server

from sparkgate.bench import build_for
from sparkgate.bench_service import Bench
from sparkgate.policy.audit import Caller
from sparkgate.policy.guard import Guard
from sparkgate.services import Services


def main() -> None:
    config, state, *command = sys.argv[1:]
    guard = Guard()
    guard.install()
    bench = Bench(Services(Path(config), Path(state), guard), command)
    server = build_for(bench, Caller("test", "", pid=os.getppid(), uid=os.getuid(), cwd="/"))

    async def run() -> None:
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    asyncio.run(run())


if __name__ == "__main__":
    main()
