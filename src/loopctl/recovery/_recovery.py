"""The parts of recovery in one value: what an agent is given."""

from __future__ import annotations

from dataclasses import dataclass, field

from loopctl.errors import UsageError
from loopctl.fallback import BreakerConfig
from loopctl.recovery._model import ModelRecovery
from loopctl.recovery._tool import ToolRecovery, ToolStrategy

__all__ = ["Recovery"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovery:
    """How an agent meets failures: of a model, of a chain of models, and of tools.

    Raises:
        UsageError: A part is of another type.
    """

    model: ModelRecovery = field(default_factory=ModelRecovery)
    """How often and how patiently one model is asked in one turn."""
    tools: ToolRecovery = field(default_factory=ToolRecovery)
    """What follows a failed tool call."""
    breaker: BreakerConfig = field(default_factory=BreakerConfig)
    """When a model with others behind it is left out for a while, and when it is trusted again."""

    def __post_init__(self) -> None:
        """Check the parts."""
        for name, kind in (("model", ModelRecovery), ("tools", ToolRecovery), ("breaker", BreakerConfig)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise UsageError(f"Recovery.{name} is {value!r}: give a {kind.__name__}")

    @classmethod
    def of(cls, value: Recovery | ModelRecovery | ToolRecovery | BreakerConfig | ToolStrategy | None) -> Recovery:
        """Give *value* as a recovery: None means the defaults, and a function is a strategy for tools.

        Raises:
            UsageError: *value* is of another type.
        """
        match value:
            case None:
                return cls()
            case Recovery():
                return value
            case ModelRecovery():
                return cls(model=value)
            case ToolRecovery():
                return cls(tools=value)
            case BreakerConfig():
                return cls(breaker=value)
            case type():
                pass  # calling a class gives no decision
            case _ if callable(value):
                return cls(tools=ToolRecovery(strategy=value))
        raise UsageError(
            "recovery= takes a Recovery, a ModelRecovery, a ToolRecovery, a BreakerConfig, a strategy or None, not"
            f" {value!r}"
        )
