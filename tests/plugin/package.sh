#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The Debian package: unpacked, its program trains an installed config with plugins that it knows as its own.
#   package.sh BUILD_FOLDER CPACK
set -eu
build=$1 cpack=$2
fail() { echo "package.sh: $*" >&2; exit 1; }
command -v dpkg-shlibdeps file >/dev/null || { echo "package.sh: no dpkg-dev, or no file" >&2; exit 77; }

# Elsewhere: below the build the program has the build's plugins.
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
(cd "$build" && "$cpack" -G DEB -B "$place" >"$place/cpack.log" 2>&1) || fail "$(cat "$place/cpack.log")"
package=$(find "$place" -maxdepth 1 -name 'penstock_*.deb')
dpkg-deb -f "$package" Depends | grep -q "libjansson" || fail "its dependencies lack libjansson"
dpkg-deb -f "$package" Description | sed -n 2p | grep -q "^ [A-Z]" || fail "its description is one line"
dpkg-deb -x "$package" "$place/root"
dpkg-deb -c "$package" | grep -E "cuda|nccl" && fail "it has modules for GPUs, which need what Debian lacks"

penstock=$place/root/usr/bin/penstock
configs=$place/root/usr/share/penstock/configs
cd "$place"
"$penstock" train "$configs/quickstart.toml" --set train.steps=2 --set checkpoint.folder="''" -v >train.log 2>&1 ||
    fail "$(cat train.log)"
grep -q "strategies run in this process" train.log || fail "$(cat train.log)"
"$penstock" plan "$configs/papers/graphpipe-mmt.toml" >plan.log 2>&1 || fail "$(cat plan.log)"
"$penstock" plugins new scheduler lab/mine >/dev/null
[ -f mine/scheduler.c ] || fail "no template"
[ -f root/usr/share/penstock/families/common.toml ] || fail "no families of weights"
for page in README.md LICENSE copyright CHANGELOG.md docs/install.md schedulers/1f1b/README.md configs/quickstart.toml; do
    [ -f "root/usr/share/doc/penstock/$page" ] || fail "no $page"
done
echo "$(basename "$package") plans and trains"
