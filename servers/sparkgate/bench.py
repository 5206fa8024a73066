"""The benchmark server: measures an engine of the catalogue, and compares what was measured."""

from __future__ import annotations

from typing import Any

from mcp.server import Server
from mcp.server.context import ServerRequestContext

from sparkgate import bench_answers as answers
from sparkgate.asked_by import with_host
from sparkgate.bench_service import Bench
from sparkgate.measure.plan import KINDS
from sparkgate.measure.store import StoreUnavailable
from sparkgate.policy.audit import Caller
from sparkgate.runtimes.spec import RuntimeFault
from sparkgate.services import NotReady, Services
from sparkgate.toolset import Arguments, Offer, Parameter, Tool, build_server, failure

INSTRUCTIONS = (
    "Benchmarks of the inference engines of this machine. bench_run answers at once with a run, bench_job waits. "
    "A number stands only where it may be believed; flags say what was wrong and what to do. Compare runs with "
    "bench_compare, not by eye."
)
KIND_WORDS = "; ".join(f"{kind.name}: {kind.about}" for kind in KINDS.values())
Context = ServerRequestContext[Any, Any]


def _whole(name: str, meaning: str, high: int) -> Parameter:
    """A number of which 0 stands for the usual."""
    return Parameter(name, "integer", f"{meaning}, at most {high}; 0: as is usual.", default=0, low=0, high=high)


ENGINE = Parameter("engine", "string", "One engine of the catalogue; empty: the only one that is ready.", default="")
OFFERS = (
    Offer(
        "bench_run",
        "Measure an engine",
        "Begin a benchmark. Answers at once with a run and how long it will take; bench_job waits for its end.",
        (
            Parameter("kind", "string", f"What to measure. {KIND_WORDS}.", required=True, choices=tuple(KINDS)),
            ENGINE,
            Parameter("concurrency", "string", "Streams at once, such as 1,4,16; empty: as is usual.", default=""),
            _whole("output_tokens", "Tokens of each answer", 32_768),
            _whole("repeats", "Repeats of each measurement", 10),
            Parameter("thinking", "boolean", "Let the model think.", default=False),
            Parameter(
                "prompt_tokens", "string", "Lengths of prompts, such as 512,8192; empty: as is usual.", default=""
            ),
            _whole("max_seconds", "Longest time it may take in seconds", 86_400),
        ),
        answers.bench_run,
    ),
    Offer(
        "bench_job",
        "State of a run",
        "How far a run is, or its numbers, what they are worth and what to do. May wait for its end, or cancel it; "
        "what was measured stays.",
        (
            Parameter("id", "integer", "Number of the run; 0 for the latest.", default=0, low=0, high=2**53),
            Parameter("wait_s", "integer", "Seconds to wait for its end, 0 to 20.", default=0, low=0, high=20),
            Parameter("cancel", "boolean", "End it.", default=False),
        ),
        answers.bench_job,
        destroys=True,
    ),
    Offer(
        "bench_compare",
        "Compare two runs",
        "Whether run b is faster than run a, or passes more tasks, cell by cell; or how many repeats would tell.",
        (
            Parameter("a", "string", "Number of a run, or of several made in turns: 3,6.", required=True),
            Parameter("b", "string", "The same for the other setting: 4,5.", required=True),
        ),
        answers.bench_compare,
        reads=True,
    ),
    Offer(
        "bench_history",
        "Earlier runs",
        "The latest runs, newest first, with their best number.",
        (
            Parameter("engine", "string", "Only runs of this engine.", default=""),
            Parameter("kind", "string", "Only runs of this kind.", default=""),
        ),
        answers.bench_history,
        reads=True,
    ),
    Offer(
        "bench_reference",
        "Published numbers",
        "What others have published of a model, beside what was measured here, and why they differ.",
        (Parameter("model", "string", "Name of a model; empty: the one that was measured last.", default=""),),
        answers.bench_reference,
        reads=True,
    ),
)


def build(services: Services, caller: Caller) -> Server[Any]:
    """The benchmark server for one connection."""
    return build_for(services.bench, caller)


def build_for(bench: Bench, caller: Caller) -> Server[Any]:
    """The same for a given one that measures."""
    tools = [_tool(offer, bench, caller) for offer in OFFERS]
    return build_server("sparkbench", "Benchmarks", INSTRUCTIONS, tools, bench.services.warning, bench.services.locked)


def _tool(offer: Offer, bench: Bench, caller: Caller) -> Tool:
    async def handle(arguments: Arguments, context: Context) -> dict[str, Any]:
        try:
            return await offer.answer(bench, arguments, with_host(caller, context), context)
        except (NotReady, RuntimeFault) as error:
            return failure(error.code, str(error))
        except StoreUnavailable as error:
            return failure("store_unavailable", str(error))

    return offer.tool(handle)
