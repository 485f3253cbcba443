#!/usr/bin/env bash
# What can only be checked on an NVIDIA GPU: builds with CUDA, or takes a bundle that was built elsewhere,
# runs the tests that carry the label gpu, then bench/gpu, and ends with tables. Exit codes: 0 all
# passed; 1 a test failed, or was skipped although there is a GPU, or a benchmark failed; 4 there is
# no GPU here, or nothing to run: nothing was tested; 2 the words are wrong.
#   scripts/gpu-check.sh [--tests|--bench|--memcheck] [--results FOLDER] [FOLDER | --bundle FILE]
#     FOLDER          the build folder (default: build/gpu)
#     --bundle FILE   what scripts/gpu-bundle.sh made; nothing is built, no package is needed
#     --tests         the tests alone; --bench: bench/gpu alone
#     --memcheck      the tests alone, under compute-sanitizer's memcheck (slow)
#     --results       where log and JSON lines go (default: the build folder)
set -uo pipefail
cd "$(dirname "$0")/.."
what=all bundle="" build="" results=""
while [ $# -gt 0 ]; do
    case $1 in
    --tests | --bench | --memcheck) what=${1#--} ;;
    --bundle | --results)
        if [ $# -lt 2 ]; then
            echo "gpu-check: $1 wants a value; --help says more" >&2
            exit 2
        fi
        printf -v "${1#--}" %s "$2"
        shift
        ;;
    -h | --help)
        sed -n '2,14s/^# \{0,1\}//p' "$0"
        exit
        ;;
    -*)
        sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    *) build=$1 ;;
    esac
    shift
done
if [ -n "$bundle" ] && [ ! -r "$bundle" ]; then
    echo "gpu-check: cannot read $bundle; scripts/gpu-bundle.sh makes it" >&2
    exit 2
fi

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep '^GPU ' >/dev/null; then
    echo "gpu-check: no NVIDIA GPU on this machine (nvidia-smi lists none): nothing was tested" >&2
    exit 4
fi
nvidia-smi --query-gpu=index,name,memory.total,driver_version --format=csv

if [ -n "$bundle" ]; then
    build=$(scripts/gpu-bundle.sh --unpack "$bundle") || exit 4
else
    build=${build:-build/gpu}
    if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
        echo "gpu-check: there is a GPU but no nvcc in PATH or /usr/local/cuda/bin, and no" \
            "--bundle: nothing was tested" >&2
        exit 4
    fi
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPENSTOCK_CUDA=on || exit 1
    cmake --build "$build" || exit 1
    cmake --build "$build" --target bench-gpu-rates || exit 1
    scripts/gpu_tests.py list "$build" >"$build/gpu-tests.json" || exit 1
fi
results=${results:-$build}
mkdir -p "$results"
"$build/penstock" doctor || true

code=0
if [ "$what" != bench ]; then
    prefix=()
    if [ "$what" = memcheck ]; then
        prefix=(compute-sanitizer --error-exitcode 9)
    fi
    scripts/gpu_tests.py run "$build/gpu-tests.json" "${prefix[@]}" 2>&1 |
        tee "$results/gpu-tests.log" || code=1
fi
if [ "$what" = all ] || [ "$what" = bench ]; then
    bench/gpu/run.sh "$build" "$results/bench-gpu.jsonl" || code=1
fi
exit $code
