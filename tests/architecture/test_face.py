"""The public face: what it names, that it is lazy and quiet, and that the brain stays pure at run time."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module

import loopctl
from scripts import api
from tests.architecture.source import PACKAGE, packages

OPTIONAL = {"adapters", "cli", "providers", "web"}  # need an extra; looked at below, one by one


def run_python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program], capture_output=True, text=True, check=True
    )
    assert "Warning" not in done.stderr
    return done.stdout


def test_the_face_is_small_sorted_and_complete():
    assert len(loopctl.__all__) <= 45
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    for_type_checkers = {alias.name for node in guard.body for alias in node.names}
    assert for_type_checkers == set(loopctl.__all__)


def test_every_public_name_resolves_to_what_its_package_offers():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    for node in guard.body:
        for alias in node.names:
            home = import_module(node.module)
            assert getattr(loopctl, alias.name) is getattr(home, alias.name)
            assert alias.name in home.__all__
    assert set(dir(loopctl)) == set(loopctl.__all__)


def test_the_contracts_names_are_there():
    """The names of the first program in the contract, section 6."""
    contract = """Agent CancelReason CancelSignal Cancelled Checkpoint LoopError Run RunConfig Session ToolContext
                  Urgency race scope sleep tool"""
    assert set(contract.split()) <= set(loopctl.__all__)


def test_the_public_api_is_what_the_snapshot_says(capsys):
    outcome = api.main(["--check"])
    assert outcome == 0, capsys.readouterr().out


def test_importing_the_face_is_quiet_and_loads_no_event_loop():
    assert run_python("import sys, loopctl; print('asyncio' in sys.modules)") == "False\n"


def test_an_agent_without_a_store_needs_no_sqlite():
    """Some builds of Python have none."""
    assert run_python("import sys, loopctl; loopctl.Agent; print('sqlite3' in sys.modules)") == "False\n"


def test_the_brain_and_everything_under_it_load_no_event_loop_no_clock_and_no_network():
    program = """
import sys, loopctl.errors, loopctl.messages, loopctl.record, loopctl.model, loopctl.brain
import loopctl.recovery, loopctl.fallback
print(sorted({"asyncio", "socket", "threading", "selectors", "random", "httpx2", "subprocess"} & sys.modules.keys()))
"""
    assert run_python(program) == "[]\n"


def test_no_import_of_ours_starts_a_thread_opens_a_descriptor_or_touches_a_signal():
    names = [f"loopctl.{name}" for name in packages() if name not in OPTIONAL]
    program = f"""
import os, signal, threading
from importlib import import_module
def state():
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    return threading.active_count(), len(os.listdir("/proc/self/fd")), handlers, os.getcwd(), dict(os.environ)
before = state()
for name in {names}:
    import_module(name)
print(state() == before)
"""
    assert run_python(program) == "True\n"


def _public_waits():
    """Each public coroutine function and asynchronous generator function, with its dotted name."""
    for package in packages():
        home = import_module(f"loopctl.{package}")
        for name in getattr(home, "__all__", ()):
            thing = getattr(home, name)
            members = vars(thing).items() if inspect.isclass(thing) and thing.__module__.startswith("loopctl") else ()
            for dotted, function in [(name, thing), *((f"{name}.{member}", value) for member, value in members)]:
                is_waiting = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
                if is_waiting and not dotted.rpartition(".")[2].startswith("_"):
                    yield f"loopctl.{package}.{dotted}", function


def test_every_public_coroutine_says_what_a_cancel_does_to_it():
    waits = dict(_public_waits())
    assert waits, "none was found, so nothing was checked"
    assert [name for name, function in waits.items() if "Cancellation:" not in (function.__doc__ or "")] == []
