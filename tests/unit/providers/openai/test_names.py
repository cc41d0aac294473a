"""What a model is made of: names, keys and addresses from arguments and the environment."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from loopctl.errors import MissingExtra, UsageError
from loopctl.model import Model
from loopctl.providers._http import is_loopback
from loopctl.providers.openai import HttpOptions, OpenAIModel, from_name, from_ollama_name


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


def url(model: OpenAIModel) -> str:
    return model._where.url


def key(model: OpenAIModel) -> str | None:
    return model._clients._headers.get("authorization")


def test_a_name_is_a_model_at_openai_with_the_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    model = from_name("gpt-5.2")
    assert isinstance(model, Model)
    assert (model.name, url(model), key(model)) == ("openai:gpt-5.2", "https://api.openai.com/v1", "Bearer sk-1")
    assert "sk-1" not in repr(model)


def test_the_environment_and_then_the_argument_decide_about_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")
    assert url(from_name("m")) == "http://127.0.0.1:1/v1"
    assert url(OpenAIModel("m", base_url="http://localhost:2/v1")) == "http://localhost:2/v1"


def test_a_missing_key_is_said_with_the_next_move() -> None:
    with pytest.raises(UsageError, match="needs an API key: set OPENAI_API_KEY"):
        from_name("gpt-5.2")
    with pytest.raises(UsageError, match="needs an API key"):
        OpenAIModel("m", base_url="http://10.0.0.5:8000/v1")


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "http://127.0.0.1:1/v1"},
        {"base_url": "http://[::1]:1/v1"},
        {"base_url": "http://localhost:1/v1"},
        {"base_url": "http://10.0.0.5:8000/v1", "api_key": ""},
        {"base_url": "http://10.0.0.5:8000/v1", "http": HttpOptions(headers={"Authorization": "Basic x"})},
    ],
)
def test_no_key_is_needed_on_this_machine_or_if_the_caller_says_so(options: dict[str, Any]) -> None:
    assert key(OpenAIModel("m", **options)) is None


def test_an_empty_key_sends_none_though_the_environment_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert key(OpenAIModel("m", api_key="")) is None
    assert key(OpenAIModel("m", api_key="sk-2")) == "Bearer sk-2"
    assert key(from_ollama_name("llama3")) is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("127.0.0.1", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:9000", "http://127.0.0.1:9000/v1"),
        ("[::]:9000", "http://[::1]:9000/v1"),
        (":9000", "http://127.0.0.1:9000/v1"),
        ("box:9000", "http://box:9000/v1"),
        ("http://box:9000/", "http://box:9000/v1"),
        ("http://box", "http://box:80/v1"),
        ("https://box/ollama", "https://box:443/ollama/v1"),
    ],
)
def test_ollama_is_where_its_own_variable_says(monkeypatch: pytest.MonkeyPatch, host: str, expected: str) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    model = from_ollama_name("llama3")
    assert (model.name, url(model)) == ("ollama:llama3", expected)


def test_an_ollama_host_that_is_no_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "box:port")
    with pytest.raises(UsageError, match="OLLAMA_HOST 'box:port'"):
        from_ollama_name("llama3")


@pytest.mark.parametrize("factory", [from_name, from_ollama_name])
def test_an_empty_name_is_refused(factory: Any) -> None:
    with pytest.raises(UsageError, match="names no model"):
        factory(" ")


@pytest.mark.parametrize("bad", ["127.0.0.1:8000/v1", "ftp://x/v1", "http://", "/v1"])
def test_an_address_that_is_none_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="is not an address"):
        OpenAIModel("m", base_url=bad)


def test_extra_body_cannot_take_what_the_engine_sets() -> None:
    with pytest.raises(UsageError, match="cannot set messages, stream"):
        OpenAIModel("m", base_url="http://127.0.0.1:1/v1", extra_body={"stream": False, "messages": []})


def test_without_the_extra_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    monkeypatch.delitem(sys.modules, "loopctl.providers._http")
    with pytest.raises(MissingExtra, match=r"pip install 'loopctl-py\[openai\]'"):
        OpenAIModel("m", base_url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.9.9.9", True),
        ("http://[::1]/v1", True),
        ("http://localhost", True),
        ("http://a.localhost", True),
        ("http://0.0.0.0:1", True),
        ("https://api.openai.com/v1", False),
        ("http://10.0.0.1", False),
        ("http://localhost.example.com", False),
    ],
)
def test_this_machine_is_known_by_its_addresses(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected
