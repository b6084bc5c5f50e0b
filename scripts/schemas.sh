#!/usr/bin/env bash
# The schemas that files for others' tools are held to, of Kubernetes and CycloneDX, into build/schemas, from PyPI by pip.
set -euo pipefail
cd "$(dirname "$0")/.."
kubernetes=1.37.0
cyclonedx=11.12.0
folder=build/schemas

complete=$folder/.complete
if [ -e "$complete" ] && [ "$complete" -nt scripts/schemas.sh ]; then exit 0; fi
rm -rf "$folder"
mkdir -p "$folder"
if pip download --quiet --disable-pip-version-check --no-deps --dest "$folder" \
  "kubernetes-validate==$kubernetes" "cyclonedx-python-lib==$cyclonedx"; then
  touch "$complete"
else
  printf 'schemas: NOT FETCHED from PyPI: the schemas of Kubernetes and CycloneDX\n' >&2
  exit 1
fi
