"""From options to an agent: which model answers, with which tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from loopctl.cli._options import Options
from loopctl.driver import Agent, RunConfig, resolve_model
from loopctl.errors import MissingExtra, UnknownModel, UsageError
from loopctl.messages import ToolCall
from loopctl.model import Model
from loopctl.tools import Approver, Tool, ToolContext, load_tools

__all__ = ["load", "make_agent", "say_yes"]

_KEY = "OPENAI_API_KEY"
_WITH_KEY = "openai:gpt-5.2"
_WITHOUT_KEY = "local"
_KNOWN = "local, local:/path/m.gguf, openai:NAME, ollama:NAME"
_PROVIDERS = ("local", "openai", "ollama")
_OWN_SERVERS = ("local", "anthropic", "google")


def make_agent(options: Options, *, model: Model | None = None, approve: Approver | None = None) -> Agent:
    """Make the agent that *options* describe; nothing is opened yet.

    Args:
        options: What the command line says.
        model: What answers; None chooses it.
        approve: Who is asked about calls, unless the options say that nobody is.

    Raises:
        UsageError: A model, a base url or a tool cannot be had; the text says which and what to do.
    """
    config = RunConfig(stream=options.is_streaming, deadline=options.deadline)
    if options.max_turns is not None:
        config = replace(config, max_turns=options.max_turns)
    tools = _builtin(options.workspace) if options.workspace is not None else []
    tools += load(options.tools) if options.tools is not None else []
    chosen = model or choose_model(options, os.environ)
    return Agent(chosen, tools, options.system, config=config, approve=say_yes if options.is_yes else approve)


def choose_model(options: Options, environ: Mapping[str, str]) -> Model:
    """Give the model that *options* name, or that *environ* suggests.

    Raises:
        UsageError: There is no such model, or it cannot be had at that base url.
    """
    if options.model is not None and not options.model.strip():
        raise UsageError("--model is empty: name a model, or leave the option out")
    if options.base_url is None:
        name = options.model or (_WITH_KEY if environ.get(_KEY) else _WITHOUT_KEY)
        return _named(name)
    if options.model is None:
        raise UsageError("--base-url needs --model: name the model as that server calls it")
    return _model_at(options.model, options.base_url, environ)


def _named(name: str) -> Model:
    try:
        return resolve_model(name)
    except UnknownModel as error:
        if name.partition(":")[0] in _OWN_SERVERS:
            raise  # not built yet, which it says
        raise UnknownModel(
            f'no provider answers to the model name {name!r}: known are {_KNOWN}. Did you mean "{_meant(name)}"?'
        ) from error


def _meant(name: str) -> str:
    provider, colon, rest = name.partition(":")
    (close,) = get_close_matches(provider, _PROVIDERS, 1) or ("",)
    if close and (colon or close == _WITHOUT_KEY):
        return close + colon + rest
    return f"openai:{rest or name}"


def _model_at(name: str, base_url: str, environ: Mapping[str, str]) -> Model:
    provider, colon, rest = name.partition(":")
    if provider in _OWN_SERVERS and (colon or provider == _WITHOUT_KEY):
        raise UsageError(f"--base-url does not go with the model {name!r}: it is for openai:, ollama: and plain names")
    try:
        from loopctl.providers.openai import OpenAIModel, from_ollama_name
    except ImportError as error:
        raise MissingExtra.of("--base-url", "openai") from error
    if provider == "ollama" and colon:
        return from_ollama_name(rest, base_url=base_url)
    # Any other colon belongs to the server's own name of the model: `llama3.2:1b`.
    plain = rest if provider == "openai" and colon else name
    if not plain.strip():
        raise UsageError(f"--model {name!r} names no model")
    return OpenAIModel(plain, base_url=base_url, api_key=environ.get(_KEY))


def _builtin(workspace: str) -> list[Tool]:
    from loopctl.builtin import builtin_tools  # most runs are without them

    if not workspace:
        raise UsageError("--workspace is empty: name a folder, . for this one")
    return builtin_tools(workspace)


async def say_yes(_: ToolCall, __: ToolContext) -> bool:
    """Say yes, which is what `--yes` says.

    Cancellation:
        Never waits.
    """
    return True


def load(text: str, option: str = "--tools", convert: Callable[[Any, str], Any] | None = None) -> list[Tool]:
    """Load the tools that *text*, which was given as *option*, names; *convert* is as of `load_tools`.

    Raises:
        UsageError: They cannot be loaded.
    """
    try:
        return load_tools(text, convert)
    except SystemExit as error:
        raise UsageError(f"{option} {text}: importing it ended with SystemExit({error.code!r})") from error
