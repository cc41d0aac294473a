"""The rules of the house that a linter does not know, each as a failing test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.source import PACKAGE, ROOT, modules, names_in, walk_frame

LONGEST_FILE = 400

FOREIGN_CODE = {
    "cancel/_fire.py": "callbacks; all are told before anything is raised",
    "cancel/_post.py": "a waiter's loop, and what the waiter does when it is woken",
    "cancel/_registration.py": "a callback, and a log handler",
    "cancel/_timer.py": "a callback, on a thread that nobody is above",
    "cli/_main.py": "everything, at the top of the command",
    "concurrency/_ending.py": "the `__str__` of an error and the `__repr__` of a value of foreign code",
    "concurrency/_process.py": "who is told of a command's output, or of its messages",
    "concurrency/_side_loop.py": "whatever runs on it: there is nobody above its thread",
    "concurrency/_straggler.py": "attributes of whatever a straggler awaits",
    "concurrency/_together.py": "the works, whose errors their host raises",
    "concurrency/_work.py": "the work",
    "driver/_execution.py": "the last resort around a run: its record is kept whatever happens",
    "observers/_notify.py": "an observer, and a log handler",
    "store/_rows.py": "serialisers and properties of a result's type",
    "testing/abandon/_act.py": "the tool",
    "testing/abandon/_check.py": "what the author says of states, in the checker's own process",
    "testing/abandon/_stage.py": "modules that the tool imports",
    "testing/_run.py": "leftover coroutines that refuse to be closed",
    "tools/_annotations.py": "an annotation, which is evaluated",
    "tools/_arguments.py": "validators of an argument's type",
    "tools/_attempt.py": "validators, and what a tool declares of a call",
    "tools/_call.py": "a recovery strategy",
    "tools/_carry.py": "the pickling of an argument, a result or an error",
    "tools/_isolation.py": "the reading of a pickled result or error",
    "tools/_load.py": "a module that is imported",
    "tools/_pipeline.py": "middleware",
    "tools/_render.py": "serialisers and properties of a result's type",
    "tools/_resources.py": "what a tool declares of a call",
    "tools/_schema.py": "schema hooks of an argument's type",
    "tools/_status.py": "code of a result's own",
    "tools/_worker.py": "a tool, and the program that it is in",
}
"""The only files that may catch everything. A new one is a decision: add it here, with what it calls."""

TASK_MAKERS = {
    "asyncio.Task", "asyncio.TaskGroup", "asyncio.ensure_future", "asyncio.gather", "asyncio.shield", "asyncio.timeout",
    "asyncio.to_thread", "asyncio.wait", "asyncio.wait_for",
}  # fmt: skip
TASK_MAKING_METHODS = {"create_task", "run_in_executor", "ensure_future"}
SIGNAL_CALLS = {"signal.signal", "signal.set_wakeup_fd", "signal.pthread_sigmask", "signal.raise_signal"}
SIGNAL_METHODS = {"add_signal_handler", "remove_signal_handler"}
ENGINE = {"concurrency", "testing"}  # the test kit owns a loop, and models that misbehave


def test_no_file_is_longer_than_one_can_read_at_once():
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {str(path): length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_every_module_says_what_it_owns():
    assert [module.name for module in modules() if not ast.get_docstring(module.tree)] == []


def test_every_module_lists_what_it_offers():
    silent = [
        module.name
        for module in modules()
        if "__all__" not in module.text and "__main__" not in module.text and len(module.tree.body) > 1
    ]
    assert silent == []


def test_a_package_is_entered_by_its_front_door():
    trespassers = []
    for module in modules():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ImportFrom | ast.Import):
                continue
            targets = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            for target in targets:
                match = re.match(r"(loopctl\..*?)\._", target)
                owner = "loopctl." + ".".join(module.path.relative_to(PACKAGE).with_suffix("").parts) + "."
                if match and not owner.startswith(match[1] + "."):
                    trespassers.append(f"{module.at(node)} imports {target}")
    assert trespassers == []


def test_only_the_concurrency_layer_creates_tasks_and_shields():
    makers = []
    for module in modules():
        if module.package in ENGINE:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in TASK_MAKERS or called.rpartition(".")[2] in TASK_MAKING_METHODS:
                    makers.append(f"{module.at(node)} {called}")
            elif isinstance(node, ast.ImportFrom) and node.module == "asyncio":
                makers.append(f"{module.at(node)} write asyncio.name, so that this test can read it")
    assert makers == []


def test_only_the_concurrency_layer_touches_signal_handlers():
    touching = [
        f"{module.at(node)} {ast.unparse(node.func)}"
        for module in modules()
        if module.package not in ENGINE
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and (ast.unparse(node.func) in SIGNAL_CALLS or ast.unparse(node.func).rpartition(".")[2] in SIGNAL_METHODS)
    ]
    assert touching == []


def _catches_everything(node: ast.AST) -> bool:
    everything = {"Exception", "BaseException"}
    if isinstance(node, ast.ExceptHandler):
        is_passed_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        return not is_passed_on and (node.type is None or bool(names_in(node.type) & everything))
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
        return any(names_in(argument) & everything for argument in node.args)
    return False


def test_everything_is_caught_only_where_foreign_code_is_called():
    catching = {module.name: module for module in modules() if any(map(_catches_everything, ast.walk(module.tree)))}
    surprising = [
        module.at(node)
        for name, module in catching.items()
        if name not in FOREIGN_CODE
        for node in ast.walk(module.tree)
        if _catches_everything(node) and hasattr(node, "lineno")
    ]
    assert surprising == [], "catch what you expect; or add the file to FOREIGN_CODE and say what it calls"
    assert FOREIGN_CODE.keys() - catching.keys() == set(), "these files no longer catch everything: take them off"


def test_no_cancelled_error_is_suppressed_by_a_context_manager():
    suppressing = [
        module.at(node)
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("suppress")
        and {"asyncio.CancelledError", "CancelledError"} & names_in(node)
        and module.package not in ENGINE
    ]
    assert suppressing == []


def _leaves_a_finally(statements: list[ast.stmt]) -> list[ast.AST]:
    """The statements of a finally block that would replace an exception on its way out (as PEP 765 lists them)."""
    leaving: list[ast.AST] = []
    for node in statements:
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            leaving.append(node)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            leaving += [inner for inner in walk_frame([node]) if isinstance(inner, ast.Return)]
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            leaving += _leaves_a_finally([inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)])
            handlers = [*getattr(node, "handlers", []), *getattr(node, "cases", [])]
            leaving += [found for handler in handlers for found in _leaves_a_finally(handler.body)]
    return leaving


def test_no_frame_leaves_a_finally_block_by_return_break_or_continue():
    """Case E12: a frame that returns from `finally` turns its caller's cancel into a normal result."""
    leaving = [
        module.at(found)
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Try)
        for found in _leaves_a_finally(node.finalbody)
    ]
    assert leaving == []


def test_the_finally_rule_sees_what_it_is_for():
    bad = [
        "try: pass\nfinally:\n return 1",
        "try: pass\nfinally:\n if x:\n  return 1",
        "for i in x:\n try: pass\n finally: break",
        "try: pass\nfinally:\n with x:\n  try: pass\n  except E: return",
        "try: pass\nfinally:\n while x: return",
    ]
    good = [
        "try: pass\nfinally:\n for i in x: break",
        "try: pass\nfinally:\n def f(): return 1",
        "try: return 1\nfinally: x()",
    ]
    trees = [[node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Try)] for text in (*bad, *good)]
    assert [any(_leaves_a_finally(node.finalbody) for node in tries) for tries in trees] == [True] * 5 + [False] * 3


def test_no_file_names_a_package_registry():
    """Where packages come from is the business of each machine's own settings."""
    hosts = [
        "pypi" + ".org",
        "python" + "hosted.org",
        "npm" + "js.org",
        "npm" + "js.com",
        "crates" + ".io",
        "deb.debian" + ".org",
    ]
    suffixes = {".py", ".md", ".toml", ".sh", ".txt", ".yml", ".yaml", ".cfg", ".json", ""}
    folders = [folder for folder in ROOT.iterdir() if folder.is_dir() and folder.name.strip(".") in OURS]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    assert [
        f"{path}: {host}" for path in files if path.suffix in suffixes for host in hosts if host in _read(path)
    ] == []


OURS = {"src", "tests", "docs", "scripts", "benchmarks", "examples", "changelog.d", "ci"}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
