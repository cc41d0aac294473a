"""The brain: a pure state machine that is fed facts and answers "what next?".

Rules: no I/O, no clock, no task and no randomness in here or in anything it imports of ours; equal inputs give
equal effects; every decision about what a run does next is a row of `_transitions.TABLE`. Whoever performs the
effects is a driver; the loop of one is

```python
brain = Brain(tools=frozenset({"fetch"}))
effects = brain.step(Started(history=(), input=UserMessage("hi")))
while (following := perform(effects)) is not None:  # in order; the last effect brings the next input, unless `Finish`
    effects = brain.step(following)
```
"""

from loopctl.brain._attempt import Mode
from loopctl.brain._brain import Brain
from loopctl.brain._call_ids import with_unique_ids
from loopctl.brain._effects import CallModel, Effect, Finish, RefuseCalls, Report, ResetAttempt, RunTools, Wait
from loopctl.brain._inputs import CancelRequested, Input, ModelFailed, ModelReplied, Started, ToolsFinished, Waited
from loopctl.brain._limits import Limits
from loopctl.brain._moment import Moment
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
    "Mode",
    "ModelFailed",
    "ModelReplied",
    "Moment",
    "Move",
    "Phase",
    "RefuseCalls",
    "Report",
    "ResetAttempt",
    "Row",
    "RunTools",
    "Started",
    "ToolsFinished",
    "Wait",
    "Waited",
    "with_unique_ids",
]
