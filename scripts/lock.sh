#!/usr/bin/env bash
# Writes requirements/*.txt from pyproject.toml: for development each package has a version and the hashes of its files, for
# every Python from 3.11 on. Users get the ranges of pyproject.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! [ -x build/lock/bin/uv ]; then
  python -m venv build/lock
  build/lock/bin/pip install --quiet --disable-pip-version-check uv
fi

lock() { # FILE ARGUMENTS...: what is locked there already stays, unless PYSLASH_UPGRADE is set
  build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
    --no-annotate --no-header ${PYSLASH_UPGRADE:+--upgrade} --output-file "requirements/$1" "${@:2}"
}

groups() { printf -- '--group pyproject.toml:%s ' "$@"; }

# shellcheck disable=SC2046
lock development.txt pyproject.toml $(groups build test eval lint)
lock backend.txt --constraints requirements/development.txt --group pyproject.toml:backend
lock docs.txt --constraints requirements/development.txt --group pyproject.toml:docs
lock wheels.txt --group pyproject.toml:wheels
