#!/usr/bin/env bash
# Builds the targets of tests/fuzz with clang's libFuzzer and runs each for so long: all, or those named.
#   scripts/fuzz.sh [SECONDS] [TARGET ...]
# What is found lies in build/fuzz/found, what each has learned in build/fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-900}
shift $(($# > 0 ? 1 : 0))
scripts/deps.sh fuzz
cmake --preset fuzz -DPENSTOCK_CUDA=off -DPENSTOCK_FUZZ_SECONDS="$seconds" >/dev/null
cmake --build --preset fuzz
names=$(IFS='|'; echo "$*")
ctest --preset fuzz -R "^nightly-fuzz-(${names:-.*})\$"
