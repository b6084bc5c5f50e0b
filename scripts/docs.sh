#!/usr/bin/env bash
# Build the docs site into build/site, strictly, and check its links.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
stamp=build/docs-packages
mkdir -p build
if ! cmp -s requirements/docs.txt "$stamp"; then
  pip install --quiet --require-hashes --requirement requirements/docs.txt
  cp requirements/docs.txt "$stamp"
fi
# The theme prints an advertisement for its successor where a warning would stand.
NO_MKDOCS_2_WARNING=1 mkdocs build --quiet --strict --clean
python scripts/docs/check_links.py build/site
printf 'docs: %s pages in build/site, every link sound\n' "$(find build/site -name '*.html' | wc -l)"
