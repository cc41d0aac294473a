"""What an agent can be made of, and the errors of what it cannot."""

from __future__ import annotations

import pytest

from loopctl import Agent, MissingExtra, RunConfig, UnknownModel, UsageError
from loopctl.messages import AssistantMessage, ToolCall, UserMessage
from loopctl.recovery import ModelRecovery, Recovery
from loopctl.testing import ScriptedModel, virtual_run

MODEL = ScriptedModel("x", repeat=True)


@pytest.mark.parametrize(
    "values",
    [
        {"max_turns": 0},
        {"max_turns": 1.5},
        {"max_turns": True},
        {"keep_runs": 0},
        {"grace": -1},
        {"grace": float("nan")},
        {"grace": float("inf")},
        {"grace": "1"},
        {"turn_timeout": 0},
        {"deadline": 0},
        {"deadline": True},
        {"stall_timeout": -1},
        {"max_total_tokens": 0},
        {"max_total_tokens": 1.5},
        {"event_timeout": -2},
        {"first_event_timeout": "soon"},
        {"stream": 1},
        {"dispatch": "both"},
        {"max_concurrency": 0},
        {"max_concurrency": True},
    ],
)
def test_a_number_out_of_range_is_named(values: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(values))):
        RunConfig(**values)  # type: ignore[arg-type]


def test_every_part_of_an_agent_accepts_its_default() -> None:
    Agent(MODEL, fallback_models=[], middleware=[], approve=None, recovery=None)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"recovery": 3}, "recovery="),
        ({"fallback_models": "local"}, "list of models"),
        ({"fallback_models": [MODEL, 3]}, "not a Model"),
        ({"tools": print}, r"write tools=\[…\]"),
        ({"tools": "fetch"}, r"not 'fetch': write tools=\[…\]"),
    ],
)
def test_what_can_be_no_part_of_an_agent_is_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Agent(MODEL, **values)  # type: ignore[arg-type]


def test_a_recovery_of_models_is_taken_in_each_of_its_forms() -> None:
    patient = ModelRecovery(transport_retries=9)
    assert Agent(MODEL, recovery=patient).recovery == Agent(MODEL, recovery=Recovery(model=patient)).recovery
    assert Agent(MODEL).recovery == Recovery()


@pytest.mark.parametrize("store", ["", ":memory:", 17, b"runs.db"])
def test_a_store_is_the_path_of_a_file(store: object) -> None:
    with pytest.raises(UsageError, match="store"):
        Agent(MODEL).session(store=store)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpt-5.2", "openai:gpt-5.2"),
        ("nobody:model", "openai:"),
        ("anthropic:claude", "not built yet"),
        ("google:gemini", "not built yet"),
        ("", "known are"),
    ],
)
def test_a_model_name_that_nothing_answers_to_says_what_does(name: str, words: str) -> None:
    with pytest.raises(UnknownModel, match=words):
        Agent(name)


def test_a_provider_whose_package_is_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "openai"

        def load(self) -> object:
            raise ModuleNotFoundError("no module named httpx2")

    monkeypatch.setattr("loopctl.driver._models.entry_points", lambda **_: [Entry()])
    with pytest.raises(MissingExtra, match=r"pip install 'loopctl-py\[openai\]'"):
        Agent("openai:gpt-5.2")


@pytest.mark.parametrize("model", [object(), 7, None])
def test_something_that_is_no_model_is_refused(model: object) -> None:
    with pytest.raises(UsageError, match="not a Model"):
        Agent(model)  # type: ignore[arg-type]


def test_two_tools_of_one_name_are_refused() -> None:
    def twin() -> str:
        """Be one of two."""
        return ""

    with pytest.raises(UsageError, match="twin"):
        Agent(MODEL, [twin, twin])


def test_a_history_that_a_provider_would_reject_is_refused_at_once() -> None:
    history = (UserMessage("a"), AssistantMessage((ToolCall("x", "f"),)))
    with pytest.raises(UsageError, match="'x' has no result"):
        Agent(MODEL).session(history=history)


def test_a_session_can_be_named() -> None:
    assert Agent(MODEL).session(id="mine").id == "mine"
    with pytest.raises(UsageError, match="id"):
        Agent(MODEL).session(id="")
    with pytest.raises(UsageError, match="id"):
        Agent(MODEL).session(id="a stray byte of a terminal: \udcff")
    assert Agent(MODEL).session().id != Agent(MODEL).session().id


def test_only_so_many_runs_are_kept() -> None:
    session = Agent(MODEL, config=RunConfig(keep_runs=3)).session()

    async def main() -> None:
        for number in range(5):
            await session.run(str(number))

    virtual_run(main)
    assert [run.input.text for run in session.runs] == ["2", "3", "4"]


@pytest.mark.parametrize("value", [None, 7, ["a"]])
def test_an_input_that_is_no_text_is_refused(value: object) -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="UserMessage"):
            Agent(MODEL).session().start(value)  # type: ignore[arg-type]

    virtual_run(main)


def test_a_signal_of_another_kind_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="signal="):
            Agent(MODEL).session().start("a", signal=object())  # type: ignore[arg-type]

    virtual_run(main)


def test_an_instruction_and_the_tools_reach_the_model() -> None:
    def look() -> str:
        """Look around."""
        return ""

    model = ScriptedModel("x")
    session = Agent(model, [look], "Be brief.").session()
    virtual_run(lambda: session.run("a"))
    assert model.requests[0].instructions == "Be brief."
    assert [spec.name for spec in model.requests[0].tools] == ["look"]


def test_closing_an_agent_closes_its_model() -> None:
    closed: list[str] = []

    class Closing(ScriptedModel):
        async def aclose(self) -> None:
            closed.append(self.name)

    virtual_run(lambda: Agent(Closing("x")).aclose())
    virtual_run(lambda: Agent(MODEL).aclose())
    assert closed == ["scripted"]


def test_closing_an_agent_closes_each_of_its_models_whatever_one_of_them_does() -> None:
    class Stuck(ScriptedModel):
        async def aclose(self) -> None:
            raise OSError("stuck")

    models = [ScriptedModel(), Stuck(), ScriptedModel()]

    async def main() -> None:
        with pytest.raises(OSError, match="stuck"):
            await Agent(models[0], fallback_models=models[1:]).aclose()

    virtual_run(main)
    assert [model.acloses for model in models] == [1, 0, 1]
