#!/usr/bin/env bash
# What can only be checked on an NVIDIA GPU: builds with CUDA and runs the tests that carry the label
# gpu, then what bench/gpu has. Ends with a table. Exit codes: 0 all passed; 1 a test failed, or was
# skipped although there is a GPU; 4 there is none here (or no nvcc), and nothing was tested.
#   scripts/gpu-check.sh [FOLDER]     the build folder (default: build/gpu)
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/gpu}

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
    echo "gpu-check: no NVIDIA GPU on this machine (nvidia-smi lists none): nothing was tested" >&2
    exit 4
fi
if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    echo "gpu-check: there is a GPU but no nvcc in PATH or /usr/local/cuda/bin: nothing was tested" >&2
    exit 4
fi
nvidia-smi --query-gpu=index,name,memory.total,driver_version --format=csv

set -e
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPENSTOCK_CUDA=on
cmake --build "$build"
set +e

log=$build/gpu-check.log
ctest --test-dir "$build" -L '^gpu$' --output-on-failure 2>&1 | tee "$log"
passed=$(grep -c ' Passed ' "$log")
skipped=$(grep -c '\*\*\*Skipped' "$log")
failed=$(grep -cE '\*\*\*(Failed|Exception|Timeout|Not Run)' "$log")

measured=0
broken=0
for bench in bench/gpu/*.sh; do
    [ -x "$bench" ] || continue
    measured=$((measured + 1))
    "$bench" "$build" || broken=$((broken + 1))
done

echo
printf '%-24s %s\n' "tests passed" "$passed" "tests failed" "$failed" "tests skipped" "$skipped" \
    "benchmarks" "$measured" "benchmarks that failed" "$broken"
if [ "$skipped" -gt 0 ]; then
    echo "gpu-check: a GPU is here, so no test may be skipped" >&2
fi
if [ "$passed" -eq 0 ] || [ "$failed" -gt 0 ] || [ "$skipped" -gt 0 ] || [ "$broken" -gt 0 ]; then
    exit 1
fi
