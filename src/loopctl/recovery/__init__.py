"""Recovery: what to do about a failure, as pure functions of the failure and of what was tried already.

Rules: nothing in here waits, reads a clock or draws lots (the jitter is an argument); a failure is judged by its
status and its marks, never by its text; a cancel is not a failure and never comes here.

A model's failures are the brain's: `ModelRecovery.decide` says what follows, in the order stream attempts, rescue, next
model. A tool's failures are answered by the strategy of the application, within the bounds of `ToolRecovery`.
"""

from loopctl.recovery._budget import Budget
from loopctl.recovery._failure import Failure, FailureKind, classify
from loopctl.recovery._model import Decision, Escalate, EscalateReason, ModelRecovery, Rescue, Retry
from loopctl.recovery._recovery import Recovery
from loopctl.recovery._strategies import retry_transient
from loopctl.recovery._tool import (
    CEILING,
    GiveToModel,
    RetryCall,
    ToolDecision,
    ToolFailure,
    ToolGivenUp,
    ToolRecovery,
    ToolRetry,
    ToolStrategy,
    give_to_model,
)

__all__ = [
    "CEILING",
    "Budget",
    "Decision",
    "Escalate",
    "EscalateReason",
    "Failure",
    "FailureKind",
    "GiveToModel",
    "ModelRecovery",
    "Recovery",
    "Rescue",
    "Retry",
    "RetryCall",
    "ToolDecision",
    "ToolFailure",
    "ToolGivenUp",
    "ToolRecovery",
    "ToolRetry",
    "ToolStrategy",
    "classify",
    "give_to_model",
    "retry_transient",
]
