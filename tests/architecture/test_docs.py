"""What the docs must name is named: packages, public names, checkpoints; and their links lead somewhere."""

from __future__ import annotations

import re

import loopctl
from loopctl.record import Checkpoint
from tests.architecture.source import PACKAGE, ROOT, packages

DOCS = ROOT / "docs"


def read(name):
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_package_is_a_noun_of_the_glossary():
    glossary = read("glossary.md")
    assert [name for name in packages() if f"`loopctl.{name}`" not in glossary] == []


def test_every_public_name_is_in_the_glossary():
    glossary = read("glossary.md")
    assert [name for name in loopctl.__all__ if not re.search(rf"`{name}\b[^`]*`", glossary)] == []


def test_every_package_has_its_layer_in_the_architecture_page():
    page = read("explanation/architecture.md")
    assert [name for name in packages() if f"`{name}`" not in page] == []


def test_every_file_that_the_architecture_page_names_exists():
    files = re.findall(r"`(\w+/_\w+\.py)`", read("explanation/architecture.md"))
    assert len(files) >= 7
    assert [file for file in files if not (PACKAGE / file).exists()] == []


def test_every_checkpoint_has_its_row_in_the_reference_in_order():
    rows = re.findall(r"^\| \d+ \| `(\w+)` \|", read("reference/checkpoints.md"), re.MULTILINE)
    assert rows == [member.name for member in Checkpoint]


def test_every_page_can_be_found_from_the_index():
    index = read("index.md")
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path.name != "index.md"]
    is_decision = [page.startswith("decisions/") and page != "decisions/README.md" for page in pages]
    assert [page for page, skip in zip(pages, is_decision, strict=True) if not skip and f"({page})" not in index] == []


def test_every_relative_link_leads_to_a_file():
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    prose = {page: re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL) for page in pages}
    links = [(page, link) for page, text in prose.items() for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)]
    relative = [(page, link) for page, link in links if not re.match(r"[a-z]+:", link)]
    assert relative
    assert [f"{page.name}: {link}" for page, link in relative if not (page.parent / link).exists()] == []
