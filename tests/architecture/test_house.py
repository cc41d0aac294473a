"""The house's own tools do what they are for: fragments, the benchmark runner, the environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks import Row, __main__ as runner
from scripts import fragments
from tests.architecture.source import ROOT


def test_a_fragment_needs_an_issue_a_known_type_and_a_sentence(tmp_path):
    good = {"2.added.md": "There is a thing.", "+typo.fixed.md": "A word is right.", "README.md": "no sentence"}
    bad = {"added.md": "A thing.", "3.feature.md": "A thing.", "4.fixed.md": "", "5.fixed.md": "no full stop"}
    for name, text in (good | bad).items():
        (tmp_path / name).write_text(text)
    problems = fragments.find_problems(tmp_path, {"added", "fixed"})
    assert [problem.split(":")[0] for problem in problems] == sorted(bad)


def fake_benchmark(monkeypatch, tmp_path, main):
    module = type(sys)("bench_fake")
    module.main = main
    monkeypatch.setitem(sys.modules, "benchmarks.bench_fake", module)
    monkeypatch.setattr(runner, "find", lambda _: ["bench_fake"])
    monkeypatch.setattr(runner, "BOUNDS", tmp_path / "bounds")


@pytest.mark.parametrize(("bad_tries", "exit_code"), [(0, 0), (2, 0), (3, 1)])
def test_a_bound_has_to_hold_in_one_try(monkeypatch, tmp_path, capsys, bad_tries, exit_code):
    tries = iter([False] * bad_tries + [True] * 3)
    fake_benchmark(monkeypatch, tmp_path, lambda: [Row("thing / floor", 1.5, 2.0, next(tries)), Row("shown", "3 s")])
    assert runner.main([]) == exit_code
    assert (tmp_path / "bounds").exists() == bool(exit_code)
    table = capsys.readouterr().out
    assert "1.50 x" in table
    assert "<= 2.00 x" in table


def test_a_benchmark_that_breaks_is_not_taken_for_a_slow_one(monkeypatch, tmp_path, capsys):
    def break_down():
        raise RuntimeError("broken")

    (tmp_path / "bounds").write_text("of an earlier run")
    fake_benchmark(monkeypatch, tmp_path, break_down)
    assert runner.main([]) == 2
    assert not (tmp_path / "bounds").exists()
    assert "broken: bench_fake" in capsys.readouterr().out


def test_without_a_python_make_says_what_it_needs_and_how_to_name_one(tmp_path):
    for tool in ("rm", "grep"):
        (tmp_path / tool).symlink_to(f"/bin/{tool}")
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "scripts" / "environment.sh"), str(tmp_path / "venv"), "local"],
        env={"PATH": str(tmp_path), "PYTHON": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "make PYTHON=" in done.stderr
