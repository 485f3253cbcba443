#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A bundle on a machine that has NVIDIA's libraries from Python's packages alone:

  bench/gpu/bundletest.py LIBRARY...     one of the toolkit, cuDNN's, NCCL's; what is beside them counts, too

Makes one with scripts/gpu-bundle.sh, unpacks it, and every program and module finds every library and
symbol, those of NVIDIA where the bundle put them. Takes a release build."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu-bundle.sh"
# Of the packages for CUDA 13: nvidia-cublas, -cuda-runtime and -cuda-nvrtc share a folder.
FOLDERS = {"cu13": ("libcublas", "libcudart", "libnvrtc"), "cudnn": ("libcudnn",),
           "nccl": ("libnccl",)}
# As ldd, but what this machine's cache of libraries knows is not found.
LDD = """#!/bin/sh
LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes LD_BIND_NOW=yes exec /lib64/ld-linux-x86-64.so.2 \\
    --inhibit-cache "$1"
"""


def lay_out(site, libraries):
    """As pip would; returns the folders."""
    for folder, names in FOLDERS.items():
        (site / folder / "lib").mkdir(parents=True)
        for file in {f.name: f for place in libraries for name in names
                     for f in place.glob(name + "*.so.*")}.values():
            (site / folder / "lib" / file.name).symlink_to(file.resolve())
    return [str(site / folder / "lib") for folder in FOLDERS]


def main():
    libraries = {pathlib.Path(library).parent for library in sys.argv[1:]}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        place, file = folder / "place", folder / "bundle.tar.xz"
        environment = os.environ | {
            "PENSTOCK_BUNDLE_PLACE": str(place),
            "PENSTOCK_BUNDLE_SEARCH": " ".join(lay_out(folder / "nvidia", libraries))}
        environment.pop("LD_LIBRARY_PATH", None)
        subprocess.run([SCRIPT, file], check=True, env=environment)
        shutil.rmtree(place)
        ldd = folder / "bin/ldd"
        ldd.parent.mkdir()
        ldd.write_text(LDD, encoding="utf-8")
        ldd.chmod(0o755)
        environment["PATH"] = f"{ldd.parent}:{environment['PATH']}"
        subprocess.run([SCRIPT, "--unpack", file], check=True, env=environment)
        programs = [f for f in (place / "build").rglob("*")
                    if f.is_file() and f.read_bytes()[:4] == b"\x7fELF"]
        wrong = []
        for program in programs:
            said = subprocess.run([ldd, program], capture_output=True, text=True, check=False,
                                  env=environment)
            wrong += [f"{program.name}: exit code {said.returncode}"] * (said.returncode != 0)
            for line in (said.stdout + said.stderr).splitlines():
                nvidia = any(word in line for words in FOLDERS.values() for word in words)
                if "not found" in line or "undefined" in line or (nvidia and str(place) not in line):
                    wrong.append(f"{program.name}: {line.strip()}")
        print("\n".join(wrong))
        names = {program.name for program in programs}
        assert {"penstock", "device-cuda.so", "transport-nccl.so", "bench-gpu-rates"} <= names, names
        sys.exit(1 if wrong else 0)


main()
