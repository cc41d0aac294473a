#!/bin/sh
# Every check that needs no test to run. Goes through all of them, then fails if any did.
set -u

BIN=${BIN:-.venv/bin}
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
# A second async linter: ruff misses a swallowed CancelledError and a yield inside a timeout. Not asked of it:
# ASYNC109, a `timeout` parameter, which is part of the contract.
check async "$BIN/flake8-async" --asyncio --enable ASYNC --disable ASYNC109 $(git ls-files -co --exclude-standard 'src/*.py' 'examples/*.py')
check types "$BIN/mypy"
check types-for-users "$BIN/pyright" --verifytypes loopctl --ignoreexternal
check layers "$BIN/lint-imports" --no-cache --no-logo
check api "$BIN/python" scripts/api.py --check
check changelog "$BIN/python" scripts/fragments.py

if [ -n "$failed" ]; then
    echo "failed:$failed"
    exit 1
fi
