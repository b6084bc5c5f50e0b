#!/usr/bin/env bash
# ruff, mypy --strict, clang-format, hadolint; `--fix` rewrites what can be rewritten.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t native < <(git ls-files --cached --others --exclude-standard 'native/*.h' 'native/*.cpp')
mapfile -t shell < <(git ls-files --cached --others --exclude-standard \
  'scripts/*.sh' 'spark-conf/*.sh' scripts/manylinux/audit scripts/rxe_lab/{lab,on,guest} .ci/run)

if [ "${1:-}" = --fix ]; then
  ruff check --fix .
  ruff format .
  clang-format -i "${native[@]}"
  exit
fi

status=0
ruff check . || status=1
ruff format --check . || status=1
mypy --strict || status=1
mypy --config-file tests/mypy.ini tests || status=1
clang-format --dry-run -Werror "${native[@]}" || status=1
hadolint spark-conf/kubernetes/Dockerfile || status=1
for script in "${shell[@]}"; do bash -n "$script" || status=1; done
exit $status
