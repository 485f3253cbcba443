#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what is missing, builds, trains a small GPT through a
# four-stage pipeline on the CPU and lets it write. Arguments go to `penstock train`, for example
#   scripts/demo.sh --set scheduler.use=gpipe
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/deps.sh
if [ ! -f build/release/CMakeCache.txt ]; then
    cmake --preset release -DPENSTOCK_TESTS=OFF
fi
cmake --build --preset release
build/release/penstock plan configs/quickstart.toml "$@"
exec build/release/penstock train configs/quickstart.toml "$@"
