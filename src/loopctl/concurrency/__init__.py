"""The only place that awaits foreign work, creates tasks and threads, reads a clock or touches signal handlers."""

from loopctl.concurrency._check import check_count, check_seconds
from loopctl.concurrency._clock import clock_of, draw, epoch, fresh_id, monotonic
from loopctl.concurrency._ending import Ending, describe, poll, quote, stop_reason
from loopctl.concurrency._grace import FinishGrace, Grace
from loopctl.concurrency._handover import Handover
from loopctl.concurrency._interrupts import interrupts
from loopctl.concurrency._lane import Lane
from loopctl.concurrency._off_loop import off_the_loop
from loopctl.concurrency._patience import Patience
from loopctl.concurrency._pipes import Drain, Feed
from loopctl.concurrency._process import Command, OutputStream, ProcessEnd, ProcessWork
from loopctl.concurrency._race import race, supervise
from loopctl.concurrency._runner import run
from loopctl.concurrency._scope import scope
from loopctl.concurrency._side_loop import SideLoop
from loopctl.concurrency._sleep import breathe, sleep
from loopctl.concurrency._straggler import Straggler, place_of_thread, settle
from loopctl.concurrency._tasks import forget_task, refuse_tasks, spawn
from loopctl.concurrency._together import together
from loopctl.concurrency._work import ForeignWork, TaskWork, ThreadWork, Work

__all__ = [
    "Command",
    "Drain",
    "Ending",
    "Feed",
    "FinishGrace",
    "ForeignWork",
    "Grace",
    "Handover",
    "Lane",
    "OutputStream",
    "Patience",
    "ProcessEnd",
    "ProcessWork",
    "SideLoop",
    "Straggler",
    "TaskWork",
    "ThreadWork",
    "Work",
    "breathe",
    "check_count",
    "check_seconds",
    "clock_of",
    "describe",
    "draw",
    "epoch",
    "forget_task",
    "fresh_id",
    "interrupts",
    "monotonic",
    "off_the_loop",
    "place_of_thread",
    "poll",
    "quote",
    "race",
    "refuse_tasks",
    "run",
    "scope",
    "settle",
    "sleep",
    "spawn",
    "stop_reason",
    "supervise",
    "together",
]
