#!/usr/bin/env bash
# From a fresh clone to green tests: installs what is missing, builds, runs the main job once, then the
# whole test suite through ctest. Arguments go to ctest, for example
#   scripts/test.sh -L unit
# PENSTOCK_PRESETS="dev asan tsan clang" chooses the builds that are tested (default: dev).
set -euo pipefail
cd "$(dirname "$0")/.."

case " ${PENSTOCK_PRESETS:-} " in
*" clang "*) scripts/deps.sh clang ;;
*) scripts/deps.sh test ;;
esac
if [ $# -eq 0 ]; then
    scripts/demo.sh
fi
presets=${PENSTOCK_PRESETS:-dev}
for preset in $presets; do
    echo "== $preset"
    cmake --preset "$preset"
    cmake --build --preset "$preset"
    ctest --preset "$preset" -j 2 "$@"
    # Of several builds, the test programs of one (gigabytes) make room for those of the next.
    [ "$preset" = "${presets##* }" ] || find "build/$preset/tests" -name 'test-*' -type f -delete
done
