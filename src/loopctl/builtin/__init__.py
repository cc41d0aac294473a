"""Built-in tools: to read, list, search, write and edit the files of a workspace, to run commands, to fetch pages.

Rules: ordinary tools, made with what everybody's tools are made with; the engine knows nothing of them. Those of this
module work in the folder that the process is in; `builtin_tools` makes them for another one.
"""

from loopctl.builtin._all import builtin_tools, make_tools
from loopctl.builtin._fetch import Fetching
from loopctl.builtin._workspace import Workspace
from loopctl.tools import Tool

__all__ = [
    "builtin_tools",
    "edit_file",
    "fetch_url",
    "list_dir",
    "read_file",
    "run_command",
    "search",
    "write_file",
]

_here = make_tools(Workspace(), Fetching())
read_file: Tool = _here["read_file"]
list_dir: Tool = _here["list_dir"]
search: Tool = _here["search"]
write_file: Tool = _here["write_file"]
edit_file: Tool = _here["edit_file"]
run_command: Tool = _here["run_command"]
fetch_url: Tool = _here["fetch_url"]
