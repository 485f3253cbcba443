#!/usr/bin/env bash
# A release build that runs on a machine with a GPU, a driver and the CUDA toolkit but without this project's
# packages and without a network: programs, plugins, tests labelled gpu, benchmarks and the shared
# libraries of Debian that they need. The C library and the C++ one are the machine's own: it must
# not be older than this one.
#   scripts/gpu-bundle.sh [FILE]           makes it (default: .gpu/penstock-gpu.tar.xz, which git ignores)
#   scripts/gpu-bundle.sh --unpack FILE    unpacks it and prints the build folder
#   scripts/gpu-bundle.sh --help           these lines; exit code 2 where the words are wrong
# Tests know their plugins by absolute paths, so that both machines have it in the same place. File and
# tree together must not exceed 60 MiB, which is what a machine may be sent.
set -euo pipefail
cd "$(dirname "$0")/.."
place=${PENSTOCK_BUNDLE_PLACE:-/tmp/penstock-gpu}
build=$place/build
most=$((60 << 20))

# What a module opens at run time: cuDNN, by the name that it has in it, and what compiles for that,
# of the same number as the CUDA runtime.
opened_by() {
    local cudnn
    cudnn=$(grep -ao 'libcudnn\.so\.[0-9][0-9]*' "$1" | sort -u) || return 0
    echo "$cudnn"
    grep -ao 'libcudart\.so\.[0-9][0-9]*' "$1" | sort -u | sed 's/cudart/nvrtc/' || true
}

# One library and what goes with it, from the first of some folders that has it.
link_from() {
    local name=$1 who=$2 folder file
    shift 2
    for folder in "$@"; do
        [ -e "$folder/$name" ] || continue
        for file in "$folder/${name%%.so*}"*.so*; do
            ln -sf "$file" "$place/lib/"
        done
        return
    done
    echo "gpu-bundle: $who needs $name, which is not on this machine" >&2
}

# Folders with libraries of NVIDIA: the toolkit's, and those of Python's packages.
nvidia_places() {
    local places
    if [ -n "${PENSTOCK_BUNDLE_SEARCH:-}" ]; then
        echo "$PENSTOCK_BUNDLE_SEARCH" # a test says where
        return
    fi
    places=$(ls -d /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib /usr/lib/x86_64-linux-gnu \
        2>/dev/null || true)
    places+=" $(python3 -c 'import glob, site, sys
print(*[p for s in {*site.getsitepackages(), *sys.path} for p in glob.glob(s + "/nvidia/*/lib")])' \
        2>/dev/null || true)"
    echo "$places"
}

# Libraries of NVIDIA: the machine's own, wherever they are, linked to where the bundle looks.
link_nvidia() {
    local places missing name
    places=$(nvidia_places)
    for module in "$build"/plugins/*.so "$build/penstock"; do
        missing=$(ldd "$module" 2>/dev/null | awk '/not found/ {print $1}') || true
        for name in $missing $(opened_by "$module"); do
            # shellcheck disable=SC2086
            link_from "$name" "$(basename "$module")" $places
        done
    done
}

usage() {
    sed -n '2,9s/^# \{0,1\}//p' "$0"
}

if [ "${1:-}" = --unpack ]; then
    if [ $# -ne 2 ]; then
        usage >&2
        exit 2
    fi
    file=$2
    if [ ! -r "$file" ]; then
        echo "gpu-bundle: cannot read $file; scripts/gpu-bundle.sh makes it where there are packages" >&2
        exit 2
    fi
    mkdir -p "$place"
    if command -v xz >/dev/null; then
        tar -C "$place" -xf "$file"
    else
        python3 -W ignore -m tarfile -e "$file" "$place"
    fi
    link_nvidia
    echo "$build"
    exit
fi

case ${1:-} in
-h | --help)
    usage
    exit
    ;;
-*)
    usage >&2
    exit 2
    ;;
esac
if [ $# -gt 1 ]; then
    usage >&2
    exit 2
fi
file=${1:-.gpu/penstock-gpu.tar.xz}
# The only rpath, so that libraries of this machine's folders are not taken there, either. It is searched
# for the libraries of libraries, too, where it is of the old kind.
rpath=-Wl,--disable-new-dtags,-rpath,$place/lib
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPENSTOCK_CUDA=on \
    -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DCMAKE_SKIP_RPATH=ON \
    -DCMAKE_EXE_LINKER_FLAGS="$rpath" -DCMAKE_MODULE_LINKER_FLAGS="$rpath" >&2
mapfile -t modules < <(ninja -C "$build" -t targets all |
    grep -oE '^(device|transport|partitioner|scheduler|memopt|data|operator)-[a-z0-9-]+: phony' | cut -d: -f1)
mapfile -t tests < <(grep -rhE '^add_test\(\S*gpu-' "$build/tests" --include=CTestTestfile.cmake |
    grep -oE 'tests/test-[A-Za-z0-9_-]+' | sort -u | xargs -n1 basename)
cmake --build "$build" --target penstock bench-gpu-rates "${modules[@]}" "${tests[@]}" >&2
scripts/gpu_tests.py list "$build" >"$build/gpu-tests.json"

# What they need of Debian; not what every machine has, nor what comes with its driver and toolkit.
rm -rf "$place/lib"
mkdir -p "$place/lib" "$(dirname "$file")"
programs=("$build/penstock" "$build/bench-gpu-rates" "${tests[@]/#/$build/tests/}")
mapfile -t plugins < <(find "$build/plugins" -name '*.so')
ldd "${programs[@]}" "${plugins[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(ld-linux|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s|libcu[a-z]*|libcublas[A-Za-z]*|libcudnn[a-z_]*|libnccl|libnv[A-Za-z_-]*)[.-]' |
    xargs -I{} cp -L {} "$place/lib/"
tar -C "$place" -cf - lib build/gpu-tests.json build/plugins/shipped.xxh128 build/families "${programs[@]/#$place\//}" "${plugins[@]/#$place\//}" |
    xz -T0 -6 >"$file"
tree=$(git archive HEAD | wc -c)
bytes=$(stat -c %s "$file")
echo "$file: $bytes bytes, the tree $tree bytes; for scripts/gpu-check.sh --bundle $file"
if [ $((tree + bytes)) -gt "$most" ]; then
    echo "gpu-bundle: together more than $most bytes" >&2
    exit 1
fi
