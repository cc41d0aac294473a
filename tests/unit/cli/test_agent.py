"""Which model answers."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

from loopctl.cli._agent import choose_model, make_agent
from loopctl.cli._arguments import parse
from loopctl.cli._options import Options
from loopctl.driver import _models
from loopctl.errors import UsageError
from loopctl.testing import ScriptedModel

URL = "http://127.0.0.1:9/v1"


@pytest.fixture
def named(monkeypatch):
    """Let every name be a model of that name."""
    monkeypatch.setattr("loopctl.cli._agent.resolve_model", lambda name: ScriptedModel(name=name))


@pytest.mark.parametrize(
    ("environ", "name"),
    [({}, "local"), ({"OPENAI_API_KEY": ""}, "local"), ({"OPENAI_API_KEY": "k"}, "openai:gpt-5.2")],
)
def test_with_no_model_named_a_key_decides(named, environ, name):
    assert choose_model(Options("chat"), environ).name == name


def test_a_named_model_is_taken_whatever_the_key(named):
    assert choose_model(Options("chat", model="ollama:x"), {"OPENAI_API_KEY": "k"}).name == "ollama:x"


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("m", "openai:m"),
        ("openai:m", "openai:m"),
        ("ollama:m:1b", "ollama:m:1b"),
        ("llama3.2:1b", "openai:llama3.2:1b"),
        ("org/m", "openai:org/m"),
    ],
)
def test_a_base_url_takes_plain_and_prefixed_names(name, called):
    model = choose_model(Options("chat", model=name, base_url=URL), {})
    assert model.name == called
    assert URL in repr(model)


@pytest.mark.parametrize("name", ["local", "local:/m.gguf", "anthropic:x", "openai:", " ", None])
def test_a_base_url_does_not_go_with_every_name(name):
    with pytest.raises(UsageError):
        choose_model(Options("chat", model=name, base_url=URL), {})


def test_a_base_url_elsewhere_needs_a_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="API key"):
        choose_model(Options("chat", model="m", base_url="https://example.org/v1"), {})


def test_the_options_reach_the_agent(named, tmp_path, monkeypatch):
    (tmp_path / "cli_agent_tools.py").write_text('def add(a: int) -> int:\n    """Add."""\n    return a\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    line = "run --system Brief. --tools cli_agent_tools:add --max-turns 3 --no-stream --model x hi"
    agent = make_agent(parse(line.split()))
    assert agent.instructions == "Brief."
    assert list(agent.tools) == ["add"]
    assert (agent.config.max_turns, agent.config.stream) == (3, False)
    sys.modules.pop("cli_agent_tools")


def test_the_defaults_are_those_of_the_library(named):
    agent = make_agent(parse(["chat"]))
    assert agent.config == type(agent.config)()


def test_the_installed_providers_are_what_the_help_names():
    from importlib.metadata import entry_points

    assert _models.entry_points is entry_points
    names = {entry.name for entry in entry_points(group="loopctl.models")}
    assert all(isinstance(entry, EntryPoint) for entry in entry_points(group="loopctl.models"))
    assert {"openai", "ollama", "local"} <= names
