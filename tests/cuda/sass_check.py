#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What nvcc made of the hot kernels: those that are to move 16 bytes at once do, and none uses local
memory, where spilled registers would be. Reads the objects of the build, arguments.
"""
import re
import struct
import sys
from pathlib import Path

# Instances with Lj1E for their first number serve rows that cannot be read so.
WIDE = """
norm.cu norm_kernel load store
norm.cu norm_back_kernel load store
loss.cu cross_entropy_kernel load
loss.cu cross_entropy_back_kernel load store
maps.cu dropout_kernel load store
maps.cu act_kernel load store
maps.cu act_back_kernel load store
maps.cu bias_act_kernel load store
maps.cu glu_kernel load store
maps.cu glu_back_kernel load store
maps.cu column_kernel load
step.cu sum_kernel load store
step.cu square_kernel load
step.cu update_kernel load store
step.cu refresh_kernel load store
embedding.cu embedding_kernel load store
embedding.cu pieces_kernel load store
embedding.cu table_kernel load store
rotary.cu rotary_kernel load store
attention.cu heads_kernel load store
experts.cu rows_kernel load
experts.cu sums_kernel load
router.cu router_kernel
"""

# Lower 12 bits of an instruction, Volta to Hopper; bits 73 to 75 are the size, 6 for 16 bytes.
LOAD, STORE, LOCAL_LOAD, LOCAL_STORE = 0x981, 0x986, 0x983, 0x387
NAMES = {LOAD: "load", STORE: "store"}
CUDA = 190


def kernels_of(elf):
    """Names and code of one image."""
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, n, names = struct.unpack_from("<HHH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(n)]
    for name, _, _, _, at, length in sections:
        start = sections[names][4] + name
        text = elf[start:elf.index(b"\0", start)].decode()
        if text.startswith(".text."):
            yield text[len(".text."):], elf[at:at + length]


def images_of(data):
    for found in re.finditer(b"\x7fELF", data):
        if struct.unpack_from("<H", data, found.start() + 0x12)[0] == CUDA:
            yield data[found.start():]


def instructions(code):
    for low, high in struct.iter_unpack("<QQ", code):
        yield low & 0xFFF, high >> 9 & 7


def check(path, wanted):
    kernels = [k for image in images_of(path.read_bytes()) for k in kernels_of(image)]
    for name, code in kernels:
        if any(op in (LOCAL_LOAD, LOCAL_STORE) for op, _ in instructions(code)):
            yield f"{name} uses local memory"
    for kernel, *moves in wanted:
        instances = [k for k in kernels if f"{len(kernel)}{kernel}" in k[0]]
        wide = [k for k in instances if not re.search(r"kernelI[a-z0-9_]+?Lj1E", k[0])]
        if not wide:
            yield f"{path.name} has no {kernel}"
        for name, code in wide:
            at_once = {NAMES.get(op) for op, size in instructions(code) if size == 6}
            for move in set(moves) - at_once:
                yield f"{name} has no {move} of 16 bytes"


def main():
    objects = {Path(name).name: Path(name) for name in sys.argv[1:]}
    table = [line.split() for line in WIDE.split("\n") if line]
    faults = [fault for file in sorted({line[0] for line in table})
              for fault in check(objects[file + ".o"], [l[1:] for l in table if l[0] == file])]
    print("\n".join(faults) or f"{len(table)} kernels as they are meant to be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
