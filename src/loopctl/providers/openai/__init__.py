"""Models behind OpenAI's chat-completions protocol: OpenAI itself and every compatible server. Extra: `openai`."""

from loopctl.providers._transport import HttpOptions
from loopctl.providers.openai._client import OpenAIModel
from loopctl.providers.openai._names import from_name, from_ollama_name

__all__ = ["HttpOptions", "OpenAIModel", "from_name", "from_ollama_name"]
