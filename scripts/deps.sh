#!/usr/bin/env bash
# Installs the Debian packages that penstock needs and that are missing. The one list of them.
#   scripts/deps.sh          to build and run
#   scripts/deps.sh test     and to test
#   scripts/deps.sh fuzz     and to fuzz
#   scripts/deps.sh clang    and to test the build by clang; the same packages
set -euo pipefail

build="ca-certificates cmake g++ gcc libc6-dev make ninja-build pkg-config
       libcairo2-dev libdnnl-dev libjansson-dev libltdl-dev libonnx-dev libopenmpi-dev libpcre2-dev
       libprotobuf-c-dev libssl-dev libtomlplusplus-dev libutf8proc-dev libxxhash-dev openmpi-bin
       protobuf-c-compiler zlib1g-dev"
test="clang-format dpkg-dev file libcmocka-dev lld python3"
fuzz="clang libclang-rt-14-dev"

packages=$build
if [ "${1:-}" = test ]; then
    packages="$build $test"
elif [ "${1:-}" = fuzz ] || [ "${1:-}" = clang ]; then
    packages="$build $test $fuzz"
elif [ $# -gt 0 ]; then
    echo "usage: scripts/deps.sh [test | fuzz | clang]" >&2
    exit 2
fi

missing=""
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q "ok installed" ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "deps.sh: this is no Debian; install the counterparts of:$missing" >&2
    exit 4
fi
run=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "deps.sh: as root, run: apt-get install$missing" >&2; exit 4; }
    run=sudo
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$run apt-get update -q >/dev/null
# shellcheck disable=SC2086
$run apt-get install -y -q --no-install-recommends $missing >/dev/null
