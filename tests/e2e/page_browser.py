#!/usr/bin/env python3
"""Opens the page of `penstock compare --report` in headless Chromium.

usage: page_browser.py PENSTOCK FOLDER

Without JavaScript: the table, every timeline and the stages are there and have a size. With it: nothing
is said on the console, a click and the keyboard sort the table, what is under the pointer is named, a
timeline is enlarged and comes back, paper has everything. Exit 77 where there is no Chromium.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

JOB = """
model = { use = "mlp" }
data = { kind = "synthetic" }
train = { batch = 32, microbatch = 8 }
cluster = { devices = 2 }
partitioner = { use = "uniform" }
scheduler = { use = "gpipe" }
memopt = [{ use = "none" }]
[compare]
schedulers = ["gpipe", "1f1b", "zb-h1"]
microbatches = [4, 8, 7]
"""

# Runs in the page before its own script, and writes what it sees into an element at the end.
WATCH = """<script>
window.complaints = [];
addEventListener("error", (event) => complaints.push(String(event.message)));
for (const kind of ["error", "warn", "log"]) console[kind] = (...words) => complaints.push(words.join(" "));
</script>"""

TRY = """<script>
const results = {};
const wanted = (name, value) => { results[name] = value; };
const rows = () => [...document.querySelectorAll("#results tbody tr")].map((row) => row.id);
const tick = (element, type, x, y, more) => element.dispatchEvent(new PointerEvent(type,
  { bubbles: true, cancelable: true, clientX: x, clientY: y, pointerId: 1, button: 0, pointerType: "mouse", ...more }));
try {
  const before = rows();
  const heads = [...document.querySelectorAll("#results th")];
  const column = heads.findIndex((head) => head.textContent === "samples/s");
  const button = heads[column].querySelector("button");
  button.click();
  wanted("descending", heads[column].getAttribute("aria-sort") + " " + (rows().join() === before.join()));
  button.click();
  wanted("ascending", heads[column].getAttribute("aria-sort") + " " + (rows().join() === before.toReversed().join()));
  button.focus();
  wanted("focus", document.activeElement === button);
  button.click();

  const chart = document.querySelector("svg.timeline"), box = chart.getBoundingClientRect(), d = chart.dataset;
  const scale = box.width / chart.viewBox.baseVal.width;
  const x = (part) => box.left + (Number(d.left) + part * (Number(d.right) - Number(d.left))) * scale;
  const y = box.top + (Number(d.top) + Number(d.height) / 2) * scale;
  tick(chart, "pointermove", x(.002), y);
  wanted("tip", document.querySelector(".tip").hidden ? "" : document.querySelector(".tip").textContent);
  const view = chart.querySelector("svg.view"), whole = view.getAttribute("viewBox"), inner = chart.querySelector(".axis").innerHTML;
  chart.dispatchEvent(new PointerEvent("pointerdown", { clientX: x(.25), clientY: y, button: 0, pointerId: 1, pointerType: "mouse" }));
  tick(chart, "pointermove", x(.5), y);
  tick(chart, "pointerup", x(.5), y);
  const [left, , width] = view.getAttribute("viewBox").split(" ").map(Number);
  const [left0, , width0] = whole.split(" ").map(Number);
  wanted("enlarged", Math.abs(width / width0 - .25) < .01 && Math.abs((left - left0) / width0 - .25) < .01);
  wanted("together", [...document.querySelectorAll("svg.timeline")].every((other) =>
    other.querySelector("svg.view").getAttribute("viewBox").split(" ")[0] === view.getAttribute("viewBox").split(" ")[0]));
  chart.focus();
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "0", bubbles: true }));
  wanted("back", view.getAttribute("viewBox") === whole && chart.querySelector(".axis").innerHTML === inner);
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }));
  wanted("keyboard", Math.abs(Number(view.getAttribute("viewBox").split(" ")[2]) / width0 - .5) < .01);
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "0", bubbles: true }));
  const open = () => [...document.querySelectorAll("details.plan")].filter((plan) => plan.open).length;
  const some = open();
  dispatchEvent(new Event("beforeprint"));
  wanted("paper", some + " of " + open());
  dispatchEvent(new Event("afterprint"));
  wanted("after", open() === some);
} catch (error) { complaints.push(String(error)); }
results.complaints = complaints;
const answer = document.createElement("pre");
answer.id = "answer";
answer.textContent = "ANSWER" + JSON.stringify(results) + "END";
document.body.append(answer);
</script>"""

# Where there is no JavaScript a page cannot tell sizes: a frame without scripts is looked into.
FRAME = """<!DOCTYPE html><meta charset="utf-8"><iframe sandbox="allow-same-origin" src="page.html"
width="1200" height="900"></iframe><script>
onload = () => {
  const page = document.querySelector("iframe").contentDocument;
  const sizes = (selector) => [...page.querySelectorAll(selector)].map((element) => {
    const box = element.getBoundingClientRect();
    return box.width > 100 && box.height > 40;
  });
  document.body.append("ANSWER" + JSON.stringify({ rows: page.querySelectorAll("#results tbody tr").length,
    buttons: page.querySelectorAll("th button").length, why: page.querySelectorAll("#refused tbody tr").length,
    timelines: sizes("svg.timeline"), stages: sizes("svg.stages"), scatter: sizes("svg.scatter"),
    outside: [...page.querySelectorAll("[src],link,image,use")].length }) + "END");
};
</script>"""


def browse(chromium, folder, name):
    """The answer that a page leaves in itself, as Python has it."""
    run = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
         "--window-size=1280,1000", f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000",
         "--dump-dom", (folder / name).as_uri()], capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r"ANSWER(\{.*?\})END</pre>|ANSWER(\{.*?\})END", run.stdout, re.DOTALL)
    if not found:
        sys.exit(f"{name}: the page gave no answer\n{run.stderr[-2000:]}")
    import html
    import json
    return json.loads(html.unescape(found.group(1) or found.group(2)))


def main():
    chromium = os.environ.get("PENSTOCK_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("skipped: no chromium")
        sys.exit(77)
    penstock, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "job.toml").write_text(JOB)
    subprocess.run([penstock, "compare", "job.toml", "--report", "page.html", "--quiet"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    page = (folder / "page.html").read_text()
    (folder / "tried.html").write_text(page.replace("<head>", "<head>" + WATCH, 1).replace("</body>", TRY + "</body>", 1))
    (folder / "frame.html").write_text(FRAME)

    wrong = []

    def expect(what, found, wanted):
        if found != wanted:
            wrong.append(f"{what}: {found!r}, not {wanted!r}")

    plain = browse(chromium, folder, "frame.html")
    expect("rows", plain["rows"], 6)
    expect("refusals", plain["why"], 3)
    expect("timelines", plain["timelines"], [True] * 6)
    expect("stages", plain["stages"], [True] * 6)
    expect("scatter", plain["scatter"], [True])
    expect("buttons without a script", plain["buttons"], 0)
    expect("elements that load something", plain["outside"], 0)

    tried = browse(chromium, folder, "tried.html")
    expect("console", tried["complaints"], [])
    expect("first click", tried.get("descending"), "descending true")
    expect("second click", tried.get("ascending"), "ascending true")
    expect("focus", tried.get("focus"), True)
    for word in ["forward, rank 0", "stage 0, micro-batch 0", "start 0 ns", "duration "]:
        expect(word, word in tried.get("tip", ""), True)
    for key in ["enlarged", "together", "back", "keyboard", "after"]:
        expect(key, tried.get(key), True)
    expect("open, and on paper", tried.get("paper"), "4 of 6")
    if wrong:
        sys.exit("\n".join(wrong))


main()
