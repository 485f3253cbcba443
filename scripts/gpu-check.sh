#!/usr/bin/env bash
# What can only be checked on an NVIDIA GPU: builds with CUDA, or takes a bundle that was built elsewhere,
# runs the tests that carry the label gpu, then bench/gpu, and ends with tables. Exit codes: 0 all
# passed; 1 a test failed, or was skipped although there is a GPU, or a benchmark failed, or time ran
# out; 4 there is no GPU here, or nothing to run: nothing was tested; 2 the words are wrong.
#   scripts/gpu-check.sh [--tests|--bench|--memcheck|--steps|--step STEP] [--only NAMES] [--limit S]
#                        [--models NAMES] [--results FOLDER] [FOLDER | --bundle FILE]
#     FOLDER          the build folder (default: build/gpu)
#     --bundle FILE   what scripts/gpu-bundle.sh made; nothing is built, no package is needed
#     --tests         the tests alone; --bench: bench/gpu alone
#     --memcheck      the tests alone, under compute-sanitizer's memcheck (slow)
#     --steps         the steps below in turn, for a GPU that is there for a short time; --step: one,
#                     by number or name. What each command says is kept in the results folder
#     --only          of the tests, those with such names: wildcards, separated by commas
#     --limit         seconds for each test, or for each step, and never more than it has
#     --models        of bench/gpu/throughput.py
#     --results       where log and JSON lines go (default: the build folder)
set -uo pipefail
cd "$(dirname "$0")/.."

# Number, name, seconds, what.
steps="\
1 kernels 300 tests of kernels, simple then auto; 20 steps of the quickstart, graphs off and on: equal losses
2 speed 300 rates; GPT-2 124M: auto, simple, unordered, graphs, fused sums of biases, unpaired, timed, then PyTorch
3 profiles 120 ncu, nsys or penstock profile: a W product, cross-entropy, a norm and attention backward
4 executor 560 tests of the executor: replicas, delayed updates, copies, equal bits
5 share 240 four stages on one card against the simulator
6 sanitizer 200 memcheck and racecheck of own kernels
7 again 400 tests of kernels, again and at real sizes; GPT-2 124M and 350M"

usage() {
    sed -n '2,19s/^# \{0,1\}//p' "$0"
    printf 'Steps (number, name, seconds):\n%s\n' "$steps"
}

refuse() {
    echo "gpu-check: $*; --help says more" >&2
    exit 2
}

what=all step="" bundle="" build="" results="" only="" limit="" models=""
while [ $# -gt 0 ]; do
    case $1 in
    --tests | --bench | --memcheck | --steps) what=${1#--} ;;
    --bundle | --results | --step | --only | --limit | --models)
        [ $# -ge 2 ] || refuse "$1 wants a value"
        printf -v "${1#--}" %s "$2"
        shift
        ;;
    -h | --help)
        usage
        exit
        ;;
    -*) refuse "no $1" ;;
    *) build=$1 ;;
    esac
    shift
done
if [ -n "$step" ]; then
    what=steps
    steps=$(awk -v step="$step" '$1 == step || $2 == step' <<<"$steps")
    [ -n "$steps" ] || refuse "no step $step"
fi
[[ $limit =~ ^([1-9][0-9]*)?$ ]] || refuse "--limit wants seconds, not $limit"
case "$what-${only:+only}-${models:+models}" in
bench-only-* | steps-only-*) refuse "--only is for tests" ;;
tests-*-models | memcheck-*-models | steps-*-models) refuse "--models is for --bench" ;;
esac
if [ -n "$bundle" ] && [ ! -r "$bundle" ]; then
    refuse "cannot read $bundle, which scripts/gpu-bundle.sh makes"
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
    SECONDS=0 # steps have their time behind the build
fi
results=${results:-$build}
mkdir -p "$results"
"$build/penstock" doctor | tee "$results/doctor.txt"

tests() {
    local words=()
    [ -z "$only" ] || words+=(--only "$only")
    [ -z "$limit" ] || words+=(--limit "$limit")
    scripts/gpu_tests.py run "${words[@]}" "$build/gpu-tests.json" "$@" 2>&1 |
        tee "$results/gpu-tests.log"
}

bench() {
    MODELS=$models bench/gpu/run.sh "$build" "$results/bench-gpu.jsonl"
}

# --- steps ---------------------------------------------------------------------------------------
python=${PYTHON:-python3}
module=$build/plugins/device-cuda.so

# A command of a step, at most so many seconds and no more than the step has left.
try() {
    local name=$1 most=$2 left=$((deadline - SECONDS)) begin=$SECONDS code=0
    shift 2
    if [ "$left" -le 0 ]; then
        not_run+=" $name"
        return 1
    fi
    most=$((most < left ? most : left))
    timeout -k 5 "$most" "$@" >"$results/$number-$name.log" 2>&1 || code=$?
    case $code in
    0) echo "  $name: passed, $((SECONDS - begin)) s" ;;
    124 | 137)
        echo "  $name: not done after $most s"
        late+=" $name"
        ;;
    *)
        echo "  $name: failed (exit code $code), $((SECONDS - begin)) s"
        tail -n 20 "$results/$number-$name.log"
        failed+=" $name"
        ;;
    esac
    return "$code"
}

try_test() {
    try "$1" "$2" scripts/gpu_tests.py run --only "$1" "$build/gpu-tests.json"
}

# The rows that the commands of this step wrote, as tables.
show() {
    "$python" bench/gpu/table.py "$results/$number"-*.log | tee "$results/$number-tables.md"
}

quickstart() {
    try "graphs-$1" 60 "$build/penstock" train configs/quickstart.toml -q --json \
        --set train.steps=20 --set run.device=cuda --set run.dtype=bf16 --set "run.graphs=$1" &&
        grep -o '"loss_hex":"[^"]*"' "$results/$number-graphs-$1.log" >"$results/$number-losses-$1"
}

step_kernels() {
    try_test gpu-kernels-simple 120
    try_test gpu-kernels 120
    quickstart off && quickstart on
    # shellcheck disable=SC2016
    try equal-losses 5 sh -c '[ "$(wc -l <"$1")" -eq 20 ] && cmp "$1" "$2"' sh \
        "$results/$number-losses-off" "$results/$number-losses-on"
}

throughput() {
    local name=$1 most=$2
    shift 2
    try "$name" "$most" "$python" bench/gpu/throughput.py "$build" --python "$python" --rounds 1 "$@"
}

step_speed() {
    try rates 100 "$build/bench-gpu-rates" "$module"
    throughput auto 60 --models gpt2-124m --no-torch
    throughput simple 60 --models gpt2-124m --no-torch --set run.kernels=simple
    throughput unordered 60 --models gpt2-124m --no-torch --set run.kernels=unordered
    throughput graphs 60 --models gpt2-124m --no-torch --set run.graphs=on
    throughput fused-sums 60 --models gpt2-124m --no-torch --set run.kernels=auto+fused_sums
    throughput unpaired 60 --models gpt2-124m --no-torch --set run.kernels=unpaired
    throughput timed 60 --models gpt2-124m --no-torch --set run.kernels=timed
    throughput torch 200 --models gpt2-124m
    show
}

step_profiles() {
    local job profiler=()
    if command -v ncu >/dev/null; then
        profiler=(ncu --clock-control none --set full --launch-count 4)
    elif command -v nsys >/dev/null; then
        profiler=(nsys profile --stats true --force-overwrite true --output "$results/$number-nsys")
    else
        try profile 120 "$build/penstock" profile configs/quickstart.toml -o "$results/$number-profile.json" \
            --set run.device=cuda --set run.dtype=bf16
        return
    fi
    for job in "qkv W" "loss F" "loss B" "norm1 B" "attention B"; do
        # shellcheck disable=SC2086
        try "${job/ /-}" 30 "${profiler[@]}" "$build/bench-gpu-rates" "$module" $job
    done
}

step_executor() {
    local test
    for test in replicas delayed copies bits; do
        try_test "gpu-exec-$test" 560
    done
}

step_share() {
    try share 240 "$python" bench/gpu/share.py "$build" --only schedules
    show
}

step_sanitizer() {
    local tool kernels
    for kernels in layernorm cross-entropy embedding "linear gelu" attention; do
        for tool in memcheck racecheck; do
            try "$tool-${kernels/ /-}" 60 compute-sanitizer --tool "$tool" --error-exitcode 9 \
                "$build/tests/test-gpu-kernels" "$kernels*"
        done
    done
}

step_again() {
    try_test gpu-kernels 120
    try_test gpu-kernels-simple 120
    try_test gpu-sizes 120
    throughput models 200 --models gpt2-124m,gpt2-350m
    show
}

# The verdict is one line; also where time ran out.
one_step() {
    local number=$1 name=$2 most=$3 begin=$SECONDS failed="" late="" not_run="" verdict
    [ "$first" -eq 0 ] || begin=0
    first=0
    deadline=$((begin + (limit && limit < most ? limit : most)))
    echo "step $number, $name: $4"
    "step_$name"
    verdict="passed"
    [ -z "$late$not_run" ] || verdict="out of time:${late:+ not done$late}${late:+${not_run:+,}}${not_run:+ not run$not_run}"
    [ -z "$failed" ] || verdict="failed:$failed${late:+; not done$late}${not_run:+; not run$not_run}"
    echo "step $number, $name, $((SECONDS - begin)) s: $verdict" | tee -a "$results/steps.txt"
    [ "$verdict" = passed ]
}

code=0
case $what in
steps)
    first=1 limit=${limit:-0}
    while read -r -u 3 number name most title; do
        one_step "$number" "$name" "$most" "$title" || code=1
    done 3<<<"$steps"
    ;;
memcheck) tests compute-sanitizer --error-exitcode 9 || code=1 ;;
*)
    if [ "$what" != bench ]; then
        tests || code=1
    fi
    if [ "$what" != tests ]; then
        bench || code=1
    fi
    ;;
esac
exit $code
