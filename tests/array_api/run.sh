#!/usr/bin/env bash
# The public conformance suite of the Python array API standard against fgrad.numpy:
#   bash tests/array_api/run.sh [CHECKOUT [PYTEST OPTIONS]]
# CHECKOUT is a clone of github.com/data-apis/array-api-tests with its submodule; without one, the commit below
# is cloned. The suite needs `pip install hypothesis ndindex pytest pytest-json-report` beside fgrad.
# MODULE=numpy runs it against plain NumPy, without fgrad's list of skips.
set -euo pipefail

COMMIT=55fcc60179efa2680ddd6cd926ddf17b83530e2b
MODULE=${MODULE:-fgrad.numpy}
MAX_EXAMPLES=${MAX_EXAMPLES:-50}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if (($#)); then
  suite=$(cd "$1" && pwd)
  shift
else
  suite=$scratch/array-api-tests
  git clone --quiet https://github.com/data-apis/array-api-tests "$suite"
  git -C "$suite" -c advice.detachedHead=false checkout --quiet "$COMMIT"
  git -C "$suite" submodule --quiet update --init
fi

skips=/dev/null
[[ $MODULE == fgrad.numpy ]] && skips=$here/skips.txt
export ARRAY_API_TESTS_MODULE=$MODULE ARRAY_API_TESTS_VERSION=2024.12
export HYPOTHESIS_STORAGE_DIRECTORY=$scratch/hypothesis PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=$here/../../src${PYTHONPATH:+:$PYTHONPATH}

cd "$suite"
status=0
"${PYTHON:-python3}" -m pytest array_api_tests --skips-file "$skips" --max-examples "$MAX_EXAMPLES" \
  --disable-deadline -p no:cacheprovider -q -rfE --tb=short --disable-warnings \
  --json-report --json-report-summary --json-report-file "$scratch/report.json" "$@" || status=$?

"${PYTHON:-python3}" - "$scratch/report.json" "$MODULE" <<'EOF'
import json
import sys

with open(sys.argv[1]) as f:
    counts = json.load(f)["summary"]
kinds = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
print(f"{sys.argv[2]}:", ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in kinds))
EOF
exit "$status"
