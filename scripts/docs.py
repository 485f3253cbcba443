#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes again what is generated of the documents: docs/reference, docs/algorithms.md, and every picture.

    scripts/docs.py                       # all
    scripts/docs.py scheduler-1f1b dlrm   # of the files those with such words in their names
    scripts/docs.py --into FOLDER         # there instead of into the tree

The program's own tables make the pages. A picture is a file docs/....svg that a command in README.md, docs/ or a plugin's README writes. A plugin whose README has no
picture gets one, with the command that is usual for its kind.
"""

import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = {"partitioner": "partitioners", "scheduler": "schedulers", "memopt": "memopt"}
USUAL = {
    "partitioner": ("The stages of two towers on six devices", "partition {id} --problem configs/problems/towers.json"),
    "scheduler": ("Four devices, eight micro-batches", "schedule {id} -d 4 -m 8"),
    "memopt": ("A stage of two Transformer blocks", "memopt {id} --problem configs/problems/two-blocks.json"),
}
TITLES = {"scheduler": "Schedulers", "partitioner": "Partitioners", "memopt": "Memory optimizers"}
ALGORITHMS = """# Algorithms

| kind | decides | picture |
| --- | --- | --- |
| [partitioner](#partitioners) | where the model is cut into stages, and which devices run them | stages and what flows between them |
| [scheduler](#schedulers) | in what order each device runs its passes | passes over time, memory below |
| [memory optimizer](#memory-optimizers) | what a stage keeps, recomputes or moves elsewhere | memory over time |

Each id leads to a page: what it does, its source, parameters and limits, a picture, and the command that draws it.
[partitioning.md](partitioning.md#paper-and-plugin) says how near each partitioner is to its paper, and
[memory.md](memory.md#how-to-choose) how to choose a memory optimizer. `scripts/docs.py` makes this page of what the plugins
say about themselves.
"""
COMMAND = re.compile(r"penstock ((?:[^`\n\\]|\\\n)*docs/[\w/.-]+\.svg(?:[^`\n\\]|\\\n)*)")
PICTURE = re.compile(r"docs/[\w/.-]+\.svg")


def plugins(penstock):
    """What comes with penstock: kind, id and the rest of `plugins list`."""
    answer = subprocess.run([penstock, "plugins", "--json"], capture_output=True, text=True, check=True)
    listed = json.loads(answer.stdout)["plugins"]
    return [plugin for plugin in listed if plugin["state"] == "ok" and plugin["kind"] in FOLDERS]


def page_of(plugin):
    return SOURCE / FOLDERS[plugin["kind"]] / plugin["id"] / "README.md"


def give_picture(plugin):
    """The usual picture, below the first paragraph of a README that has none."""
    page = page_of(plugin)
    if not page.exists() or PICTURE.search(page.read_text()):
        return
    caption, command = USUAL[plugin["kind"]]
    name = f"docs/gallery/{plugin['kind']}-{plugin['id']}.svg"
    command = command.format(**plugin)
    head, text, rest = page.read_text().split("\n\n", 2) if page.read_text().count("\n\n") > 1 else (
        *page.read_text().rstrip("\n").split("\n\n", 1), "")
    picture = f"![{caption}](../../{name})\n\n    penstock {command} --svg {name}"
    page.write_text("\n\n".join([head, text, picture] + ([rest] if rest else [])).rstrip("\n") + "\n")
    print(f"{page.relative_to(SOURCE)} has a picture now")


def commands():
    """Pairs of the words of a command and the pictures that it draws."""
    pages = [SOURCE / "README.md", *sorted(SOURCE.glob("docs/**/*.md"))]
    pages += [page for folder in FOLDERS.values() for page in sorted(SOURCE.glob(f"{folder}/*/README.md"))]
    found = {}
    for page in pages:
        for match in COMMAND.finditer(page.read_text()):
            words = shlex.split(match[1].replace("\\\n", " "))
            names = PICTURE.findall(match[1])
            if found.setdefault(names[0], words) != words:
                sys.exit(f"{page}: another command draws {names[0]} as well")
    return sorted(found.items())


def information(penstock, plugin):
    answer = subprocess.run([penstock, "plugins", "info", plugin["file"], "--json"], capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)["plugins"][0]


def algorithms(penstock):
    """The index of the pages of plugins."""
    text = ALGORITHMS
    for kind, title in TITLES.items():
        text += f"\n## {title}\n\n| id | what it does | source |\n| --- | --- | --- |\n"
        for plugin in plugins(penstock):
            if plugin["kind"] == kind:
                source = information(penstock, plugin)["reference"]
                text += f"| [{plugin['id']}](../{FOLDERS[kind]}/{plugin['id']}/README.md) | {plugin['summary']} | "
                text += ("penstock's own" if source == "none" else source) + " |\n"
    return text


def texts(penstock):
    """Pages by name."""
    for page in ("commands", "config", "models", "plugins", "json"):
        done = subprocess.run([penstock, "help", "--markdown", page], capture_output=True, text=True, check=True)
        yield f"docs/reference/{page}.md", done.stdout
    yield "docs/algorithms.md", algorithms(penstock)


def draw(penstock, words, root):
    """Draws into another folder first: a command that fails leaves the picture as it is."""
    names = [word for word in words if PICTURE.fullmatch(word)]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    drawn = [str(root / name) + ".new.svg" for name in names]
    words = [drawn[names.index(word)] if word in names else word for word in words]
    done = subprocess.run([penstock, *words, "--no-profile"], cwd=SOURCE, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"penstock {shlex.join(words)}\n{done.stderr}", file=sys.stderr)
        return False
    for name, path in zip(names, map(pathlib.Path, drawn)):
        path.replace(root / name)
    return True


def wanted(name, words):
    return not words or any(word in name for word in words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default=str(SOURCE / "build/release/penstock"))
    parser.add_argument("--into", type=pathlib.Path, default=SOURCE)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    options.penstock = str(pathlib.Path(options.penstock).resolve())
    if options.into == SOURCE:
        for plugin in plugins(options.penstock):
            give_picture(plugin)
    root = options.into.resolve()
    for name, text in texts(options.penstock):
        if wanted(name, options.words):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    drawn = [draw(options.penstock, words, root) for name, words in commands() if wanted(name, options.words)]
    sys.exit(0 if all(drawn) else "some pictures could not be drawn: mend the commands that the pages show")


if __name__ == "__main__":
    main()
