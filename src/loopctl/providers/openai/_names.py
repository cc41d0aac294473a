"""Owns the model names `openai:…` and `ollama:…`: a name and the environment give a model."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from loopctl.errors import UsageError
from loopctl.providers.openai._client import OpenAIModel

__all__ = ["from_name", "from_ollama_name"]

_OLLAMA_PORT = 11434


def from_name(name: str) -> OpenAIModel:
    """Give the model that `openai:<name>` names, with `OPENAI_API_KEY` and `OPENAI_BASE_URL` from the environment.

    Raises:
        MissingExtra: The extra `openai` is not installed.
        UsageError: There is no API key, or no name.
    """
    return OpenAIModel(_checked("openai", name, "gpt-5.2"))


def from_ollama_name(name: str, *, base_url: str | None = None) -> OpenAIModel:
    """Give the model that `ollama:<name>` names, at `OLLAMA_HOST` or on this machine. It needs no key.

    Raises:
        MissingExtra: The extra `openai` is not installed.
        UsageError: There is no name, or `OLLAMA_HOST` is not an address.
    """
    model = _checked("ollama", name, "llama3")
    url = base_url or _ollama_url(os.environ.get("OLLAMA_HOST", "").strip())
    return OpenAIModel(model, base_url=url, api_key="", name=f"ollama:{model}")


def _checked(prefix: str, name: str, example: str) -> str:
    if not name.strip():
        raise UsageError(f"{prefix}: names no model. Write {prefix}:{example}, for instance.")
    return name.strip()


def _ollama_url(host: str) -> str:
    """Read OLLAMA_HOST as Ollama does: scheme and port may be missing, and 0.0.0.0 is where a server listens."""
    parts = urlsplit(host if "://" in host else f"http://{host or '127.0.0.1'}")
    try:
        port = parts.port
    except ValueError as error:
        raise UsageError(f"OLLAMA_HOST {host!r} is not an address: write it like 127.0.0.1:{_OLLAMA_PORT}") from error
    if port is None:
        port = {"https": 443}.get(parts.scheme, 80 if "://" in host else _OLLAMA_PORT)
    name = parts.hostname or "127.0.0.1"
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)  # noqa: S104 - replaced, not bound
    return f"{parts.scheme}://{f'[{name}]' if ':' in name else name}:{port}{parts.path.rstrip('/')}/v1"
