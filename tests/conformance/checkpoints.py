"""The conformance map: each checkpoint, its call sites in the engine, the tests that go red without them, its bound.

`test_map.py` holds it true in both directions; `scripts/mutate.py` breaks each site and runs its tests;
`python -m tests.conformance.checkpoints` writes the table of docs/reference/checkpoints.md from it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loopctl.record import Checkpoint
from tests.architecture.source import ROOT, Module, modules

PAGE = ROOT / "docs" / "reference" / "checkpoints.md"
BEGIN, END = "<!-- from the conformance map: python -m tests.conformance.checkpoints -->\n", "<!-- end of the map -->\n"

TALKERS = {"cli", "errors", "observers", "record", "testing", "web"}
"""Packages that speak of checkpoints and pass none."""
LABELS = {"CancelRequested", "RunStatus", "raise_if_stopped"}
"""Calls that are given a checkpoint to name it, after it was passed elsewhere."""
NOTES = {"place", "_caught"}
"""The attributes in which a run and a call note where they are; noting is not looking."""


@dataclass(frozen=True)
class Site:
    """One function that looks at the signal at a checkpoint, and the tests that go red if it does not."""

    where: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """What is promised of one checkpoint."""

    bound: str
    sites: tuple[Site, ...] = ()
    deferred: str = ""
    """Why there is no site yet."""


def _in(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/{file}.py::{name}" for name in names)


AT_ONCE = "at once: nothing is waited for"
IN_GRACE = "the loop's next turn, and the grace if the work does not end"

MAP: dict[Checkpoint, Entry] = {
    Checkpoint.TURN_ENTRY: Entry(
        AT_ONCE,
        (
            Site(
                "driver/_model_call.py _begin_turn",
                _in("unit/driver/test_endings", "test_setup_is_raced_and_comes_after_the_first_poll")
                + _in("unit/driver/test_one_cancel_one_run", "test_a_cancel_while_idle_is_for_the_next_run_only"),
            ),
            Site(
                "driver/_keeping.py Keeper.begin_run",
                _in(
                    "unit/driver/test_stored_sessions",
                    "test_a_run_that_was_stopped_before_the_store_was_open_is_stored_when_it_is",
                ),
            ),
        ),
    ),
    Checkpoint.MODEL_REQUEST: Entry(
        IN_GRACE,
        (
            Site(
                "driver/_model_call.py call_model",
                _in("unit/driver/test_endings", "test_whole_replies_are_asked_for_without_streaming_and_raced_too")
                + _in("conformance/test_at_once", "test_a_request_that_nothing_answers_is_dropped_at_once"),
            ),
        ),
    ),
    Checkpoint.STREAM_EVENT: Entry(
        IN_GRACE,
        (
            Site(
                "driver/_model_call.py _Asking.ask_in_pieces",
                _in("unit/driver/test_endings", "test_a_stopped_stream_keeps_the_text_as_far_as_it_was_read")
                + _in("conformance/test_at_once", "test_a_request_that_nothing_answers_is_dropped_at_once"),
            ),
        ),
    ),
    Checkpoint.STREAM_WAIT: Entry(
        "the loop's next turn",
        (
            Site(
                "driver/_perform.py Performer._wait",
                _in(
                    "unit/driver/test_retries",
                    "test_a_stop_during_a_long_wait_ends_it_at_once_and_no_attempt_follows",
                    "test_a_drained_run_does_not_wait_for_another_attempt",
                ),
            ),
            Site(
                "middleware/_gate.py Permit._wait",
                _in(
                    "unit/middleware/test_gate",
                    "test_many_cancels_at_the_limiter_cost_no_permit",
                    "test_a_stop_at_the_gate_is_caught_there_and_nothing_was_asked",
                ),
            ),
            Site(
                "middleware/_gate.py Permit.take",
                _in("unit/middleware/test_gate", "test_a_signal_that_has_fired_gets_no_permit_also_if_there_is_room"),
            ),
        ),
    ),
    Checkpoint.RESCUE: Entry(
        f"polled on entry: {AT_ONCE}; then {IN_GRACE}",
        (
            Site(
                "driver/_model_call.py call_model",
                _in("unit/driver/test_retries", "test_a_rescue_is_never_sent_if_the_cancel_came_before_it"),
            ),
            Site(
                "driver/_model_call.py call_model",
                _in("unit/driver/test_retries", "test_a_rescue_is_dropped_at_its_await")
                + _in("conformance/test_at_once", "test_a_request_that_nothing_answers_is_dropped_at_once"),
            ),
        ),
    ),
    Checkpoint.BETWEEN_CALLS: Entry(
        AT_ONCE,
        (
            Site(
                "tools/_dispatch.py run_sequentially",
                _in("conformance/test_between", "test_a_stop_between_two_calls_leaves_the_second_unannounced"),
            ),
        ),
    ),
    Checkpoint.WAVE: Entry(
        AT_ONCE,
        (
            Site(
                "tools/_dispatch.py run_in_waves",
                _in("unit/driver/test_waves", "test_a_stop_between_two_waves_is_caught_there"),
            ),
            Site(
                "tools/_dispatch.py _run_queued",
                _in("conformance/test_between", "test_a_stop_leaves_the_queued_calls_of_a_wave_unannounced"),
            ),
            Site(
                "tools/_call.py Call.run",
                _in("unit/driver/test_waves", "test_a_stop_while_the_second_is_announced_starts_neither"),
            ),
        ),
    ),
    Checkpoint.TOOL_CALL: Entry(
        f"{IN_GRACE}; a thread that cannot poll: at once",
        (
            Site(
                "tools/_attempt.py Attempt._supervise",
                _in("unit/driver/test_one_cancel_one_run", "test_a_cancel_from_inside_a_tool_is_like_any_other")
                + _in("unit/driver/test_watchdogs", "test_a_deadline_stops_a_tool_and_the_tool_is_told_why"),
            ),
            Site(
                "tools/_commands.py Commands.run",
                _in(
                    "integration/processes/test_stops",
                    "test_a_stop_without_the_engine_ends_the_command_too",
                ),
            ),
            Site(
                "store/_journal.py Journal.begin_call",
                _in(
                    "unit/driver/test_store_waits",
                    "test_a_tool_is_not_touched_if_the_stop_comes_while_its_beginning_is_written",
                    "test_a_run_and_a_call_that_wait_behind_another_session_are_stopped_at_once_too",
                ),
            ),
        ),
    ),
    Checkpoint.RECOVERY_WAIT: Entry(
        "the loop's next turn",
        (
            Site(
                "tools/_call.py Call.run",
                _in("conformance/test_between", "test_a_stop_in_the_wait_before_a_retry_ends_it_at_once"),
            ),
        ),
    ),
    Checkpoint.PIPELINE: Entry(
        IN_GRACE,
        (
            Site(
                "tools/_pipeline.py run_layers",
                _in("unit/middleware/test_stops", "test_a_stop_names_the_innermost_wait"),
            ),
            Site(
                "middleware/_model.py Passage._asked",
                _in(
                    "unit/middleware/test_model_stops",
                    "test_a_layer_that_fires_the_signal_stops_the_run_at_the_next_poll",
                    "test_a_layer_that_swallows_the_cancel_is_caught_and_nothing_of_it_is_kept",
                ),
            ),
        ),
    ),
    Checkpoint.APPROVAL: Entry(
        IN_GRACE,
        (
            Site(
                "tools/_approval.py ask",
                _in("unit/tools/test_approval", "test_a_cancel_means_no_and_the_prompt_is_withdrawn"),
            ),
        ),
    ),
    Checkpoint.DELIVERY: Entry(
        "the loop's next turn",
        (
            Site(
                "streaming/_fanout.py Fanout._wait",
                _in("unit/streaming/test_fanout", "test_a_delivery_ends_with_the_cancel_and_delivers_nothing"),
            ),
            Site(
                "tools/_dispatch.py _Door.emit",
                _in(
                    "conformance/test_between",
                    "test_a_call_that_waits_for_the_door_of_its_wave_is_stopped_there",
                    "test_a_question_that_waits_for_the_door_of_its_wave_is_not_asked_after_the_stop",
                ),
            ),
        ),
    ),
    Checkpoint.SETUP: Entry(
        IN_GRACE,
        (
            Site(
                "adapters/mcp/_client.py McpClient._begin",
                _in("integration/mcp/test_client", "test_a_cancel_that_came_before_connecting_starts_nothing")
                + _in("integration/mcp/test_bad_servers", "test_a_cancel_while_connecting_leaves_no_process"),
            ),
            Site(
                "driver/_model_call.py _Asking.set_up",
                _in("unit/driver/test_endings", "test_setup_is_raced_and_comes_after_the_first_poll"),
            ),
            Site(
                "store/_once.py once_on_loop",
                _in("unit/store/test_once", "test_a_cancel_ends_the_wait_for_another_and_that_one_goes_on"),
            ),
            Site(
                "store/_journal.py Journal.open_session",
                _in(
                    "unit/driver/test_store_waits",
                    "test_who_waits_behind_another_session_of_the_file_is_stopped_at_once_too",
                ),
            ),
            Site(
                "store/_journal.py Journal.begin_run",
                _in(
                    "unit/driver/test_store_waits",
                    "test_a_stop_while_the_next_run_waits_to_begin_ends_it_at_once",
                    "test_a_run_and_a_call_that_wait_behind_another_session_are_stopped_at_once_too",
                ),
            ),
        ),
    ),
}


@dataclass(frozen=True)
class Found:
    """A checkpoint that the engine passes, as it stands in the code."""

    module: Module
    function: str
    member: Checkpoint
    node: ast.Attribute
    parents: tuple[ast.AST, ...]
    """From the node outwards to its function."""

    @property
    def where(self) -> str:
        """As a `Site` says it."""
        return f"{self.module.name} {self.function}"


def found() -> list[Found]:
    """Every call site, in the order of the source."""
    return [
        site
        for module in modules()
        if module.package not in TALKERS and not module.name.startswith("_")
        for site in found_in(module)
    ]


def found_in(module: Module) -> Iterator[Found]:
    """Give the call sites of one module."""
    yield from _walk(module, module.tree, (), ())


def _walk(module: Module, node: ast.AST, names: tuple[str, ...], parents: tuple[ast.AST, ...]) -> Iterator[Found]:
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Checkpoint":
        if not _is_talk(parents):
            yield Found(module, ".".join(names), Checkpoint[node.attr], node, parents)
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        names, parents = (*names, node.name), ()
    for child in ast.iter_child_nodes(node):
        yield from _walk(module, child, names, (node, *parents))


def _is_talk(parents: tuple[ast.AST, ...]) -> bool:
    for parent in parents:
        if isinstance(parent, ast.Call):
            return ast.unparse(parent.func).split(".")[-1] in LABELS
        if isinstance(parent, ast.Assign | ast.AnnAssign):
            target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
            return ast.unparse(target).split(".")[-1] in NOTES
    return False


def table() -> str:
    """Give the table of the reference page."""
    lines = ["| `Checkpoint` | call sites | bound of the stop |\n", "|---|---|---|\n"]
    for member, entry in MAP.items():
        sites = ", ".join(dict.fromkeys(f"`{site.where}`" for site in entry.sites))
        lines.append(f"| `{member.name}` | {sites or f'deferred: {entry.deferred}'} | {entry.bound} |\n")
    return "".join(lines)


def written(page: str) -> str:
    """Give *page* with the table as it must be."""
    head, rest = page.split(BEGIN)
    return head + BEGIN + table() + END + rest.split(END)[1]


def main() -> None:
    """Write the page."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
