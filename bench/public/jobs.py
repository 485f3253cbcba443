# SPDX-License-Identifier: Apache-2.0
"""A job is a published row as a dictionary (rows.py); here it becomes a config of penstock."""
import json
import subprocess
import tempfile
import time

import devices

# Operators before the layers, of a layer, and after them, by model; a stage takes what it names
# before later stages do.
BLOCKS = {"gpt": ("w*", "h.{}.*", "ln_f*, lm_head*"),
          "llama": ("embed_tokens*", "layers.{}.*", "norm*, lm_head*"),
          "bert": ("embeddings.*", "encoder.{}.*", "head.*"),
          "t5": ("encoder.embedding*", "encoder.{}.*", "head*")}


class Refused(Exception):
    """A row that cannot be a job, and why."""


def blocks(job):
    """The patterns of each layer in order; a decoder's follow the encoder's."""
    pattern = BLOCKS[job["model"]][1]
    layers = [pattern.format(i) for i in range(job["layers"])]
    if job["model"] == "t5":
        layers += [f"decoder.{i}.*" for i in range(job["layers"])]
        layers[job["layers"]] = "encoder.norm*, decoder.embedding*, decoder.0.*"
    return layers


def stages(job):
    """Patterns of the manual partitioner. `split`: numbers of layers, and the stage of the head;
    else equal numbers, with `ends` less in the first stage and in the last."""
    layers, count = blocks(job), job["stages"] * job.get("virtual", 1)
    first, _, head = BLOCKS[job["model"]]
    ends = job.get("ends", 0)
    each, rest = divmod(len(layers) + 2 * ends, count)
    counts, head_stage = job.get("split") or (
        [each - ends * ((s == 0) + (s == count - 1)) for s in range(count)], count - 1)
    if sum(counts) != len(layers) or len(counts) != count or (rest and not job.get("split")):
        raise Refused(f"{len(layers)} layers are not divided into {count} stages")
    texts = []
    for stage in range(count):
        taken, layers = layers[:counts[stage]], layers[counts[stage]:]
        texts.append(([first] if stage == 0 else []) + taken +
                     ([head] if stage == head_stage else []))
    texts[-1] = ["*"]
    return "; ".join(", ".join(patterns) for patterns in texts)


def model_lines(job):
    """[model]: the sizes that this model has as parameters; others must be what it always has."""
    model, dim, heads = job["model"], job["dim"], job["heads"]
    if model not in BLOCKS:
        raise Refused(f"model {model} is not known here")
    lines = {"use": model, "layers": job["layers"], "dim": dim, "heads": heads,
             "context": job["context"], "vocab": job["vocab"]}
    fixed = {"gpt": {"ff": 4 * dim, "kv_heads": heads},
             "bert": {"ff": 4 * dim, "kv_heads": heads, "tied": True},
             "t5": {"kv_heads": heads}, "llama": {}}[model]
    for key, value in fixed.items():
        if job.get(key, value) != value:
            raise Refused(f"{model} always has {key} = {value}, not {job[key]}")
    for key in ("ff", "kv_heads", "tied", "targets"):
        if key in job and key not in fixed:
            lines[key] = job[key]
    if model == "t5":
        lines |= {"decoder_layers": job["layers"], "head_dim": dim // heads}
    return lines


def scheduler_lines(job):
    if job.get("virtual", 1) > 1:
        if job["schedule"] != "1f1b":
            raise Refused(f"schedule {job['schedule']} with several stages a device")
        return {"use": "interleaved", "chunks": job["virtual"]}
    return {"use": job["schedule"]} | ({"split": True} if job.get("split_passes") else {})


def memopt_lines(job):
    actions = {"none": {"use": "none"}, "selective": {"use": "selective"},
               "full": {"use": "full", "unit": "layer", "skip_last": False}}
    if job["recompute"] not in actions:
        raise Refused(f"recompute {job['recompute']} is not known here")
    return actions[job["recompute"]]


def text_of(value):
    return json.dumps(value)  # strings, numbers, lists and booleans are the same in TOML


def config(job):
    """The text of the config."""
    replicas, tensor = job["replicas"], job["tensor"]
    parallel = {}
    if tensor > 1:
        parallel = {"tensor": tensor, "sequence": devices.DEVICES[job["device"]].sequence}
    if job["zero"] and replicas > 1:
        parallel["zero"] = job["zero"]
    tables = {
        "model": model_lines(job), "data": {"kind": "synthetic"},
        "train": {"batch": job["batch"], "microbatch": job["microbatch"] * replicas,
                  "degrees": [replicas], "optimizer": "adam"},
        "parallel": parallel,
        "run": {"device": "emulated", "dtype": job["dtype"]},
        "cluster": {"devices": job["stages"] * replicas * tensor},
        "partitioner": {"use": "manual", "stages": stages(job)},
        "scheduler": scheduler_lines(job), "[memopt]": memopt_lines(job)}
    return f"include = {text_of(str(devices.cluster_file(job)))}\n" + "".join(
        f"[{name}]\n" + "".join(f"{key} = {text_of(value)}\n" for key, value in table.items())
        for name, table in tables.items() if table)


def ask(options, command, job):
    """The JSON answer of `penstock plan` or `simulate`, which predict alike; that of simulate has
    the whole timeline, 600 MB for 512 devices. Memory has no limit, so that peaks above the real
    one are known."""
    changes = dict(change.split("=", 1) for change in options.set + [
        change for name, change in options.set_for if name == job["set"]])
    job["keys"] = devices.keys_of(job, changes)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(config(job))
        file.flush()
        line = [options.penstock, command, file.name, "--json", "--quiet"]
        for key, value in (job["keys"] | {"cluster.memory": 0}).items():
            line += ["--set", f"{key}={value}"]
        done = subprocess.run(line, capture_output=True, text=True)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise RuntimeError(f"{' '.join(line)}: exit code {done.returncode}, and no JSON: "
                           f"{done.stderr or done.stdout[:200]}") from None
    if "error" in answer:
        raise Refused(answer["error"]["message"])
    return answer


def held_scores(job):
    """Bytes of each stage that attention keeps and penstock's does not: two matrices of scores in
    16 bits and a mask a layer (Korthikanti et al., "Reducing Activation Recomputation in Large
    Transformer Models", 2022: 5 a s^2 b ÷ t), of each micro-batch held or of the one layer that is
    recomputed. A decoder's are counted as the encoder's."""
    layers, _ = job.get("split") or ([len(blocks(job)) / job["stages"]] * job["stages"], 0)
    if job.get("ends"):
        layers = [n - (s in (0, job["stages"] - 1)) + 2 * job["ends"] / job["stages"]
                  for s, n in enumerate(layers)]
    one = 5 * job["heads"] * job["context"] ** 2 * job["microbatch"] / job["tensor"]
    count = job["batch"] // job["microbatch"] // job["replicas"]
    return [one * (1 if job["recompute"] != "none" else n * min(job["stages"] - s, count))
            for s, n in enumerate(layers)]


def peaks(job, plan):
    """Predicted bytes at the peak of every rank."""
    each = job["replicas"] * job["tensor"]
    scores = held_scores(job) if devices.has_scores(job) else [0] * job["stages"]
    return [rank.get("framework_bytes", rank["peak_bytes"]) + scores[i // each]
            for i, rank in enumerate(plan["devices"])]


def predict(options, job):
    """Adds to a job the predicted step and peaks, or why there are none."""
    began = time.monotonic()
    try:
        if "refused" not in job:
            plan = ask(options, "plan", job)
            job["predicted"] = plan["step_us"] / 1e3
            found = peaks(job, plan)
            where = {"first": found[0], "last": found[-1], "max": max(found)}
            job["predicted_peak"] = max(found)
            job["pairs"] = [(found[rank] if isinstance(rank, int) else where[rank], measured)
                            for rank, measured in job.get("peaks", [])]
    except Refused as why:
        job["refused"] = str(why)
    job["seconds"] = time.monotonic() - began
    return job
