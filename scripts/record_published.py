#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records tiny models of every published family, and the logits that PyTorch computes with them:
tests/data/published/FAMILY/: model.safetensors and config.json as `transformers` writes them (the
residual network under torchvision's names), expected.safetensors with inputs and logits.

Needs torch, transformers and safetensors; the output depends on the seeds below only. With
--check FOLDER FAMILY... it loads what penstock exported to FOLDER/FAMILY, compares it with what is
recorded, and fails where anything differs; --check-bf16 wants the recorded weights rounded to
BF16. tests/e2e/transformers_test.txt does both.
"""
import pathlib
import shutil
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "published"
torch.set_num_threads(1)
transformers.logging.set_verbosity_error()


class Block(nn.Module):
    """A basic block of torchvision.models.resnet, or a bottleneck."""

    def __init__(self, before, inner, expansion, stride):
        super().__init__()
        after = inner * expansion
        sizes = [3, 3] if expansion == 1 else [1, 3, 1]
        widths = [before, inner, after] if expansion == 1 else [before, inner, inner, after]
        self.n = len(sizes)
        for i, size in enumerate(sizes):
            step = stride if i == (0 if expansion == 1 else 1) else 1
            setattr(self, f"conv{i + 1}", nn.Conv2d(widths[i], widths[i + 1], size, step,
                                                    size // 2, bias=False))
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(widths[i + 1]))
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False),
                                            nn.BatchNorm2d(after))

    def forward(self, x):
        h = x
        for i in range(1, self.n + 1):
            h = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(h))
            h = h.relu() if i < self.n else h
        return (h + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet(nn.Module):
    """torchvision.models.ResNet with two stages."""

    def __init__(self, width=4, classes=5, expansion=4):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(Block(width, width, expansion, 1))
        self.layer2 = nn.Sequential(Block(width * expansion, 2 * width, expansion, 2))
        self.fc = nn.Linear(2 * width * expansion, classes)

    def forward(self, x):
        x = self.layer2(self.layer1(self.bn1(self.conv1(x)).relu()))
        return self.fc(x.mean((2, 3)))


def tokens(*shape, vocab=19):
    return torch.randint(0, vocab, shape)


def gpt2():
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=2, n_embd=8, n_head=2, n_positions=8, vocab_size=19, bos_token_id=None,
        eos_token_id=None))
    return model, {"tokens": tokens(2, 8)}, lambda x: model(x["tokens"]).logits


def bert(act="gelu_new"):
    model = transformers.BertForMaskedLM(transformers.BertConfig(
        num_hidden_layers=2, hidden_size=8, intermediate_size=32, num_attention_heads=2,
        max_position_embeddings=8, vocab_size=19, hidden_act=act))
    segments = (torch.arange(8) >= 4).long().expand(2, 8).contiguous()
    return (model, {"tokens": tokens(2, 8), "segments": segments},
            lambda x: model(x["tokens"], token_type_ids=x["segments"]).logits)


def t5(**more):
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(
        num_layers=2, num_decoder_layers=1, d_model=8, d_kv=6, d_ff=12, num_heads=2, vocab_size=19,
        relative_attention_num_buckets=8, relative_attention_max_distance=16,
        decoder_start_token_id=0, **more))
    if not more.get("tie_word_embeddings", True):  # transformers 5 ties what it makes anew
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    return (model, {"tokens": tokens(2, 8), "decoder.tokens": tokens(2, 6)},
            lambda x: model(input_ids=x["tokens"], decoder_input_ids=x["decoder.tokens"]).logits)


def resnet():
    model = ResNet()
    image = torch.randn(2, 3, 8, 8)
    model.train()
    for _ in range(3):  # running statistics other than those of a new layer
        model(torch.randn(16, 3, 8, 8) + 0.5)
    return (model, {"image": image.permute(0, 2, 3, 1).contiguous()},
            lambda x: model(x["image"].permute(0, 3, 1, 2)))


def decoder(kind, config, **more):
    model = kind(config(
        num_hidden_layers=2, hidden_size=8, intermediate_size=12, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=8, vocab_size=19, bos_token_id=None,
        eos_token_id=None, pad_token_id=None, **more))
    return model, {"tokens": tokens(2, 8)}, lambda x: model(x["tokens"]).logits


def llama():
    return decoder(transformers.LlamaForCausalLM, transformers.LlamaConfig, rope_theta=500.0,
                   rope_scaling={"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                                 "high_freq_factor": 4.0, "original_max_position_embeddings": 6})


def mistral():
    return decoder(transformers.MistralForCausalLM, transformers.MistralConfig, sliding_window=3,
                   head_dim=2)


def qwen2():
    return decoder(transformers.Qwen2ForCausalLM, transformers.Qwen2Config,
                   tie_word_embeddings=True)


def qwen3():
    return decoder(transformers.Qwen3ForCausalLM, transformers.Qwen3Config, head_dim=6,
                   rms_norm_eps=1e-6)


def mixtral():
    return decoder(transformers.MixtralForCausalLM, transformers.MixtralConfig, num_local_experts=4,
                   num_experts_per_tok=2, sliding_window=None, rope_theta=1e4)


def qwen3_moe():
    return decoder(transformers.Qwen3MoeForCausalLM, transformers.Qwen3MoeConfig, head_dim=6,
                   moe_intermediate_size=12, num_experts=4, num_experts_per_tok=2,
                   norm_topk_prob=False)


FAMILIES = {"gpt": gpt2, "bert": bert, "t5": t5, "resnet": resnet, "llama": llama,
            "mistral": mistral, "qwen2": qwen2, "qwen3": qwen3, "bert-erf": lambda: bert("gelu"),
            "mixtral": mixtral, "qwen3-moe": qwen3_moe,
            "t5-v1.1": lambda: t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)}


def spread(model):
    """Weights large enough that every part of the model shows in the logits."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(0.2 * torch.randn_like(p))
            elif not isinstance(model, ResNet):
                p.mul_(0).add_(0.4 * torch.randn_like(p))


def record(family, seed):
    torch.manual_seed(seed)
    model, inputs, logits = FAMILIES[family]()
    spread(model)
    model.eval()
    folder = OUT / family
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if isinstance(model, ResNet):
        save_file(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    else:
        with tempfile.TemporaryDirectory() as whole:
            model.save_pretrained(whole)
            for name in ("model.safetensors", "config.json"):
                shutil.copy(pathlib.Path(whole) / name, folder / name)
    with torch.no_grad():
        save_file({**{k: v.int() if not v.is_floating_point() else v for k, v in inputs.items()},
                   "logits": logits(inputs).contiguous()}, folder / "expected.safetensors")


def saved(model):
    """What the model is in a file: some have other tensors in memory."""
    if isinstance(model, ResNet):
        return model.state_dict()
    with tempfile.TemporaryDirectory() as whole:
        model.save_pretrained(whole)
        return load_file(pathlib.Path(whole) / "model.safetensors")


def check(folder, family, dtype):
    """What penstock wrote, as its users load it."""
    torch.manual_seed(0)
    model, _, _ = FAMILIES[family]()
    if family == "resnet":
        model.load_state_dict(load_file(folder / "model.safetensors"))
    else:
        kind = type(model)
        if not family.startswith(("bert", "t5")):
            kind = transformers.AutoModelForCausalLM
        model, told = kind.from_pretrained(folder, output_loading_info=True)
        left = {k: v for k, v in told.items() if v}
        if left or model.dtype != dtype:
            sys.exit(f"{family}: {left}, {model.dtype}")
    ours = saved(model)
    was = load_file(OUT / family / "model.safetensors")
    worst = 0.0
    for name, value in was.items():
        if name in ours and value.is_floating_point():
            value = value.to(dtype).float()
            off = (ours[name].float() - value).abs() / value.abs().clamp(min=1e-3)
            worst = max(worst, off.max().item())
        elif value.is_floating_point():
            sys.exit(f"{family}: {name} is missing")
    if dtype != torch.float32:  # equal weights have equal logits
        print(f"{family}: weights rounded to {dtype} differ by {worst:.3g} (relative)")
        if worst > 2e-7:
            sys.exit(1)
        return
    expected = load_file(OUT / family / "expected.safetensors")
    logits = expected.pop("logits")
    model.eval()
    x = {k: v.long() if not v.is_floating_point() else v for k, v in expected.items()}
    with torch.no_grad():
        if family == "resnet":
            again = model(x["image"].permute(0, 3, 1, 2))
        elif family.startswith("t5"):
            again = model(input_ids=x["tokens"], decoder_input_ids=x["decoder.tokens"]).logits
        elif family.startswith("bert"):
            again = model(x["tokens"], token_type_ids=x["segments"]).logits
        else:
            again = model(x["tokens"]).logits
    print(f"{family}: weights differ by {worst:.3g} (relative), logits by "
          f"{(again - logits).abs().max().item():.3g}")
    if worst > 2e-7 or (again - logits).abs().max() > 1e-5:
        sys.exit(1)


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] in ("--check", "--check-bf16"):
        for name in sys.argv[3:]:
            check(pathlib.Path(sys.argv[2]) / name, name,
                  torch.bfloat16 if sys.argv[1] == "--check-bf16" else torch.float32)
    else:
        for seed, name in enumerate(FAMILIES):
            record(name, seed)
