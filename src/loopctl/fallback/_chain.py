"""The models of an agent in order, with a breaker for each but the last.

Rules: a turn asks the first model whose breaker lets it, and after a failure the next such model; the last model has
no breaker, since there is nothing behind it. So a turn always has a model to ask, never asks one twice, and a chain of
one model is that model. A model behind the first that is down is gone past as well, and costs no turn its retries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from loopctl.errors import UsageError
from loopctl.fallback._breaker import Breaker, BreakerConfig, BreakerState
from loopctl.fallback._check import check_count, fields_of

__all__ = ["Chain", "Route"]


@dataclass(frozen=True, slots=True)
class Route:
    """Which model a turn asks, and what its report needs to say."""

    index: int
    """The model's place in the chain, from 0."""
    generation: int = 0
    """Its breaker's when the turn was routed."""
    is_probe: bool = False
    """True if the turn tries whether the model is well again."""

    def __post_init__(self) -> None:
        """Refuse what no chain can have given.

        Raises:
            UsageError: A number is not a whole one of at least 0, or *is_probe* is not a truth value.
        """
        check_count("Route.index", self.index, 0)
        check_count("Route.generation", self.generation, 0)
        is_probe: object = self.is_probe
        if not isinstance(is_probe, bool):
            raise UsageError(f"Route.is_probe is {is_probe!r}: give True or False")

    def to_json(self) -> dict[str, Any]:
        """The route as a JSON object."""
        return {"index": self.index, "generation": self.generation, "is_probe": self.is_probe}

    @classmethod
    def from_json(cls, value: object) -> Route:
        """Read what `to_json` gave.

        Raises:
            UsageError: *value* is not such an object.
        """
        return cls(**fields_of(value, "Route", ("index", "generation", "is_probe")))


@dataclass(frozen=True, slots=True)
class Chain:
    """The models and how they did; `Chain.of` makes one that has seen nothing.

    Raises:
        UsageError: There is no model, or not one breaker for each but the last.
    """

    models: tuple[str, ...]
    """How records call the models, the preferred one first. A name may come twice."""
    breakers: tuple[Breaker, ...] = ()

    def __post_init__(self) -> None:
        """Check the parts."""
        if not self.models or not all(isinstance(name, str) for name in self.models):
            raise UsageError(f"Chain.models is {self.models!r}: give the names of at least one model")
        if len(self.breakers) != len(self.models) - 1 or not all(isinstance(each, Breaker) for each in self.breakers):
            raise UsageError(f"{len(self.models)} models need {len(self.models) - 1} breakers: make chains by Chain.of")

    @classmethod
    def of(cls, models: Iterable[str], config: BreakerConfig | None = None) -> Chain:
        """Make a chain that has seen nothing.

        Args:
            models: Their names, the preferred one first.
            config: What trips and closes each breaker; None means `BreakerConfig()`.

        Raises:
            UsageError: There is no model.
        """
        if isinstance(models, str):
            raise UsageError(f"a chain is made of a list of names, not of the text {models!r}: give [{models!r}]")
        names = tuple(models)
        breaker = Breaker(config=BreakerConfig() if config is None else config)
        return cls(names, (breaker,) * (len(names) - 1))

    def route(self, now: float) -> Route:
        """Say which model a turn that begins *now* asks first."""
        return self._first_from(0, now)

    def next_after(self, route: Route, now: float) -> Route | None:
        """Say which model the turn asks after the one of *route* failed.

        Returns:
            None if the chain is spent: the turn has failed.

        Raises:
            UsageError: *route* is of a longer chain.
        """
        self._check(route)
        return None if route.index + 1 == len(self.models) else self._first_from(route.index + 1, now)

    def succeeded(self, route: Route) -> Chain:
        """Count that the model of *route* gave the turn its reply.

        Raises:
            UsageError: *route* is of a longer chain.
        """
        self._check(route)
        if route.index == len(self.breakers):
            return self
        return self._with(route.index, self.breakers[route.index].succeeded(route.generation))

    def failed(self, route: Route, now: float) -> Chain:
        """Count that the model of *route* was given up for the turn, for whatever cause: a rate limit is one.

        Raises:
            UsageError: *route* is of a longer chain.
        """
        self._check(route)
        if route.index == len(self.breakers):
            return self
        return self._with(route.index, self.breakers[route.index].failed(route.generation, now))

    def state(self, now: float) -> BreakerState:
        """Say how the preferred model stands; `PRIMARY` if it is the only one."""
        return self.breakers[0].state(now) if self.breakers else BreakerState.PRIMARY

    def _first_from(self, start: int, now: float) -> Route:
        for index, breaker in enumerate(self.breakers[start:], start):
            state = breaker.state(now)
            if state is not BreakerState.FALLBACK:
                return Route(index, breaker.generation, is_probe=state is BreakerState.RECOVERING)
        return Route(len(self.breakers))

    def _with(self, index: int, breaker: Breaker) -> Chain:
        if breaker is self.breakers[index]:
            return self
        return replace(self, breakers=(*self.breakers[:index], breaker, *self.breakers[index + 1 :]))

    def _check(self, route: Route) -> None:
        if route.index >= len(self.models):
            raise UsageError(f"{route} is not of this chain, which has {len(self.models)} models: {self.models}")

    def to_json(self) -> dict[str, Any]:
        """The chain as a JSON object, the configs of its breakers included."""
        return {"models": list(self.models), "breakers": [breaker.to_json() for breaker in self.breakers]}

    @classmethod
    def from_json(cls, value: object) -> Chain:
        """Read what `to_json` gave.

        The times in it are of the clock that the reports came with: in another process they mean nothing, and the
        cooldowns may be shorter or longer by up to their length.

        Raises:
            UsageError: *value* is not such an object.
        """
        found = fields_of(value, "Chain", ("models", "breakers"))
        models, breakers = found["models"], found["breakers"]
        if not isinstance(models, list) or not isinstance(breakers, list):
            raise UsageError(f"not a stored Chain: its models and breakers are no lists: {value!r}")
        return cls(tuple(models), tuple(Breaker.from_json(breaker) for breaker in breakers))
