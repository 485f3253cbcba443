#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records losses of models of tests/data/published on batches of which some targets have no label,
as PyTorch computes them: tests/data/torch/losses.json, for tests/e2e/losses_test.txt.

A batch is four sequences: one with all labels, one with half, one with a single one, one with none.
A run is three steps of SGD on it. `token`: the mean over all labels of the batch, torch's
`cross_entropy(..., ignore_index=-100)`. `sample`: the mean over the four means; that of the sequence
without labels is 0. Gradients of `token` are also accumulated over two halves of the batch by the
losses that `transformers` computes with `num_items_in_batch`, which must come to the same.

Needs torch, transformers and safetensors; the output depends on the seed below only.
"""
import json
import pathlib

import torch
import transformers
from torch.nn.functional import cross_entropy

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
RATE, STEPS, SMOOTHING, Z_LOSS = 0.1, 3, 0.1, 0.01
MODELS = {"gpt": transformers.GPT2LMHeadModel, "llama": transformers.LlamaForCausalLM,
          "bert-erf": transformers.BertForMaskedLM, "t5": transformers.T5ForConditionalGeneration}
torch.set_num_threads(1)
transformers.logging.set_verbosity_error()


def batch(name):
    places = 6 if name == "t5" else 8
    inputs, targets = torch.randint(0, 19, (4, 8)), torch.randint(0, 19, (4, places))
    targets[1, torch.randperm(places)[:places // 2]] = -100
    targets[2, torch.arange(places) != 2] = -100
    targets[3] = -100
    return inputs, targets


def logits_of(name, model, inputs, targets):
    if name == "t5":
        return model(input_ids=inputs, labels=targets).logits
    if name == "bert-erf":  # the second half of a sequence is its second segment
        return model(input_ids=inputs,
                     token_type_ids=(torch.arange(8) >= 4).long().expand(len(inputs), 8)).logits
    return model(input_ids=inputs).logits


def over_tokens(logits, targets, smoothing=0.0):
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100,
                         label_smoothing=smoothing)


def over_samples(logits, targets):
    return sum(over_tokens(x[None], t[None]) for x, t in zip(logits, targets)
               if (t != -100).any()) / len(targets)


def with_terms(logits, targets):
    squares = torch.logsumexp(logits, -1)[targets != -100] ** 2
    return over_tokens(logits, targets, SMOOTHING) + Z_LOSS * squares.mean()


def norm_of(model):
    return torch.sqrt(sum((p.grad ** 2).sum() for p in model.parameters() if p.grad is not None))


def load(name):
    return MODELS[name].from_pretrained(DATA / "published" / name, dtype=torch.float64).eval()


def train(name, loss_of, inputs, targets):
    model = load(name)
    steps = []
    for _ in range(STEPS):
        model.zero_grad()
        loss = loss_of(logits_of(name, model, inputs, targets), targets)
        loss.backward()
        steps.append([loss.item(), norm_of(model).item()])
        with torch.no_grad():
            for p in model.parameters():
                p -= RATE * (0 if p.grad is None else p.grad)
    return steps


def check_accumulation(name, inputs, targets, expected):
    model, loss = load(name), 0
    n = (targets != -100).sum()
    for half in (slice(0, 2), slice(2, 4)):
        part = model(input_ids=inputs[half], labels=targets[half], shift_labels=targets[half],
                     num_items_in_batch=n).loss
        part.backward()
        loss += part.item()
    for got, want in zip((loss, norm_of(model).item()), expected):
        assert abs(got - want) <= 1e-6 * want, (name, got, want)  # it takes logits as f32


def main():
    cases = {}
    torch.manual_seed(33)
    for name in MODELS:
        inputs, targets = batch(name)
        cases[name] = {"inputs": inputs.tolist(), "targets": targets.tolist()}
        for key, loss_of in [("token", over_tokens), ("sample", over_samples), ("terms", with_terms)]:
            cases[name][key] = train(name, loss_of, inputs, targets)
        if name in ("gpt", "llama"):
            check_accumulation(name, inputs, targets, cases[name]["token"][0])
    lines = [f'"{name}": ' + json.dumps(case) for name, case in cases.items()]
    (DATA / "torch" / "losses.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
