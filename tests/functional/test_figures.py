"""What a script only shows is kept as a file."""

import struct

import pytest

PNG = b"\x89PNG\r\n\x1a\n"

# Stands for plotly, which the machine does not have; only what its real renderers are built of.
PLOTLY = {
    "plotly/__init__.py": "",
    "plotly/io/__init__.py": """
from plotly.io._renderers import renderers
def write_html(figure, path, **options):
    open(path, "w").write(f"<html>{figure}</html>")
def write_image(figure, path, **options):
    raise ValueError("no kaleido")
""",
    "plotly/io/_base_renderers.py": "class ExternalRenderer: pass",
    "plotly/io/_renderers.py": """
class Renderers(dict):
    default = "browser"
    def show(self, figure, name=None):
        self[name or self.default].render(figure)
renderers = Renderers(browser=None, notebook=None, png=None)
""",
}


def files(machine, code, *options):
    result = machine.run_json([*options, "-c", code])
    assert result["status"] == "succeeded" and result["stderr"]["bytes"] == 0, result
    return {f["name"]: machine.read(f["path"], "alice") for f in result["files"]}


def size(png):
    assert png.startswith(PNG)
    return struct.unpack(">II", png[16:24])


def test_matplotlib_saves_each_figure_that_it_shows(machine):
    code = """
import matplotlib.pyplot as plt
plt.figure(figsize=(2, 1), dpi=100)
plt.plot([1, 2])
plt.show()
for n in (3, 4):
    plt.figure(figsize=(n, 1), dpi=100)
    plt.plot([n])
    plt.show()
figure, axes = plt.subplots(figsize=(5, 1), dpi=100)
axes.plot([1])
figure.show()
"""
    made = files(machine, code)
    assert {name: size(data) for name, data in made.items()} == {
        "figure-1.png": (200, 100),
        "figure-2.png": (300, 100),
        "figure-3.png": (400, 100),
        "figure-4.png": (500, 100),
    }


def test_a_figure_that_the_script_saves_is_not_kept_twice(machine):
    code = """
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.savefig("before.png")
plt.show()
plt.plot([3, 4])
plt.show()
plt.savefig("after.png")
"""
    made = files(machine, code)
    assert sorted(made) == ["after.png", "before.png", "figure-1.png"]
    # Not the empty page that pyplot has by then.
    assert made["after.png"] == made["figure-1.png"] != made["before.png"]


def test_pil_saves_what_it_shows_and_takes_no_name_twice(machine):
    code = """
import os
from PIL import Image
open("figure-1.png", "w").write("mine")
Image.new("RGB", (7, 5)).show()
Image.new("CMYK", (9, 5)).show()
"""
    made = files(machine, code)
    assert made["figure-1.png"] == b"mine"
    assert [size(made[f"figure-{n}.png"]) for n in (2, 3)] == [(7, 5), (9, 5)]


def test_plotly_saves_a_page_whatever_renderer_it_is_told(machine):
    directory = machine.directory()
    for name, text in PLOTLY.items():
        machine.run(["mkdir", "-p", f"{directory}/{name}".rsplit("/", 1)[0]], "alice", check=True)
        machine.write(f"{directory}/{name}", text.encode(), "alice")
    code = """
from plotly.io import renderers
renderers.show("a")
renderers.show("b", "notebook")
renderers.show("c", "png")
"""
    result = machine.run_json(["--file", f"{directory}/plotly", "-c", code])
    assert result["status"] == "succeeded", result
    pages = {f["name"]: machine.read(f["path"], "alice") for f in result["files"] if f["name"].startswith("figure")}
    assert pages == {f"figure-{n}.html": f"<html>{c}</html>".encode() for n, c in ((1, "a"), (2, "b"), (3, "c"))}
    assert result["stderr"]["text"] == "sbxctl: a figure was not saved: no kaleido\n"


@pytest.mark.parametrize("options", [[], ["-e", "PYTHONPATH=/workspace/mine"]], ids=["", "with a path of the caller's"])
def test_showing_costs_a_script_nothing_that_does_not_show(machine, options):
    code = "import sys; print([name for name in ('usercustomize', 'sbxctl_figures') if name in sys.modules])"
    assert machine.run_json([*options, "-c", code])["stdout"]["text"] == "['usercustomize']\n"


def test_a_full_workspace_is_told_and_does_not_end_the_script(machine):
    code = """
import os
from PIL import Image
try:
    with open("full", "wb") as file:
        while True: file.write(bytes(1 << 20))
except OSError: pass
Image.effect_noise((512, 512), 50).show()
os.unlink("full")
print("on")
"""
    result = machine.run_json(["--memory", "512M", "-c", code])
    assert result["stdout"]["text"] == "on\n", result
    assert result["stderr"]["text"] == "sbxctl: a figure was not saved: [Errno 28] No space left on device\n"
