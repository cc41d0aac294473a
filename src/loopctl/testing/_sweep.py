"""The sweep: stops a run at every scheduling step, by every hand, and checks each time what is promised of a stop.

Rules: every run has a loop and a session of its own; the first one is not stopped and counts the steps and the calls; a
broken promise is reported with its stop, so that it can be played again alone; what is left behind is looked for after
each batch of stops, and a batch that leaves something is halved until the stop is found.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopctl.driver import Session
from loopctl.errors import LoopError
from loopctl.record import Checkpoint, Outcome
from loopctl.testing._errors import SimulationError
from loopctl.testing._leaks import AsyncioErrors, Leaks
from loopctl.testing._promises import broken_promises
from loopctl.testing._scenario import HANDS, INSIDE, SOURCES, TIMINGS, Hand, Scenario, Source, Stop, Timing, chosen
from loopctl.testing._stopped import Stopped, play

__all__ = ["Sweep", "SweepFailed", "cancel_at", "cancel_everywhere"]

_BATCH = 250
"""Stops between two looks for what is left."""
_SHOWN = 5
_WIDEST = 400
"""Broken promises that a text has, and the characters of each; `cancel_at` tells all of one."""


class SweepFailed(SimulationError):
    """A promise was broken at some stop; the text names the first ones."""


@dataclass(frozen=True)
class Sweep:
    """What a sweep came to."""

    scenario: Scenario
    steps: int
    """Steps of the loop that the run takes when it is not stopped."""
    stops: int
    """How often it was played with a stop."""
    outcomes: Mapping[Outcome, int]
    """How the runs ended."""
    checkpoints: Mapping[Checkpoint, int]
    """Where the stops were caught."""
    sources: Mapping[Source, int]
    """From where the stops came that came in time."""

    def __str__(self) -> str:
        """Give the numbers in one line."""
        places = ", ".join(f"{place.name} {count}" for place, count in self.checkpoints.items())
        ends = ", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.items())
        return f"{self.scenario}: {self.stops} stops at {self.steps} steps: {ends}; caught at {places}"


def cancel_everywhere(
    scenario: Scenario | Callable[[], Session],
    *,
    hands: Iterable[Hand] = HANDS,
    sources: Iterable[Source] = SOURCES,
    timings: Iterable[Timing] = TIMINGS,
    graces: Iterable[float | None] = (None,),
    is_thorough: bool = False,
) -> Sweep:
    """Stop a run of *scenario* everywhere, and check each time what is promised of a stop.

    That is: there is one ending, told once, as the last event; the reason is that of the stop, and the checkpoint fits;
    after it no model is asked, no tool is started, no breaker counts and nothing but closings is told; it takes no
    longer than the grace; a cancelled run commits nothing and the conversation is well-formed; the answer to the cancel
    was true; no task, thread, child, descriptor, reply or resource is left; the next run works.

    Args:
        scenario: What is played, or a function that makes the session.
        hands: What is used to stop it.
        sources: From where: the loop at every step and timing, a task and a thread at each checkpoint, an observer, a
            middleware and a tool at each of their calls.
        timings: When.
        graces: What the agent's grace is replaced by, in seconds; None leaves it.
        is_thorough: True plays the full product of these, also what is likely to be the same. False uses the first of
            *hands* for all of it, and the others in turn, one at each step.

    Returns:
        What it came to.

    Raises:
        SweepFailed: A promise was broken, the run that is not stopped breaks one, a checkpoint that the scenario
            names caught no stop, or there was nothing to stop: the run makes no call of the chosen *sources*.
        UsageError: *scenario* makes no session, or something is chosen that there is not.
    """
    played = scenario if isinstance(scenario, Scenario) else Scenario(scenario)
    plan = _Plan(
        chosen("hands", hands, HANDS),
        chosen("sources", sources, SOURCES),
        chosen("timings", timings, TIMINGS),
        tuple(graces),
        is_thorough=is_thorough,
    )
    with _frozen():
        return _Sweeper(played).sweep(plan)


def cancel_at(scenario: Scenario | Callable[[], Session], stop: Stop) -> Stopped:
    """Stop a run of *scenario* once, as one of the stops of `cancel_everywhere`.

    Args:
        scenario: As there.
        stop: As it stands in the text of a `SweepFailed`.

    Returns:
        The stopped run.

    Raises:
        SweepFailed: A promise was broken.
    """
    played = scenario if isinstance(scenario, Scenario) else Scenario(scenario)
    with _frozen():
        sweeper = _Sweeper(played)
        stopped = sweeper.one(stop)
        problems = [] if isinstance(stopped, Stopped) else [stopped]
        problems += sweeper.leaks_of([stop])
    if problems or not isinstance(stopped, Stopped):
        raise SweepFailed(f"{played}: {'; '.join(problems)}")
    return stopped


@dataclass(frozen=True)
class _Plan:
    """Which stops are played."""

    hands: tuple[Hand, ...]
    sources: tuple[Source, ...]
    timings: tuple[Timing, ...]
    graces: tuple[float | None, ...]
    is_thorough: bool

    def from_the_loop(self, steps: int) -> Iterator[Stop]:
        """Give the stops at every step."""
        for step, grace in itertools.product(range(steps), self.graces):
            for hand, timing in itertools.product(self._hands, self.timings):
                yield Stop(step, hand, "loop", timing, grace)
            others = [hand for hand in self.hands if hand not in self._hands]
            if others:
                yield Stop(step, others[step % len(others)], "loop", self.timings[0], grace)

    def from_elsewhere(self, steps: Iterable[int]) -> Iterator[Stop]:
        """Give the stops of other tasks and threads."""
        sources = [source for source in self.sources if source in {"task", "thread"}]
        for step, source, grace in itertools.product(steps, sources, self.graces):
            for hand, timing in itertools.product(self._hands, self.timings):
                if not (timing == "at" and source == "task") and not (hand == "caller" and source == "thread"):
                    yield Stop(step, hand, source, timing, grace)

    def from_inside(self, calls: Mapping[Source, int]) -> Iterator[Stop]:
        """Give the stops at each call of an observer, a middleware, a tool."""
        hands = [hand for hand in self._hands if hand != "caller"]
        for source, count in calls.items():
            timings = [timing for timing in self.timings if timing != "at" and (source, timing) != ("observer", "with")]
            for number, hand, timing, grace in itertools.product(range(count), hands, timings, self.graces):
                yield Stop(number, hand, source, timing, grace)

    @property
    def _hands(self) -> tuple[Hand, ...]:
        return self.hands if self.is_thorough else self.hands[:1]


class _Sweeper:
    """Plays one scenario again and again."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._broken: list[str] = []
        self._caught: dict[int, Checkpoint] = {}
        """Where the stops at each step were caught, just before it and by the first hand."""
        try:
            self._whole = play(scenario, None)
        except (AssertionError, LoopError) as error:
            raise SweepFailed(f"{scenario}, not stopped: {error}") from error
        problems = broken_promises(self._whole, None)
        if problems:
            raise SweepFailed(f"{scenario}, not stopped: {'; '.join(problems)}")
        self._stops = 0
        self._outcomes: Counter[Outcome] = Counter()
        self._checkpoints: Counter[Checkpoint] = Counter()
        self._sources: Counter[Source] = Counter()

    def sweep(self, plan: _Plan) -> Sweep:
        if "loop" in plan.sources:
            self._play_all(plan.from_the_loop(self._whole.steps))
        self._play_all(plan.from_elsewhere(range(self._whole.steps) if plan.is_thorough else self._visits()))
        self._play_all(plan.from_inside(self._calls(plan.sources)))
        if not self._stops and not self._broken:
            self._broken.append(f"no stop was played: the run makes no call of {', '.join(plan.sources)}")
        missed = self._scenario.catches - self._checkpoints.keys()
        if missed:
            self._broken.append(f"no stop was caught at {', '.join(sorted(place.name for place in missed))}")
        if self._broken:
            shown = "\n".join(f"  {text.splitlines()[0][:_WIDEST]}" for text in self._broken[:_SHOWN])
            raise SweepFailed(f"{self._scenario}: {len(self._broken)} broken promises, first of all:\n{shown}")
        return Sweep(self._scenario, self._whole.steps, self._stops, self._outcomes, self._checkpoints, self._sources)

    def _visits(self) -> list[int]:
        """Give the first step of each visit to a checkpoint; every step if they are not known."""
        if not self._caught:
            return list(range(self._whole.steps))
        return [step for step, place in self._caught.items() if self._caught.get(step - 1) != place]

    def _calls(self, sources: Sequence[Source]) -> dict[Source, int]:
        counted = dict(self._whole.calls)
        if "middleware" in sources:
            layered = play(self._scenario, Stop(-1, source="middleware"))
            counted["middleware"] = layered.calls["middleware"]
        return {source: counted[source] for source in sources if source in INSIDE}

    def _play_all(self, stops: Iterable[Stop]) -> None:
        for batch in _batches(stops):
            for line in self._leaks_found(batch, self._play_batch):
                self._broken.append(line)

    def _play_batch(self, batch: Sequence[Stop]) -> None:
        for stop in batch:
            stopped = self.one(stop)
            if isinstance(stopped, str):
                self._broken.append(stopped)
            else:
                self._count(stop, stopped)

    def _leaks_found(self, batch: Sequence[Stop], play_batch: Callable[[Sequence[Stop]], object]) -> list[str]:
        leaks = Leaks()
        with AsyncioErrors() as errors:
            play_batch(batch)
            left = leaks.left()
        left += [f"asyncio logged: {message}" for message in errors.messages]
        if not left:
            return []
        if len(batch) == 1:
            return [f"{batch[0]}: left behind: {'; '.join(left)}"]
        half = len(batch) // 2
        found = self.leaks_of(batch[:half]) + self.leaks_of(batch[half:])
        return found or [f"one of {len(batch)} stops from {batch[0]} on left behind: {'; '.join(left)}"]

    def leaks_of(self, batch: Sequence[Stop]) -> list[str]:
        """Play *batch* for what it leaves behind only."""
        return self._leaks_found(batch, lambda stops: [self.one(stop) for stop in stops])

    def one(self, stop: Stop) -> Stopped | str:
        """Play one stop; a text says what was broken."""
        try:
            stopped = play(self._scenario, stop)
            problems = broken_promises(stopped, self._whole)
            if not problems and self._scenario.check is not None:
                self._scenario.check(stopped)
        except (AssertionError, LoopError) as error:
            return f"{stop}: {str(error) or repr(error)}"
        return f"{stop}: {'; '.join(problems)}" if problems else stopped

    def _count(self, stop: Stop, stopped: Stopped) -> None:
        self._stops += 1
        run = stopped.run
        if run is None:
            return
        self._outcomes[run.outcome] += 1
        if run.stop is None:
            return
        self._checkpoints[run.stop.checkpoint] += 1
        if stopped.at_stop is not None:
            self._sources[stop.source] += 1
        if stop.source == "loop" and stop.timing == "before":
            self._caught.setdefault(stop.number, run.stop.checkpoint)


def _batches(stops: Iterable[Stop]) -> Iterator[list[Stop]]:
    rest = iter(stops)
    while batch := list(itertools.islice(rest, _BATCH)):
        yield batch


@contextlib.contextmanager
def _frozen() -> Iterator[None]:
    """Keep what is older out of the collector, so that looking for what is left costs what was played."""
    if gc.get_freeze_count():
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
