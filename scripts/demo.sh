#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what is missing, builds, trains a small GPT through a
# four-stage pipeline on the CPU, saves it, goes on from there with two stages, exports the weights and
# lets them write.
# Arguments go to `penstock train`, for example
#   scripts/demo.sh --set scheduler.use=gpipe
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/deps.sh
if [ ! -f build/release/CMakeCache.txt ]; then
    cmake --preset release -DPENSTOCK_TESTS=OFF
fi
cmake --build --preset release
build/release/penstock plan configs/quickstart.toml "$@"
folder=build/demo
rm -rf "$folder"
build/release/penstock train configs/quickstart.toml --set checkpoint.folder="$folder" "$@"
steps=$(cd "$folder" && printf "%s\n" step-* | tail -1)
steps=$((10#${steps#step-} + 20))
build/release/penstock train configs/quickstart.toml --set checkpoint.folder="$folder" "$@" --resume auto \
    --set cluster.devices=2 --set train.steps="$steps"
build/release/penstock export weights "$folder" -o "$folder/published"
exec build/release/penstock generate configs/quickstart.toml --from "$folder/published" --prompt "The " --length 200 \
    "$@"
