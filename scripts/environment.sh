#!/bin/sh
# Makes the project's own environment, and installs this project into it.
#
#   scripts/environment.sh DIRECTORY EXTRAS [PACKAGE_WITHOUT_DEPENDENCIES ...]
#
# Needs a Python >= 3.11 with pip, and nothing else. Uses uv when it is there. What the machine's pip is told
# about places (indexes, proxies, certificates) is kept; what would put packages elsewhere, or hold a version
# back (PIP_TARGET, PIP_USER, PIP_CONSTRAINT, constraint files ...), is not: this environment is ours alone.
set -eu

directory=$1
extras=$2
shift 2
python="$directory/bin/python"

say() { echo "loopctl: $*" >&2; }
die() { say "$*"; exit 1; }

for name in CONSTRAINT BUILD_CONSTRAINT REQUIREMENT TARGET PREFIX ROOT USER REQUIRE_VIRTUALENV NO_DEPS DRY_RUN \
    PYTHON ONLY_BINARY NO_BINARY NO_BUILD_ISOLATION IGNORE_INSTALLED REQUIRE_HASHES EDITABLE SRC REPORT QUIET; do
    unset "PIP_$name" || true
done
for name in CONSTRAINT BUILD_CONSTRAINT OVERRIDE SYSTEM_PYTHON PROJECT_ENVIRONMENT NO_DEPS; do unset "UV_$name" || true; done
unset VIRTUAL_ENV PYTHONHOME PYTHONPATH || true

is_new_enough() { "$@" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3 python; do
        if is_new_enough "$candidate"; then echo "$candidate"; return; fi  # run it: a shim may exist and fail
    done
}

has_pip() { "$python" -m pip --version >/dev/null 2>&1; }

# Each way in turn: `venv` needs ensurepip, which Debian ships apart from Python.
create() {
    host=$(find_python)
    if [ -z "$host" ]; then
        command -v uv >/dev/null 2>&1 || die "needs Python 3.11 or newer, and found none. Name one: make PYTHON=/path/to/python3.12"
        uv venv --quiet --seed --python '>=3.11' "$directory" || die "found no Python >= 3.11, and uv could not bring one"
        return
    fi
    say "making $directory with $("$host" -c 'import sys; print("Python %d.%d.%d" % sys.version_info[:3])')"
    rm -rf "$directory"
    if "$host" -m venv "$directory" >/dev/null 2>&1 && has_pip; then return; fi
    rm -rf "$directory"
    if "$host" -m venv --without-pip "$directory" >/dev/null 2>&1; then
        "$host" -m pip --python "$python" install --quiet pip >/dev/null 2>&1 || true
        if has_pip; then return; fi
    fi
    rm -rf "$directory"
    if command -v uv >/dev/null 2>&1 && uv venv --quiet --seed --python "$host" "$directory" && has_pip; then return; fi
    rm -rf "$directory" "$directory-tool"
    "$host" -m pip install --quiet --target "$directory-tool" virtualenv &&
        PYTHONPATH="$directory-tool" "$host" -m virtualenv --quiet "$directory" || true
    rm -rf "$directory-tool"
    has_pip || die "could not make an environment with $host. On Debian and Ubuntu: apt-get install python3-venv"
}

pip_install() {
    "$python" -m pip install -qq --disable-pip-version-check "$@"
}

install() {
    if command -v uv >/dev/null 2>&1; then
        if uv pip install --quiet --python "$python" "$@"; then return; fi
        say "uv could not install it; trying pip"
    fi
    pip_install "$@" || die "could not install: $*
loopctl: if the lines above speak of a connection, a proxy or a certificate, pip cannot reach its package index.
loopctl: Set PIP_INDEX_URL, HTTPS_PROXY or PIP_CERT as your network needs them, and run make again."
}

if ! is_new_enough "$python"; then create; fi
has_pip || command -v uv >/dev/null 2>&1 || create
# A configuration file of pip may ask for the same things; the environment's word comes after it.
export PIP_USER=0
if "$python" -m pip config list 2>/dev/null | grep -q constraint; then export PIP_CONSTRAINT=/dev/null; fi
say "installing loopctl[$extras]"
install --editable ".[$extras]"
for package in "$@"; do install --no-deps "$package"; done
