"""From a model's name to a model: `provider:rest`, looked up among the installed providers.

Source: entry points of the group `loopctl.models`; each names a callable that takes the text after the colon.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from loopctl.errors import MissingExtra, UnknownModel, UsageError
from loopctl.model import Model

__all__ = ["resolve_model"]

_GROUP = "loopctl.models"
_NOT_YET = ("anthropic", "google")


def resolve_model(model: Model | str) -> Model:
    """Give *model* itself, or the model that the name stands for.

    Args:
        model: A `Model`, or `provider:name` (`openai:gpt-5.2`, `ollama:llama3.2`, `local`, `local:/path/model.gguf`).

    Raises:
        UnknownModel: No provider answers to the name.
        MissingExtra: Its provider needs a package that is not installed.
        UsageError: It is neither a model nor a name, or its provider refuses it.
    """
    if not isinstance(model, str):
        return _checked(model)
    provider, _, rest = model.partition(":")
    if provider in _NOT_YET:
        raise UnknownModel(
            f"{model!r}: the provider {provider} is not built yet. Use {_known()}, or a Model of your own"
        )
    found = {entry.name: entry for entry in entry_points(group=_GROUP)}.get(provider)
    if found is None:
        hint = f' Did you mean "openai:{model}"?' if ":" not in model else ""
        raise UnknownModel(f"no provider answers to the model name {model!r}: known are {_known()}.{hint}")
    make = cast("Callable[[str], Model]", _load(found))
    return _checked(make(rest))


def _load(entry: EntryPoint) -> object:
    try:
        return entry.load()
    except ImportError as error:
        raise MissingExtra.of(f"the provider {entry.name}", entry.name) from error


def _checked(model: Model) -> Model:
    if isinstance(getattr(model, "name", None), str) and callable(getattr(model, "stream", None)):
        return model
    raise UsageError(f"{model!r} is not a Model: it needs a `name` and a method `stream(request)`")


def _known() -> str:
    return ", ".join(sorted(f"{entry.name}:…" for entry in entry_points(group=_GROUP)))
