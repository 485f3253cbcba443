#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Largest micro-batch (a power of two) that methods can plan, and the predicted throughput.

    bench/memopt/max_batch.py PENSTOCK CONFIG...

Every method plans the configs of configs/papers/dawnpiper-*.toml for micro-batches of 1, 2, 4, ..., with four
micro-batches a device, until one does not fit. Throughputs are of the program's own simulator.
"""
import json
import subprocess
import sys

METHODS = [
    ("pipedream, none", ["partitioner.use=pipedream", "memopt.use=none"]),
    ("dawnpiper, full (layer)", ["memopt.use=full", "memopt.unit=layer"]),
    ("vpipe, vpipe", ["partitioner.use=vpipe", "memopt.use=vpipe"]),
    ("dawnpiper, adapipe", ["memopt.use=adapipe"]),
    ("dawnpiper, capuchin", ["memopt.policy=capuchin"]),
    ("dawnpiper, dawnpiper", []),
]


def run(program, config, settings):
    command = [program, "plan", config, "--json"]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return None, lines[0] if lines else "?"
    return json.loads(done.stdout), ""


def samples_per_second(plan):
    return plan["batch"] / plan["step_us"] * 1e6


def largest(program, config, devices, settings, most):
    best = {}
    size, why = 1, ""
    while size <= most:
        plan, why = run(program, config, settings + [
            f"train.microbatch={size}", f"train.batch={4 * devices * size}"])
        if plan is None:
            break
        best[size] = plan
        size *= 2
    return best, why


def main():
    program, configs = sys.argv[1], sys.argv[2:]
    for config in configs:
        plan, why = run(program, config, [])
        devices = len(plan["devices"]) if plan else 8
        print(f"{config}, {devices} devices", flush=True)
        for name, settings in METHODS:
            plans, why = largest(program, config, devices, settings, 2048)
            if not plans:
                print(f"  {name:26} nothing: {why[:110]}", flush=True)
                continue
            rates = "  ".join(f"{size}: {samples_per_second(p):.4g}" for size, p in plans.items())
            print(f"  {name:26} {max(plans):5}   {rates}", flush=True)


if __name__ == "__main__":
    main()
