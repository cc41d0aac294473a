#!/bin/sh
# Every check that needs no test to run. Goes through all of them, then fails if any did.
set -u

BIN=${BIN:-.venv/bin}
PATH=$(cd "$BIN" && pwd):$PATH  # pyright --verifytypes looks at the first python
failed=""

check() {
    name=$1
    shift
    if output=$("$@" 2>&1); then
        echo "  ok      $name"
    else
        echo "  FAILED  $name"
        echo "$output" | sed 's/^/          /'
        failed="$failed $name"
    fi
}

check format "$BIN/ruff" format --check .
check lint "$BIN/ruff" check --quiet .
# A second async linter: ruff misses a swallowed CancelledError and a yield inside a timeout. Not asked of it: ASYNC109
# (a `timeout` parameter is part of the contract), ASYNC124 (a protocol's method may have nothing to await) and ASYNC9
# (that every coroutine must suspend). A file that holds a CancelledError back on purpose is listed with its reason.
sources=$(git ls-files -co --exclude-standard 'src/*.py' 'examples/*.py' | grep -vxFf scripts/holds-cancels.txt)
holders=$(grep '^src' scripts/holds-cancels.txt)
check async "$BIN/flake8-async" --asyncio --disable ASYNC109,ASYNC124,ASYNC9 $sources
check async-holders "$BIN/flake8-async" --asyncio --disable ASYNC103,ASYNC104,ASYNC109,ASYNC124,ASYNC9 $holders
check types "$BIN/mypy"
check types-for-users pyright --verifytypes loopctl --ignoreexternal
check layers "$BIN/lint-imports" --no-cache --no-logo
check api "$BIN/python" scripts/api.py --check
check changelog "$BIN/python" scripts/fragments.py

if [ -n "$failed" ]; then
    echo "failed:$failed"
    exit 1
fi
