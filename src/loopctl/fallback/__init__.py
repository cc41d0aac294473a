"""Fallback: which model of a chain a turn asks, as a pure function of how the turns before it went.

Rules: nothing in here waits or reads a clock ("now" is an argument, in seconds of any clock that does not go back);
a value is never changed, a report gives a new one; what counts is turns, not attempts: a model is reported on once in
a turn, when it gave its reply or was given up. A cancelled turn reports nothing at all.

```python
chain = Chain.of(["openai:gpt-5.2", "local"])
route = chain.route(now)  # ask chain.models[route.index]
chain = chain.failed(route, now)  # or chain.succeeded(route, now)
route = chain.next_after(route, now)  # None: the chain is spent for this turn
```

Sessions of one agent share its chain without a lock: each report reads the agent's value and assigns the new one, with
no `await` between. Two threads can do that at once, and one report is then lost. That costs at most that one count: a
breaker trips, or closes, one turn later, and a trip that is lost comes back with the next failed turns, each of which
still goes on to the next model. No mixture of two values can arise.
"""

from loopctl.fallback._breaker import Breaker, BreakerConfig, BreakerState
from loopctl.fallback._chain import Chain, Route

__all__ = ["Breaker", "BreakerConfig", "BreakerState", "Chain", "Route"]
