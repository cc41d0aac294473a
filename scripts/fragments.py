"""Checks the news fragments in changelog.d/: `<issue>.<type>.md` or `+<word>.<type>.md`, one sentence for users."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def find_problems(folder: Path, types: set[str]) -> list[str]:
    """What is wrong with the fragments in *folder*, one line each."""
    problems = []
    for path in sorted(folder.glob("[!.]*")):
        text = path.read_text(encoding="utf-8").strip()
        if path.name == "README.md":
            continue
        if not re.fullmatch(rf"(\d+|\+[a-z0-9-]+)\.({'|'.join(sorted(types))})(\.\d+)?\.md", path.name):
            problems.append(f"{path.name}: the name is not <issue>.<type>.md with a type of {sorted(types)}")
        if not text or not text.endswith((".", "`", "```")):
            problems.append(f"{path.name}: say in whole sentences what changed for users")
    return problems


def main() -> int:
    """Print the problems; 1 if there are any."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    problems = find_problems(
        ROOT / "changelog.d", {kind["directory"] for kind in settings["tool"]["towncrier"]["type"]}
    )
    print("\n".join(problems))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
