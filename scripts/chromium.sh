#!/bin/sh
# Brings what tests need to drive a browser: Playwright, into the environment of the Python given, and Debian's Chromium.
#
#   scripts/chromium.sh PYTHON
#
# Playwright brings no browser of its own here. Where one of the two is not there and cannot be installed, the tests
# that need it are skipped and say why; in CI that is a failure.
set -eu

missing() {  # what, the next move
    echo "loopctl: no $1, so no test in a browser. $2" >&2
    if [ -n "${CI:-}" ]; then exit 1; fi
    exit 0
}

"$1" -m pip install -qq --disable-pip-version-check playwright==1.65.2 || missing Playwright "It comes from PyPI."

if command -v chromium >/dev/null 2>&1; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "loopctl: installing Chromium" >&2
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; then exit 0; fi
fi
missing Chromium "On Debian: apt-get install chromium"
