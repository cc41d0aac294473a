"""A real language model on this machine, with no key: llama.cpp in a child process of ours. Extra: `local`."""

from loopctl.providers.local._model import LocalModel, from_name

__all__ = ["LocalModel", "from_name"]
