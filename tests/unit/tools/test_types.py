"""Decorated functions keep their types."""

import subprocess
import sys
from pathlib import Path

import pytest


def test_a_type_checker_sees_the_function_behind_the_tool():
    pytest.importorskip("mypy")
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "tests/unit/tools/typed_tools.py"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=55, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
