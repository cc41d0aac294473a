"""The Agent Client Protocol: editors drive an agent. Extra `acp`.

Rule: a stop that the client asks for cancels handles of runs, and nothing that another prompt could notice.

Source: the Agent Client Protocol, version 1; the package `agent-client-protocol`.
"""

from loopctl.adapters.acp._prompt import approve
from loopctl.adapters.acp._serve import serve

__all__ = ["approve", "serve"]
