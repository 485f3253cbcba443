# SPDX-License-Identifier: Apache-2.0
"""A Llama in PyTorch, written as one would: fused attention with grouped heads, packed projections,
rotary positions from a table, fused RMS norm, SwiGLU."""
import torch
import torch.nn.functional as F
from torch import nn

from gpt import loss_of, optimizer_of  # noqa: F401


def rotation(rows, head_dim, theta):
    frequencies = theta ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(rows), torch.cat((frequencies, frequencies)))
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Block(nn.Module):
    def __init__(self, model):
        super().__init__()
        dim, self.heads, self.kv_heads = model["dim"], model["heads"], model["kv_heads"]
        self.head_dim = model.get("head_dim") or dim // self.heads
        wide = (self.heads + 2 * self.kv_heads) * self.head_dim
        self.input_layernorm = nn.RMSNorm(dim, eps=1e-5)
        self.qkv = nn.Linear(dim, wide, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, dim, bias=False)
        self.post_attention_layernorm = nn.RMSNorm(dim, eps=1e-5)
        self.gate_up = nn.Linear(dim, 2 * model["ff"], bias=False)
        self.down_proj = nn.Linear(model["ff"], dim, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        n = (self.heads + self.kv_heads) * self.head_dim
        packed = self.qkv(self.input_layernorm(x))
        qk = rotate(packed[..., :n].view(b, t, -1, self.head_dim).transpose(1, 2), cos, sin)
        v = packed[..., n:].view(b, t, -1, self.head_dim).transpose(1, 2)
        y = F.scaled_dot_product_attention(qk[:, :self.heads], qk[:, self.heads:], v,
                                           is_causal=True,
                                           enable_gqa=self.kv_heads != self.heads)
        x = x + self.o_proj(y.transpose(1, 2).reshape(b, t, -1))
        gate, up = self.gate_up(self.post_attention_layernorm(x)).chunk(2, -1)
        return x + self.down_proj(F.silu(gate) * up)


class Stage(nn.Module):
    """Blocks [first, last) of the model, with embedding and head where they belong."""

    def __init__(self, model, first, last):
        super().__init__()
        n, dim = model["layers"], model["dim"]
        self.embed_tokens = nn.Embedding(model["vocab"], dim) if first == 0 else None
        self.blocks = nn.ModuleList(Block(model) for _ in range(first, last))
        self.norm = nn.RMSNorm(dim, eps=1e-5) if last == n else None
        self.lm_head = nn.Linear(dim, model["vocab"], bias=False) if last == n else None
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        cos, sin = rotation(model["context"], model.get("head_dim") or dim // model["heads"],
                            model.get("rope_theta", 1e4))
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, x):
        if self.embed_tokens is not None:
            x = self.embed_tokens(x)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return x if self.lm_head is None else self.lm_head(self.norm(x))
