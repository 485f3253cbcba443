#!/usr/bin/env bash
# All GPU benchmarks, at most 560 seconds: JSON lines into FILE, then tables.
#   bench/gpu/run.sh BUILD [FILE]      PYTHON=python3 names the interpreter that may have torch,
#                                      MODELS=gpt2-124m,gpt2-350m the models of throughput.py
# Exit code 1 where one of them failed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${1:?bench/gpu/run.sh BUILD [FILE]}
file=${2:-$build/bench-gpu.jsonl}
python=${PYTHON:-python3}
broken=0

# One program, at most so many seconds; what it wrote until then counts.
run() {
    local code=0
    timeout "$@" >>"$file" || code=$?
    if [ "$code" -eq 124 ]; then
        echo "run.sh: not done after $1 s: ${*:2}" >&2
    fi
    if [ "$code" -ne 0 ]; then
        broken=1
    fi
}

: >"$file"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit --format=csv || true
run 100 "$build/bench-gpu-rates" "$build/plugins/device-cuda.so"
run 180 "$python" "$here/share.py" "$build"
run 280 "$python" "$here/throughput.py" "$build" --python "$python" ${MODELS:+--models "$MODELS"}
"$python" "$here/table.py" "$file" || broken=1
exit $broken
