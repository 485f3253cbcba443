# SPDX-License-Identifier: Apache-2.0
"""What the GPU benchmarks share: running penstock, configs, counts of operations, output.

Every result is one JSON object on a line of its own; tables are made from those lines alone
(table.py), so that what a machine wrote can be read elsewhere."""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Dense bf16 FLOP/s by data sheet, by a word of the name that nvidia-smi prints; the first that fits.
PEAKS = {"H200": 989e12, "H100 PCIe": 756e12, "H100 NVL": 835e12, "H100": 989e12}


class Failed(Exception):
    """A command that failed: its name and the last of what it said."""


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value)


def write_config(path, tables, include=None):
    lines = [f"include = {toml(str(include))}"] if include else []
    for table, keys in tables.items():
        for section in keys if isinstance(keys, list) else [keys]:
            lines += [f"[[{table}]]" if isinstance(keys, list) else f"[{table}]"]
            lines += [f"{key} = {toml(value)}" for key, value in section.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(command, timeout=None):
    """Standard output of a command."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{' '.join(command[:3])}: not done after {late.timeout:.0f} s") from late
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-1000:]
        raise Failed(f"{' '.join(command[:3])}: exit code {done.returncode}: {said}")
    return done.stdout


class Penstock:
    """JSON lines that a command of penstock prints."""

    def __init__(self, build):
        self.program = pathlib.Path(build) / "penstock"

    def __call__(self, *words, timeout=300):
        return [json.loads(line) for line in run([self.program, *words, "--json"],
                                                 timeout).splitlines()]

    def step_seconds(self, config, steps, warm_up, *more, timeout=300):
        """Seconds of each step behind the warm-up, and the last line."""
        *lines, last = self("train", config, "-q", "--set", f"train.steps={steps + warm_up}", *more,
                            timeout=timeout)
        seconds = [line["seconds"] for line in lines if "seconds" in line and "step" in line]
        return seconds[warm_up:], last


def gpu_name():
    try:
        return run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]).splitlines()[0]
    except (Failed, OSError, IndexError):
        return None


def peak_of(name):
    """Dense bf16 peak of a card; None where it is not known."""
    return next((peak for word, peak in PEAKS.items() if name and word in name), None)


def gpt_parameters(model):
    """Of a GPT-2 with one table for tokens and logits: tables, per layer two norms (gain, bias),
    four products with biases (3 C, C, 4 C, C columns), a last norm."""
    c, layers = model["dim"], model["layers"]
    layer = 4 * c + (3 * c * c + 3 * c) + (c * c + c) + (4 * c * c + 4 * c) + (4 * c * c + c)
    return model["vocab"] * c + model["context"] * c + layers * layer + 2 * c


def flops_per_token(model):
    """Of forward and backward: 6 for each parameter, and causal attention, half of all pairs."""
    return 6 * gpt_parameters(model) + 6 * model["layers"] * model["dim"] * model["context"]


def mfu(model, tokens_per_s, peak):
    """Model FLOP utilization: without recomputed work, against the dense peak."""
    return None if peak is None else flops_per_token(model) * tokens_per_s / peak


def emit(**fields):
    print(json.dumps(fields), flush=True)


def note(text):
    print(text, file=sys.stderr, flush=True)
