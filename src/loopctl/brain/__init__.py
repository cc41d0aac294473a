"""The brain: a pure state machine that is fed facts and answers "what next?".

Rules: no I/O, no clock, no task and no randomness in here or in anything it imports of ours; equal inputs give
equal effects; every decision about what a run does next is a row of `_transitions.TABLE`. Whoever performs the
effects is a driver; the loop of one is

```python
brain = Brain(tools=frozenset({"fetch"}))
effects = brain.step(Started(history=(), input=UserMessage("hi")))
while not isinstance(effects[-1], Finish):
    effects = brain.step(perform(effects))  # in order; the last effect brings the next input
```
"""

from loopctl.brain._brain import Brain
from loopctl.brain._call_ids import with_unique_ids
from loopctl.brain._effects import CallModel, Effect, Finish, RefuseCalls, RunTools
from loopctl.brain._inputs import CancelRequested, Input, ModelFailed, ModelReplied, Started, ToolsFinished
from loopctl.brain._limits import Limits
from loopctl.brain._phase import Phase
from loopctl.brain._transitions import TABLE, Move, Row

__all__ = [
    "TABLE",
    "Brain",
    "CallModel",
    "CancelRequested",
    "Effect",
    "Finish",
    "Input",
    "Limits",
    "ModelFailed",
    "ModelReplied",
    "Move",
    "Phase",
    "RefuseCalls",
    "Row",
    "RunTools",
    "Started",
    "ToolsFinished",
    "with_unique_ids",
]
