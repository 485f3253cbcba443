# SPDX-License-Identifier: Apache-2.0
"""The quickstart GPT in PyTorch, written as one would: fused attention, GELU (tanh), tied head."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.depth = dim // heads
        self.ln_1 = nn.LayerNorm(dim)
        self.c_attn = nn.Linear(dim, 3 * dim)
        self.c_proj = nn.Linear(dim, dim)
        self.ln_2 = nn.LayerNorm(dim)
        self.c_fc = nn.Linear(dim, 4 * dim)
        self.mlp_proj = nn.Linear(4 * dim, dim)

    def forward(self, x):
        packed = self.c_attn(self.ln_1(x)).chunk(3, dim=2)  # of a part: its heads
        q, k, v = (z.unflatten(2, (-1, self.depth)).transpose(1, 2) for z in packed)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).flatten(2))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Embedding(nn.Module):
    def __init__(self, vocab, context, dim):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.wpe = nn.Embedding(context, dim)

    def forward(self, tokens):
        return self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))


class Stage(nn.Module):
    """Blocks [first, last) of the model, with embedding and head where they belong."""

    def __init__(self, model, first, last):
        super().__init__()
        n, dim = model["layers"], model["dim"]
        self.embedding = (
            Embedding(model["vocab"], model["context"], dim) if first == 0 else None
        )
        self.blocks = nn.ModuleList(Block(dim, model["heads"]) for _ in range(first, last))
        self.ln_f = nn.LayerNorm(dim) if last == n else None
        self.head = nn.Linear(dim, model["vocab"], bias=False) if last == n else None
        for name, p in self.named_parameters():
            if p.dim() > 1:
                std = 0.02 / math.sqrt(2 * n) if "proj" in name else 0.02
                nn.init.normal_(p, std=std)
        if self.embedding is not None and self.head is not None:
            self.head.weight = self.embedding.wte.weight

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(self.ln_f(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def optimizer_of(module, train):
    return torch.optim.AdamW(
        module.parameters(), lr=train["lr"], betas=(0.9, 0.95), weight_decay=0.1
    )
