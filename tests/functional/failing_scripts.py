"""Forty scripts that fail as people's scripts do, and what the hint has to say. They were written after the
table of hints (helper/broker/hints.c), to try it. Each: name, options, code, words that the hint has."""

PYTHON = ()
NODE = ("--language", "node")
BASH = ("--language", "bash")
SHELL = ("--language", "shell")

# Written beside the script, for those that name them: content by name.
FILES = {
    "Sales-2024.csv": b"day,amount\n1,2\n",
    "kunden.csv": "name;ort\nJörg;Köln\n".encode("cp1252"),
    "log.csv.gz": bytes.fromhex("1f8b0800000000000003") + b"\x4b\x4c\x4a\x06\x00\xc2\x41\x24\x35\x03\x00\x00\x00",
}

SCRIPTS = [
    ("plot with seaborn", PYTHON, "import pandas as pd\nimport seaborn as sns\nsns.lineplot(x=[1], y=[2])", "--with seaborn"),
    ("model in a function", PYTHON, """
def main():
    from sklearn.linear_model import LinearRegression
    LinearRegression().fit([[1]], [1])

if __name__ == "__main__":
    main()
""", "--with scikit-learn"),
    ("settings that need YAML", PYTHON, """
def load(path):
    try:
        import yaml
    except ImportError as error:
        raise RuntimeError(f"cannot read {path}") from error
load("settings.yml")
""", "--with pyyaml"),
    ("parquet", PYTHON, "import pandas as pd\npd.DataFrame({'a': [1]}).to_parquet('a.parquet')", "--with pyarrow"),
    ("a table in Markdown", PYTHON, "import pandas as pd\nprint(pd.DataFrame({'a': [1]}).to_markdown())", "--with tabulate"),
    ("a page by requests", PYTHON, "import requests\nr = requests.get('https://api.example.com/v1/items', timeout=5)\nr.raise_for_status()", "--network"),
    ("a page by httpx", PYTHON, "import httpx\nwith httpx.Client() as client:\n    print(client.get('https://example.com').text)", "--network"),
    ("fetch with a cause", NODE, """
async function load() {
  try {
    return await fetch('https://example.com/data.json')
  } catch (error) {
    throw new Error('loading failed', { cause: error })
  }
}
load()
""", "--network"),
    ("curl in a pipe", BASH, "set -euo pipefail\necho start\ncurl -sS https://example.com/data.csv | head -n 3\necho end", "--network"),
    ("git clone", BASH, "git clone --depth 1 https://github.com/example/example.git repo", "--network"),
    ("a huge matrix", PYTHON, "import numpy as np\nm = np.ones((200_000, 200_000))\nprint(m.sum())", "this machine allows a run 2 GiB"),
    ("a child that needs too much", PYTHON, """
import subprocess, sys
subprocess.run([sys.executable, "-c", "x = bytearray(3 << 30)"], check=True)
""", "--memory 1024M"),
    ("a heap that grows", NODE, "const all = []\nfor (;;) all.push(new Array(100000).fill().map((_, i) => ({ i })))", "--memory 1024M"),
    ("a thousand threads", PYTHON, """
import threading, time
threads = [threading.Thread(target=time.sleep, args=(5,), daemon=True) for _ in range(1000)]
for thread in threads:
    thread.start()
""", "256 processes and threads"),
    ("a report in /usr", PYTHON, "from pathlib import Path\nPath('/usr/share/report.txt').write_text('done')", "/workspace"),
    ("results in /opt", NODE, "const fs = require('fs')\nfs.writeFileSync('/opt/out.json', JSON.stringify({ a: 1 }))", "/workspace"),
    ("a folder for charts", PYTHON, """
import matplotlib.pyplot as plt
fig, ax = plt.subplots()
ax.plot([1, 2])
fig.savefig("charts/plot.png")
""", "no directory 'charts' yet"),
    ("almost the right name", PYTHON, "import pandas as pd\nprint(pd.read_csv('sales_2024.csv').describe())", "did you mean 'Sales-2024.csv'"),
    ("a file in a folder at home", PYTHON, "import json, os\nwith open(os.path.expanduser('~/data/input.json')) as f:\n    json.load(f)", "--file data/input.json:data/input.json"),
    ("a path of somebody's desktop", PYTHON, r"import csv" "\n" r"rows = list(csv.reader(open('C:\\Users\\me\\Desktop\\umsatz.csv')))", "umsatz.csv"),
    ("settings by a promise", NODE, "const { readFile } = require('fs/promises')\nreadFile('config.json').then(text => JSON.parse(text))", "--file config.json"),
    ("sort of a list", SHELL, "set -e\nsort names.txt >sorted.txt\nwc -l sorted.txt", "--file names.txt"),
    ("a video's length", BASH, "set -e\nlength=$(ffprobe -v error -show_entries format=duration video.mp4)\necho \"$length\"", "no program 'ffprobe'"),
    ("an image by a shell", PYTHON, "import subprocess\nsubprocess.run('convert in.png out.jpg', shell=True, check=True)", "no program 'convert'"),
    ("JSON by jq from Node", NODE, "const { execSync } = require('child_process')\nconsole.log(execSync('jq . package.json').toString())", "no program 'jq'"),
    ("a converter by spawn", NODE, "const { spawn } = require('child_process')\nspawn('pandoc', ['in.md', '-o', 'out.html'])", "no program 'pandoc'"),
    ("the address of a database", PYTHON, "import os\nclass Settings:\n    url = os.environ['DATABASE_URL']\nprint(Settings.url)", "--env DATABASE_URL"),
    ("a token that is not set", BASH, "set -u\ncurl -H \"Authorization: $API_TOKEN\" https://example.com", "--env API_TOKEN"),
    ("names with umlauts", PYTHON, "with open('kunden.csv') as f:\n    for line in f:\n        print(line.strip().split(';'))", "cp1252"),
    ("a packed log", PYTHON, "import csv\nwith open('log.csv.gz', newline='') as f:\n    print(sum(1 for _ in csv.reader(f)))", "gzip"),
    ("a window", PYTHON, "import tkinter as tk\nroot = tk.Tk()\ntk.Label(root, text='hi').pack()\nroot.mainloop()", "no display"),
    ("a bracket that is not closed", PYTHON, "import math\n\nvalues = [1, 2, 3\nprint(math.fsum(values))", "line 3"),
    ("Node with half a function", NODE, "const a = 1\nfunction f( {\n  return a\n}\nf()", "Node cannot read line"),
    ("an array in sh", SHELL, "files=(a b c)\nfor f in \"${files[@]}\"; do echo $f; done", "--language bash"),
    ("a menu without answers", PYTHON, "while True:\n    choice = input('> ')\n    if choice == 'q':\n        break", "echo yes | sbxctl"),
    ("a database on localhost", PYTHON, "import socket\nwith socket.create_connection(('localhost', 5432), timeout=3) as s:\n    s.sendall(b'x')", "localhost is the sandbox itself"),
    ("a package by pip from Python", PYTHON, "import subprocess, sys\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'emoji'])\nimport emoji", "--with emoji"),
    ("an error in the log", PYTHON, """
import logging, sys
logging.basicConfig(level=logging.INFO)
def step():
    open("orders.json")
try:
    logging.info("begin")
    step()
except Exception:
    logging.exception("step failed")
    sys.exit(1)
""", "--file orders.json"),
    ("a group of tasks", PYTHON, """
import asyncio
async def work(n):
    await asyncio.sleep(0.01 * n)
    import bs4
async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(work(1))
        group.create_task(work(1))
asyncio.run(main())
""", "--with beautifulsoup4"),
    ("a pool of workers", PYTHON, """
from multiprocessing import Pool
def count(name):
    return len(open(name).readlines())
if __name__ == "__main__":
    with Pool(2) as pool:
        print(pool.map(count, ["teil1.csv", "teil2.csv"]))
""", "--file teil"),
]
