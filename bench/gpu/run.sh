#!/usr/bin/env bash
# All GPU benchmarks, about six minutes on an H100: JSON lines into FILE, then tables.
#   bench/gpu/run.sh BUILD [FILE]      PYTHON=python3 names the interpreter that may have torch
# Exit code 1 where one of them failed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${1:?bench/gpu/run.sh BUILD [FILE]}
file=${2:-$build/bench-gpu.jsonl}
python=${PYTHON:-python3}
broken=0

: >"$file"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit --format=csv || true
timeout 120 "$build/bench-gpu-rates" "$build/plugins/device-cuda.so" >>"$file" || broken=1
timeout 240 "$python" "$here/share.py" "$build" >>"$file" || broken=1
timeout 300 "$python" "$here/throughput.py" "$build" --python "$python" >>"$file" || broken=1
"$python" "$here/table.py" "$file" || broken=1
exit $broken
