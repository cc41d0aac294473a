"""`--tools module:name`: found, or refused with the part named."""

import sys

import pytest

from loopctl.errors import UsageError
from loopctl.tools import Tool, load_tools

KIT = """
from loopctl.tools import tool

@tool
def save(path: str): "Save it."

def plain(a: int): "Plain."

class Shop:
    def buy(self, count: int): ...

shop = Shop()
NUMBER = 3

def starred(*a: int): ...
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current directory with modules in it that no path knows."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    (tmp_path / "kit_of_tools.py").write_text(KIT)
    (tmp_path / "pack_of_tools").mkdir()
    (tmp_path / "pack_of_tools/__init__.py").write_text("")
    (tmp_path / "pack_of_tools/inner.py").write_text("from kit_of_tools import save")
    (tmp_path / "breaks.py").write_text("1 / 0")
    (tmp_path / "needs.py").write_text("import not_installed_anywhere.deep")
    (tmp_path / "misuses.py").write_text("from loopctl.tools import tool\n@tool\ndef bad(x): ...")
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_tools_are_found_in_the_current_directory_in_the_order_named(here):
    tools = load_tools("kit_of_tools:plain, kit_of_tools:save,kit_of_tools:shop.buy,")
    assert [made.name for made in tools] == ["plain", "save", "buy"]
    assert all(isinstance(made, Tool) for made in tools)
    assert tools[1] is sys.modules["kit_of_tools"].save


def test_a_module_inside_a_package_is_found(here):
    assert [made.name for made in load_tools("pack_of_tools.inner:save")] == ["save"]


def test_the_current_directory_is_put_on_the_path_once(here):
    load_tools("kit_of_tools:save")
    load_tools("kit_of_tools:save")
    assert sys.path.count(str(here)) == 1


def test_a_tool_that_its_module_makes_wrongly_is_refused_in_the_words_of_the_tool(here):
    with pytest.raises(UsageError, match=r"^tool bad: parameter x has no annotation"):
        load_tools("misuses:bad")


REFUSED = [
    ("", ["no tools named", "module:function"]),
    (" , ", ["no tools named"]),
    ("kit_of_tools", ["'kit_of_tools'", "module:function"]),
    ("kit_of_tools:", ["'kit_of_tools:'", "module:function"]),
    (":save", ["':save'", "module:function"]),
    ("nowhere_at_all:save", ["'nowhere_at_all:save'", "no module 'nowhere_at_all'"]),
    ("pack_of_tools.nowhere:save", ["no module 'pack_of_tools.nowhere'"]),
    ("kit_of_tools.deep:save", ["kit_of_tools"]),
    ("kit_of_tools:sav", ["'kit_of_tools:sav'", "module kit_of_tools has no 'sav'", "Its tools are: save."]),
    ("kit_of_tools:shop.sell", ["Shop has no 'sell'"]),
    ("breaks:save", ["'breaks:save'", "importing breaks raised ZeroDivisionError: division by zero"]),
    ("needs:save", ["importing needs raised ModuleNotFoundError", "not_installed_anywhere"]),
    ("kit_of_tools:NUMBER", ["'kit_of_tools:NUMBER'", "int, not a function"]),
    ("kit_of_tools:starred", ["tool starred", "*a"]),
    ("kit_of_tools:save,pack_of_tools.inner:save", ["two tools are named save"]),
    ("pack_of_tools:nothing", ["pack_of_tools defines no @tool"]),
]


@pytest.mark.parametrize(("text", "named"), REFUSED)
def test_what_cannot_be_loaded_is_refused_by_name(here, text, named):
    with pytest.raises(UsageError) as caught:
        load_tools(text)
    assert [part for part in named if part not in str(caught.value)] == [], str(caught.value)
