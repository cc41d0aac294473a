"""The conformance map is true of the code, the tests and the page; foreign work is awaited in one place only."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import loopctl.concurrency
from loopctl.record import Checkpoint
from tests.architecture.source import PACKAGE, ROOT, Module, modules
from tests.conformance.checkpoints import MAP, PAGE, found, found_in, written

AWAITERS = {"driver", "middleware", "store", "streaming", "tools"}
ALLOWED = {
    "tools/_remote.py RemoteTool.__init__.remote: call(arguments, ctx)": "is the tool, in the task of its call",
    "driver/_execution.py Execution.wait: future": "the caller waits for the end of the run, outside of it",
    "driver/_loop.py drive: perform(effects)": "the driver's own performer",
    "driver/_model_call.py _begun: begin()": "inside the child task of the race",
    "driver/_model_call.py _drained: aclosing(passage)": "a whole reply through its layers, inside that child",
    "driver/_model_call.py _drained: passage": "a whole reply through its layers, inside that child",
    "middleware/_gate.py RateGate.model_call: deltas": "a layer, inside the child of its request",
    "middleware/_model.py Deltas.__anext__: anext(self._given)": "a layer or the model, inside that child",
    "middleware/_model.py Deltas.aclose: close()": "a layer closes the rest early, inside that child",
    "middleware/_model.py Passage.__anext__: anext(self._reply)": "the outermost layer, inside that child",
    "middleware/_model.py Passage._asked: close()": "the task that read the stream closes it, in that child",
    "middleware/_model.py Passage._asked: stream": "the model, inside that child",
    "middleware/_model.py Passage._close: close()": "what was opened is closed by its task, inside that child",
    "middleware/_model.py Passage.aclose: AsyncExitStack()": "what was opened is closed by its task, inside that child",
    "streaming/_fanout.py Reader._wait: queue.waiter": "the reader waits for the run, outside of it",
    "streaming/_pump.py _Stream.__aexit__: anext(self._stream, None)": "the pump reads inside the child of the race",
    "streaming/_pump.py _Stream.__aexit__: close()": "the task that read the stream closes it, inside that child",
    "streaming/_pump.py pump: stream": "the pump reads inside the child of the race",
    "streaming/_pump.py pump: _Stream(start, attempt)": "the pump reads inside the child of the race",
    "tools/_approval.py _answer: given": "what is asked for approval, inside its child",
    "middleware/_memoize.py Memoize.tool_call: call_next(call)": "a layer, inside the child of its pipeline",
    "middleware/_permission.py Permission.tool_call: call_next(call)": "a layer, inside the child of its pipeline",
    "middleware/_timeout.py Timeout.tool_call: call_next(call)": "a layer, inside the child of its pipeline",
    "tools/_context.py ToolContext.cancelled: self.signal.notified()": "the tool's own wait, inside its child",
    "tools/_pipeline.py _Core.end: self._over": "the end of what a layer left running, which is bounded by itself",
    "tools/_pipeline.py _begin: rest(call)": "the outermost layer, inside the child of its pipeline",
    "tools/_pipeline.py _Layer._outcome: self._rest(call)": "the next layer, inside the child of the pipeline",
    "tools/_pipeline.py _Layer._outcome: given": "a layer, inside the child of its pipeline",
    "tools/_temp.py TemporaryFolder.around: begin()": "the tool with its folder, inside its child",
    "store/_once.py once_on_loop: function()": "what is done once, inside the child of its tool",
    "tools/_tool.py _inside: result": "the tool itself, inside its child",
    "driver/_session.py Session.run: self.start(input, signal=signal)": "the caller waits for the run, outside of it",
    "driver/_agent.py Agent.aclose: AsyncExitStack()": "closing the clients, when no run is left",
}


def made(text: str) -> Module:
    return Module(PACKAGE / "driver" / "_made.py", text, ast.parse(text))


def test_every_checkpoint_has_its_entry_in_order() -> None:
    assert list(MAP) == list(Checkpoint)
    assert all(bool(entry.sites) != bool(entry.deferred) and entry.bound for entry in MAP.values())


def test_the_map_lists_the_call_sites_that_the_code_has_and_no_others() -> None:
    in_code = Counter((site.member, site.where) for site in found())
    in_map = Counter((member, site.where) for member, entry in MAP.items() for site in entry.sites)
    assert in_code - in_map == Counter(), (
        "the engine passes these checkpoints and tests/conformance/checkpoints.py does not list them: add a Site with "
        "the tests that go red without it (in place of `deferred`), then run python -m tests.conformance.checkpoints"
    )
    assert in_map - in_code == Counter(), (
        "the map lists call sites that are not in the code (any more): correct them in tests/conformance/checkpoints.py"
        ", then run python -m tests.conformance.checkpoints"
    )


def test_every_test_that_the_map_names_exists() -> None:
    named = [test for entry in MAP.values() for site in entry.sites for test in site.tests]
    assert all(site.tests for entry in MAP.values() for site in entry.sites)
    missing = []
    for test in named:
        path, name = test.split("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        if name not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            missing.append(test)
    assert missing == []


def test_the_page_says_what_the_map_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run python -m tests.conformance.checkpoints"
    here = dict(re.findall(r"^\| \d+ \| `(\w+)` \|.*\| ([^|]+) \|$", page, re.MULTILINE))
    assert {name for name, word in here.items() if word == "later"} == {
        member.name for member, entry in MAP.items() if entry.deferred
    }, "the column `here` of docs/reference/checkpoints.md says `later` of what the map does not defer, or the reverse"


@pytest.mark.parametrize(
    "line",
    [
        "run.poll(Checkpoint.APPROVAL)",
        "await supervise(work, token, at=Checkpoint.APPROVAL)",
        "at = Checkpoint.APPROVAL if x else None",
        "raise Cancelled(reason, Checkpoint.APPROVAL)",
        "await sleep(1, token, at=Checkpoint.APPROVAL)",
    ],
)
def test_a_new_call_site_would_be_noticed(line: str) -> None:
    [site] = found_in(made(f"class A:\n    async def b(self):\n        {line}"))
    assert (site.where, site.member) == ("driver/_made.py A.b", Checkpoint.APPROVAL)


@pytest.mark.parametrize("line", ["run.scratch.place = Checkpoint.WAVE", "ending.raise_if_stopped(Checkpoint.WAVE)"])
def test_naming_a_checkpoint_is_not_passing_it(line: str) -> None:
    assert list(found_in(made(f"def b(run):\n    {line}"))) == []


def ours() -> set[str]:
    """The names of coroutine functions of the engine, and of what the concurrency layer offers."""
    own = {
        node.name
        for module in modules()
        if module.package in AWAITERS
        for node in ast.walk(module.tree)
        if isinstance(node, ast.AsyncFunctionDef)
    }
    return own | set(loopctl.concurrency.__all__)


def awaited(module: Module, own: set[str]) -> list[str]:
    """Everything that *module* awaits and that is neither its own nor the concurrency layer's, with where it does."""
    found: list[str] = []

    def walk(node: ast.AST, names: tuple[str, ...]) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (*names, node.name)
        works: list[ast.expr] = []
        if isinstance(node, ast.Await):
            works = [node.value]
        elif isinstance(node, ast.AsyncFor | ast.comprehension) and getattr(node, "is_async", True):
            works = [node.iter]
        elif isinstance(node, ast.AsyncWith):
            works = [item.context_expr for item in node.items]
        found.extend(f"{module.name} {'.'.join(names)}: {ast.unparse(work)}" for work in works if not is_own(work, own))
        for child in ast.iter_child_nodes(node):
            walk(child, names)

    walk(module.tree, ())
    return found


def is_own(work: ast.expr, own: set[str]) -> bool:
    """A call by a name that we give to a coroutine function; `asyncio` gives some of them too."""
    if not isinstance(work, ast.Call):
        return False
    *holder, name = ast.unparse(work.func).split(".")
    return name in own and holder != ["asyncio"]


def test_the_engine_awaits_foreign_work_only_through_the_concurrency_layer() -> None:
    own = ours()
    foreign = {line for module in modules() if module.package in AWAITERS for line in awaited(module, own)}
    assert sorted(foreign - ALLOWED.keys()) == [], (
        "await foreign work through loopctl.concurrency (supervise, race, sleep) at a named checkpoint; what is "
        "awaited inside the child task of a race, or outside of any run, goes into ALLOWED with its reason"
    )
    assert sorted(ALLOWED.keys() - foreign) == [], "ALLOWED lists what nobody awaits any more"


@pytest.mark.parametrize(
    "line", ["await model.complete(x)", "await asyncio.sleep(1)", "async for x in stream: pass", "[x async for x in y]"]
)
def test_a_plain_await_of_foreign_work_would_be_noticed(line: str) -> None:
    assert len(awaited(made(f"async def b(model):\n    {line}"), ours())) == 1


def test_the_map_is_not_empty_handed() -> None:
    assert len(found()) >= 14
    assert Path(PAGE).exists()
