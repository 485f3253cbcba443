#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Plugins of strangers: installs penstock into a fresh folder, builds each template against what is
# there and nothing else, by CMake and by a plain compiler, checks it, and plans with it.
#   outside.sh BUILD_FOLDER CMAKE C_COMPILER C++_COMPILER
set -eu
build=$1 cmake=$2 cc=$3 cxx=$4
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
[ -f "$place/prefix/share/penstock/configs/quickstart.toml" ] || fail "example configs are not installed"
for family in common gpt bert t5 resnet llama; do
    [ -s "$place/prefix/share/penstock/families/$family.toml" ] || fail "no families/$family.toml was installed"
done
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

for language in c c++; do
for kind in partitioner scheduler memopt model data operator; do
    id=my-$kind file=$kind-my-$kind compiler="$cc -std=c11" source=$kind.c
    if [ $language = c++ ]; then
        # These have a vendor.
        id=lab/our-$kind file=$kind-lab.our-$kind compiler="$cxx -std=c++20" source=$kind.cpp
    fi
    "$penstock" plugins new --lang $language "$kind" "$id" >/dev/null
    folder=${id#*/}
    grep -rq "my-plugin\|my_plugin" "$folder" && fail "a name was left in $folder"
    cd "$folder"

    # By the package; its ctest runs the checker.
    "$cmake" -B build -DCMAKE_PREFIX_PATH="$place/prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
        -DCMAKE_C_FLAGS="-Wall -Wextra -Wpedantic -Werror" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Werror" >configure.log || fail "$(cat configure.log)"
    "$cmake" --build build >build.log 2>&1 || fail "$(cat build.log)"
    (cd build && ctest --output-on-failure) >ctest.log || fail "$(cat ctest.log)"
    grep -q "100% tests passed, 0 tests failed out of 1" ctest.log || fail "$(cat ctest.log)"

    # By hand; flags come from pkg-config alone.
    mkdir hand
    # shellcheck disable=SC2046
    $compiler -O2 -Wall -Wextra -Wpedantic -Werror -fPIC -shared -fvisibility=hidden \
        $(pkg-config --cflags penstock) -o "hand/$file.so" "$source"
    "$penstock" plugins check "hand/$file.so" >check.log || fail "$(cat check.log)"
    grep -q " 0 failed, 0 skipped" check.log || fail "$(cat check.log)"

    # A model names it; tests/plugin/operator_test.txt has one.
    [ "$kind" = operator ] && cd .. && continue

    # Found by path, named by the user, used in a plan; data is what a run reads.
    if [ "$kind" = data ]; then
        PENSTOCK_PLUGIN_PATH=$PWD/build "$penstock" train ../job.toml --quiet --set "data.kind=$id" \
            --set train.steps=2 >train.log 2>&1 || fail "$(cat train.log)"
        "$penstock" train ../job.toml --set "data.kind=$id" >refused.log 2>&1 && fail "found nowhere"
        grep -q "no data \"$id\"" refused.log || fail "$(cat refused.log)"
        cd ..
        continue
    fi
    PENSTOCK_PLUGIN_PATH=$PWD/build "$penstock" plan ../job.toml --set "$kind.use=$id" \
        -o plan.json >plan.log 2>&1 || fail "$(cat plan.log)"
    named="$id 0.1" # of a model the config does, and the digest of the graph
    [ "$kind" = model ] && named=$id
    grep -q "$named" plan.json || fail "plan.json does not name $id"
    "$penstock" plan ../job.toml --set "$kind.use=$id" >refused.log 2>&1 && fail "found nowhere"
    grep -q "no $kind \"$id\"" refused.log || fail "$(cat refused.log)"
    cd ..
done
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
# Families of weights are found there, too.
"$penstock" train job.toml --quiet --set "model={use='resnet'}" --set train.steps=1 --set checkpoint.folder=saved \
    --set train.microbatch=1 >weights.log 2>&1 || fail "$(cat weights.log)"
"$penstock" export weights saved -o weights >weights.log 2>&1 || fail "$(cat weights.log)"
mv "$away/share/penstock/families" "$away/families"
"$penstock" export weights saved -o weights >weights.log 2>&1 && fail "weights without their family were written"
grep -q "$away/share/penstock/families/common.toml: cannot open" weights.log || fail "$(cat weights.log)"
mv "$away/families" "$away/share/penstock/families"
folder=$(dirname "$(find "$away" -name scheduler-gpipe.so)")
cp my-scheduler/build/scheduler-my-scheduler.so "$folder"
"$penstock" plan job.toml -v --set scheduler.use=my-scheduler >apart.log 2>&1 || fail "$(cat apart.log)"
grep -q "is not on the list of what penstock came with, $folder/" apart.log || fail "$(cat apart.log)"

# The model trains there.
PENSTOCK_PLUGIN_PATH=$PWD/my-model/build "$penstock" train job.toml --quiet --set "model={use='my-model'}" \
    --set train.steps=2 >train.log 2>&1 || fail "$(cat train.log)"
grep -q "trained 2 steps" train.log || fail "$(cat train.log)"
echo "ten templates built, checked and planned with outside the tree"
