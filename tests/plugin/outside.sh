#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Plugins of strangers: installs penstock into a fresh folder, builds each template against what is
# there and nothing else, by CMake and by a plain compiler, checks it, and plans with it.
#   outside.sh BUILD_FOLDER CMAKE C_COMPILER
set -eu
build=$1 cmake=$2 cc=$3
place=$build/tests/outside
fail() { echo "outside.sh: $*" >&2; exit 1; }

rm -rf "$place"
mkdir -p "$place/work"
"$cmake" --install "$build" --prefix "$place/prefix" >"$place/install.log" || fail "$(cat "$place/install.log")"
penstock=$place/prefix/bin/penstock
for file in man/man1/penstock.1 man/man1/penstock-plan.1 bash-completion/completions/penstock; do
    [ -s "$place/prefix/share/$file" ] || fail "no $file was installed"
done
PKG_CONFIG_PATH=$(dirname "$(find "$place/prefix" -name penstock.pc)")
export PKG_CONFIG_PATH
cd "$place/work"
cat >job.toml <<TOML
[model]
use = "mlp"
[data]
kind = "synthetic"
[train]
batch = 8
microbatch = 2
[cluster]
devices = 2
[partitioner]
use = "uniform"
[scheduler]
use = "gpipe"
[[memopt]]
use = "none"
TOML

for kind in partitioner scheduler memopt model; do
    "$penstock" plugins new "$kind" "my-$kind" >/dev/null
    grep -rq "my-plugin\|my_plugin" "my-$kind" && fail "a name was left in my-$kind"
    cd "my-$kind"

    # By the package; its ctest runs the checker.
    "$cmake" -B build -DCMAKE_PREFIX_PATH="$place/prefix" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_C_FLAGS="-Wall -Wextra -Wpedantic -Werror" >configure.log || fail "$(cat configure.log)"
    "$cmake" --build build >build.log 2>&1 || fail "$(cat build.log)"
    (cd build && ctest --output-on-failure) >ctest.log || fail "$(cat ctest.log)"
    grep -q "100% tests passed, 0 tests failed out of 1" ctest.log || fail "$(cat ctest.log)"

    # By hand; flags come from pkg-config alone.
    mkdir hand
    # shellcheck disable=SC2046
    "$cc" -std=c11 -O2 -Wall -Wextra -Wpedantic -Werror -fPIC -shared -fvisibility=hidden \
        $(pkg-config --cflags penstock) -o "hand/$kind-my-$kind.so" "$kind.c"
    "$penstock" plugins check "hand/$kind-my-$kind.so" >check.log || fail "$(cat check.log)"
    grep -q " 0 failed, 0 skipped" check.log || fail "$(cat check.log)"

    # Found by path, named by the user, used in a plan.
    PENSTOCK_PLUGIN_PATH=$PWD/build "$penstock" plan ../job.toml --set "$kind.use=my-$kind" \
        -o plan.json >plan.log 2>&1 || fail "$(cat plan.log)"
    named="my-$kind 0.1" # of a model the config does, and the digest of the graph
    [ "$kind" = model ] && named=my-model
    grep -q "$named" plan.json || fail "plan.json does not name my-$kind"
    "$penstock" plan ../job.toml --set "$kind.use=my-$kind" >refused.log 2>&1 && fail "found nowhere"
    grep -q "no $kind \"my-$kind\"" refused.log || fail "$(cat refused.log)"
    cd ..
done

plugins=$(pkg-config --variable=plugindir penstock)
[ -f "$plugins/scheduler-gpipe.so" ] || fail "pkg-config says that plugins are in $plugins"

# What was installed is penstock's own, stripped or not; what is put beside it is not. Elsewhere: below
# the build the program has the build's plugins.
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
penstock=$away/bin/penstock
for strip in "" --strip; do
    # shellcheck disable=SC2086
    "$cmake" --install "$build" --prefix "$away" $strip >install.log || fail "$(cat install.log)"
    "$penstock" plan job.toml -v >own.log 2>&1 || fail "$(cat own.log)"
    grep -q "strategies run in this process" own.log || fail "$(cat own.log)"
done
folder=$(dirname "$(find "$away" -name scheduler-gpipe.so)")
cp my-scheduler/build/scheduler-my-scheduler.so "$folder"
"$penstock" plan job.toml -v --set scheduler.use=my-scheduler >apart.log 2>&1 || fail "$(cat apart.log)"
grep -q "is not on the list of what penstock came with, $folder/" apart.log || fail "$(cat apart.log)"

# The model trains there.
PENSTOCK_PLUGIN_PATH=$PWD/my-model/build "$penstock" train job.toml --quiet --set "model={use='my-model'}" \
    --set train.steps=2 >train.log 2>&1 || fail "$(cat train.log)"
grep -q "trained 2 steps" train.log || fail "$(cat train.log)"
echo "four templates built, checked and planned with outside the tree"
