#!/usr/bin/env bash
# Every test that this machine can run, and at the end, loudly, what it could not.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
started=$SECONDS

scripts/test_native.sh
printf '\n== pytest\n'
status=0
pytest --junitxml=build/pytest.xml || status=$?
python scripts/not_covered.py build/pytest.xml
printf 'make test took %d s\n' $((SECONDS - started))
exit $status
