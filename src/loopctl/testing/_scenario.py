"""What a sweep plays: a scenario, and one stop of it.

Rule: both are data. A stop that broke a promise is given by its text, and can be played again alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, get_args

from loopctl.driver import Session
from loopctl.errors import UsageError
from loopctl.record import Checkpoint

if TYPE_CHECKING:
    from loopctl.testing._stopped import Stopped

__all__ = [
    "HANDS",
    "INSIDE",
    "SOURCES",
    "TIMINGS",
    "Hand",
    "Scenario",
    "Source",
    "Stop",
    "Timing",
    "chosen",
    "session_of",
]

_Choice = TypeVar("_Choice", bound=str)

Hand: TypeAlias = Literal["session", "handle", "signal", "caller"]
"""What is used: the session's signal, the run's handle, a signal given to `start`, `cancel()` of the task that awaits
the run."""
Source: TypeAlias = Literal["loop", "task", "thread", "observer", "middleware", "tool"]
"""From where: a callback of the loop, another task, another thread, or from inside of an observer, a middleware or a
tool, at one of the calls of it."""
Timing: TypeAlias = Literal["before", "at", "with", "twice"]
"""When. At a step: just before it runs; in the turn of the loop that takes its result, ahead of the result; the same,
behind it; before it, and once more a turn later. At a call: as it begins (`before`, `twice`) or as it ends (`with`)."""

HANDS: tuple[Hand, ...] = get_args(Hand)
SOURCES: tuple[Source, ...] = get_args(Source)
TIMINGS: tuple[Timing, ...] = get_args(Timing)
INSIDE: tuple[Source, ...] = ("observer", "middleware", "tool")


@dataclass(frozen=True)
class Scenario:
    """A session that is run once, and what may be said of that run."""

    make: Callable[[], Session]
    """Makes the session with everything fresh: agent, model, tools. Nothing in it may depend on real time or chance."""
    say: str = "go"
    """What the person says."""
    then: str = ""
    """What the person says to the next run; empty means the same again."""
    reads: bool = True
    """False: nobody reads the events."""
    pause: float = 0.0
    """Seconds for which the reader stops reading after its first event."""
    stragglers: bool = False
    """True: work of it may be abandoned. It must still end by itself, within a virtual hour."""
    catches: frozenset[Checkpoint] = frozenset()
    """Checkpoints at which some of the stops must have been caught, or the scenario did not come by there."""
    check: Callable[[Stopped], object] | None = None
    """More promises, as assertions about one stopped run and what came after it."""
    name: str = ""
    """How reports call it; empty means the name of *make*."""

    def __post_init__(self) -> None:
        """Look whether there is something to call.

        Raises:
            UsageError: *make* is something else, mostly the session itself.
        """
        make: object = self.make
        if not callable(make):
            given = type(make).__name__
            raise UsageError(f"a scenario is a function that makes a session, anew for each stop, not a {given}")

    def __str__(self) -> str:
        """Give the name."""
        return self.name or getattr(self.make, "__name__", repr(self.make))


@dataclass(frozen=True)
class Stop:
    """One stop: by what, from where, when."""

    number: int
    """The step of the loop, or the call of the observer, middleware or tool, from 0."""
    hand: Hand = "session"
    source: Source = "loop"
    timing: Timing = "before"
    grace: float | None = None
    """What the agent's grace is replaced by, in seconds; None leaves it."""

    def __post_init__(self) -> None:
        """Look whether there is such a stop.

        Raises:
            UsageError: There is not.
        """
        for name, given, choices in (
            ("hand", self.hand, HANDS),
            ("source", self.source, SOURCES),
            ("timing", self.timing, TIMINGS),
        ):
            if given not in choices:
                raise UsageError(f"Stop({name}={given!r}): there are {', '.join(choices)}")

    @property
    def is_inside(self) -> bool:
        """True if a part of the run itself stops it."""
        return self.source in INSIDE

    def __str__(self) -> str:
        """Give it as it can be typed."""
        grace = "" if self.grace is None else f", grace={self.grace:g}"
        return f"Stop({self.number}, {self.hand!r}, {self.source!r}, {self.timing!r}{grace})"


def session_of(scenario: Scenario) -> Session:
    """Make the session of *scenario*.

    Raises:
        UsageError: It made something else.
    """
    made: object = scenario.make()
    if not isinstance(made, Session):
        raise UsageError(f"{scenario} gave {type(made).__name__} and no Session: return agent.session()")
    return made


def chosen(name: str, given: Iterable[_Choice], choices: tuple[_Choice, ...]) -> tuple[_Choice, ...]:
    """Give what the argument *name* of a sweep chooses among *choices*.

    Raises:
        UsageError: It is nothing, or something that there is not: a sweep of it would find no fault.
    """
    if isinstance(given, str):
        raise UsageError(f"{name}= takes a list: give [{given!r}]")
    found = tuple(given)
    unknown = [each for each in found if each not in choices]
    if unknown or not found:
        raise UsageError(f"{name}={list(found)!r}: choose among {', '.join(choices)}")
    return found
