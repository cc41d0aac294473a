"""What the pages show is run: each page of README.md and docs/ is one program, and each file of examples/.

A block after `<!-- skip: next -->` is shown and not run. The programs run in an empty folder, without the network.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
PROGRAMS = sorted(ROOT.glob("examples/*.py"))


def parse(page: Path):
    return list(Sybil(parsers=[PythonCodeBlockParser(), SkipParser()], path=str(page.parent)).parse(page).examples())


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text("utf-8")], ids=lambda page: page.stem
)
def test_the_examples_of_a_page_are_true(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for key in [key for key in os.environ if key.endswith("_API_KEY")]:
        monkeypatch.delenv(key)
    for example in parse(page):
        example.evaluate()


def test_a_wrong_example_would_be_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nassert 1 + 1 == 3\n```\n")
    (example,) = parse(page)
    with pytest.raises(AssertionError):
        example.evaluate()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_an_example_runs_to_its_end(program, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
