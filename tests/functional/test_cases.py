"""CASES: what users of such tools have reported, each behaving as it should."""

import json

import pytest


def test_case_01_endless_loop_is_timed_out_and_leaves_no_process(machine):
    result = machine.run_json(["--timeout", "2s", "-c", "while True: pass"])
    assert result["status"] == "timed_out"
    assert "2 s" in result["reason"] and "--timeout" in result["hint"]
    assert machine.run(["pgrep", "-f", "/workspace/script"]).status == 1


def test_case_01_timed_out_run_has_its_own_exit_status(machine):
    assert machine.sbxctl(["run", "--timeout", "1s", "-c", "while True: pass"]).status == 124


DAEMON = """
import os, sys, time
print("main is done", flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
"""


def test_case_02_a_daemon_left_behind_does_not_delay_the_result(machine):
    result = machine.run_json(["-c", DAEMON])
    assert result["status"] == "succeeded"
    assert result["stdout"]["text"] == "main is done\n"
    assert result["leftovers"] == 1
    assert "left behind" in result["reason"]
    assert result["usage"]["wallUSec"] < 5_000_000


def test_case_03_unflushed_text_before_a_time_out_is_in_the_result(machine):
    script = "import time\nprint('early')\nwhile True: time.sleep(1)"
    result = machine.run_json(["--timeout", "2s", "-c", script])
    assert (result["status"], result["stdout"]["text"]) == ("timed_out", "early\n")


def test_case_04_sleeping_is_ended_by_the_wall_clock_and_both_times_are_shown(machine):
    result = machine.run_json(["--timeout", "2s", "-c", "import time; time.sleep(3600)"])
    assert result["status"] == "timed_out"
    assert 2_000_000 <= result["usage"]["wallUSec"] < 6_000_000
    assert result["usage"]["cpuUSec"] < 1_500_000
    assert "CPU time" in result["reason"]


def test_case_05_missing_interpreter_is_a_clear_error_with_its_own_status(machine):
    language = "[Language cobol]\nInterpreter=cobol-not-here\nExtensions=.cob\n"
    with machine.configured(language):
        result = machine.run_json(["--language", "cobol", "-c", "DISPLAY 'X'."])
        assert result["status"] == "failed" and result["exitCode"] == 127
        assert "cobol-not-here" in result["reason"]
        assert machine.sbxctl(["run", "--language", "cobol", "-c", "x"]).status == 127


def test_case_06_reading_stdin_when_none_was_given_sees_end_of_file(machine):
    result = machine.sbxctl(["run", "-c", "import sys; print(repr(sys.stdin.read()))"])
    assert (result.status, result.text) == (0, "''\n")


def test_case_13_out_of_memory_is_told_with_limit_and_peak(machine):
    result = machine.run_json(["-c", "bytearray(2 << 30)"])
    assert result["status"] == "out_of_memory"
    assert "512 MiB" in result["reason"] and "peak" in result["reason"]
    assert "--memory" in result["hint"]
    assert result["usage"]["memoryPeakBytes"] > 400 << 20
    ended = machine.sbxctl(["run", "-c", "bytearray(2 << 30)"])
    assert ended.status == 137
    assert "memory" in ended.errors


def test_case_14_a_childs_oom_kill_is_mentioned(machine):
    script = """
import subprocess, sys
child = subprocess.run([sys.executable, "-c", "bytearray(2 << 30)"])
sys.exit(1)
"""
    result = machine.run_json(["-c", script])
    assert (result["status"], result["exitCode"]) == ("failed", 1)
    assert result["oomKills"] >= 1 and "memory" in result["reason"]


def test_case_15_killing_itself_is_no_out_of_memory(machine):
    result = machine.run_json(["-c", "import os; os.kill(os.getpid(), 9)"])
    assert (result["status"], result["signal"]) == ("killed", "SIGKILL")
    # A cloud does not tell.
    assert ("not for memory" in result["reason"]) == (machine.engine != "e2b")
    ended = machine.sbxctl(["run", "-c", "import os; os.kill(os.getpid(), 9)"])
    assert ended.status == 137 and "signal 9" in ended.errors


POOLS = """
import multiprocessing, os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pool, shared_memory

def square(x):
    return x * x

if __name__ == "__main__":
    with ProcessPoolExecutor(2) as executor:
        print(list(executor.map(square, range(4))))
    with Pool(2) as pool:
        print(pool.map(square, range(4)))
    memory = shared_memory.SharedMemory(create=True, size=1 << 20)
    memory.buf[0] = 1
    memory.close(); memory.unlink()
    import joblib
    print(joblib.Parallel(n_jobs=2)(joblib.delayed(square)(i) for i in range(4)))
    print(os.cpu_count())
"""


def test_case_18_pools_semaphores_and_shared_memory_work(machine):
    result = machine.run_json([machine.script(POOLS)], timeout=120)
    assert result["status"] == "succeeded", result
    assert result["stdout"]["text"] == "[0, 1, 4, 9]\n" * 3 + "1\n"
    assert result["stderr"]["text"] == ""


def test_case_19_matplotlib_warns_of_nothing_and_saves_figures(machine):
    script = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
plt.savefig("figure.png")
plt.show()
"""
    result = machine.run_json([machine.script(script)], timeout=120)
    assert result["status"] == "succeeded", result
    assert result["stderr"]["text"] == ""
    assert [file["name"] for file in result["files"]] == ["figure.png"]


def test_case_20_emoji_and_cjk_are_printed_in_a_utf8_locale(machine):
    script = "import locale; print('\\N{GRINNING FACE} \\u6f22\\u5b57', locale.getpreferredencoding())"
    assert machine.run_json(["-c", script])["stdout"]["text"] == "😀 漢字 UTF-8\n"


def test_case_21_pip_without_a_network_gives_up_at_once_and_the_option_is_named(machine):
    options = ["--language", "shell", "-c", "pip install x"]
    result = machine.run_json(options)
    assert result["status"] == "failed"
    assert result["usage"]["wallUSec"] < 6_000_000 * machine.patience
    assert "no network" in result["hint"] and "--network" in result["hint"], result
    shown = machine.sbxctl(["run", *options])
    assert result["hint"] in shown.errors


@pytest.mark.parametrize(
    "language, script",
    [
        ("python", "import urllib.request; urllib.request.urlopen('http://example.org')"),
        ("python", "import socket; socket.create_connection(('192.0.2.1', 80))"),
        ("node", "fetch('http://example.org')"),
        ("ruby", "require 'net/http'; Net::HTTP.get(URI('http://example.org'))"),
    ],
    ids=["python", "python, by address", "node", "ruby"],
)
def test_case_21_a_failure_for_want_of_a_network_names_the_option(machine, language, script):
    result = machine.run_json(["--language", language, "-c", script])
    assert result["status"] == "failed"
    assert "no network" in result["hint"] and "--network" in result["hint"], result


# ---- Scripts that must simply work ----


def test_script_a_semicolon_latin1_csv_is_grouped_by_month(machine):
    data = "Datum;Ort;Betrag\n03.01.2026;K\xf6ln;1,50\n07.01.2026;Z\xfcrich;2,50\n02.02.2026;K\xf6ln;4,00\n"
    path = machine.script(data.encode("latin-1"), name="sales.csv")
    script = """
import pandas
table = pandas.read_csv("sales.csv", sep=";", decimal=",", encoding="latin-1")
table["Monat"] = pandas.to_datetime(table["Datum"], dayfirst=True).dt.strftime("%Y-%m")
summary = table.groupby("Monat")["Betrag"].sum()
print(summary.to_string())
summary.to_csv("summary.csv")
"""
    result = machine.run_json(["--file", path, machine.script(script)], timeout=120)
    assert result["status"] == "succeeded", result
    assert "2026-01    4.0" in result["stdout"]["text"]
    kept = machine.read(result["files"][0]["path"], user="alice")
    assert kept == b"Monat,Betrag\n2026-01,4.0\n2026-02,4.0\n"


def test_script_b_bar_and_line_chart_is_saved_then_shown(machine):
    script = """
import matplotlib.pyplot as plt
figure, (left, right) = plt.subplots(1, 2)
left.bar(["a", "b"], [1, 2])
right.plot([3, 1, 2])
figure.savefig("charts.png")
plt.show()
"""
    result = machine.run_json([machine.script(script)], timeout=120)
    assert result["status"] == "succeeded", result
    assert machine.read(result["files"][0]["path"], user="alice").startswith(b"\x89PNG")


def test_script_c_excel_workbook_with_formulas(machine):
    script = """
import openpyxl
book = openpyxl.Workbook()
sheet = book.active
sheet.append(["item", "price"])
for row in (["tea", 2.5], ["coffee", 3.5]):
    sheet.append(row)
sheet["B4"] = "=SUM(B2:B3)"
book.save("prices.xlsx")
print(openpyxl.load_workbook("prices.xlsx").active["B4"].value)
"""
    result = machine.run_json([machine.script(script)], timeout=120)
    assert result["stdout"]["text"] == "=SUM(B2:B3)\n", result
    (file,) = result["files"]
    assert file["type"].endswith("spreadsheetml.sheet")
    assert machine.read(file["path"], user="alice").startswith(b"PK")


def test_script_d_sqlite_file_is_built_queried_and_kept(machine):
    script = """
import sqlite3
db = sqlite3.connect("data.sqlite")
db.execute("create table t (n integer, text text)")
db.executemany("insert into t values (?, ?)", [(i, f"row {i}") for i in range(1000)])
db.execute("create index i on t (n)")
db.commit()
print(db.execute("select count(*) from t where n >= 500").fetchone()[0])
"""
    result = machine.run_json([machine.script(script)])
    assert result["stdout"]["text"] == "500\n"
    assert machine.read(result["files"][0]["path"], user="alice").startswith(b"SQLite format 3")


def test_script_e_subprocesses_work_and_a_missing_tool_is_an_ordinary_error(machine):
    script = """
import subprocess
print(subprocess.run(["ls", "-la"], capture_output=True, text=True).returncode)
try:
    subprocess.run(["tool-that-is-not-there"])
except FileNotFoundError as error:
    print(error.filename)
"""
    result = machine.run_json([machine.script(script)])
    assert result["stdout"]["text"] == "0\ntool-that-is-not-there\n"


def test_script_f_asyncio_echo_server_on_loopback(machine):
    script = """
import asyncio

async def echo(reader, writer):
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()

async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("localhost", port)
    writer.write(b"hello\\n")
    print((await reader.readline()).decode().strip())

asyncio.run(main())
"""
    result = machine.run_json([machine.script(script)])
    assert result["stdout"]["text"] == "hello\n", result


def test_script_g_nested_directories_are_zipped(machine):
    script = """
import os, shutil
os.makedirs("a/b/c")
open("a/b/c/deep.txt", "w").write("deep")
shutil.make_archive("bundle", "zip", "a")
"""
    result = machine.run_json([machine.script(script)])
    assert sorted(file["name"] for file in result["files"]) == ["a/b/c/deep.txt", "bundle.zip"]


def test_script_h_menu_is_fed_from_stdin(machine):
    script = machine.script("name = input('Name? ')\nprint('Hello,', name)\n")
    result = machine.sbxctl(["run", script], input=b"Ada\n")
    assert (result.status, result.text) == (0, "Name? Hello, Ada\n")


def test_script_j_checkpoints_are_kept_at_the_time_out(machine):
    script = """
import os, signal, sys, time
def stop(*_):
    open("final.txt", "w").write("asked to stop")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
for step in range(1000):
    open("checkpoint.tmp", "w").write(f"step {step}")
    os.rename("checkpoint.tmp", "checkpoint.txt")
    time.sleep(1)
"""
    result = machine.run_json(["--timeout", "3500ms", machine.script(script)])
    assert result["status"] == "timed_out" and "--timeout" in result["hint"]
    kept = {f["name"]: machine.read(f["path"], user="alice") for f in result["files"]}
    assert kept == {"checkpoint.txt": b"step 3", "final.txt": b"asked to stop"}


def test_languages_are_told_by_shebang_extension_and_option(machine):
    scripts = {
        "hello.sh": "echo shell",
        "hello.js": "console.log('node')",
        "hello.pl": "print \"perl\\n\";",
        "hello.rb": "puts 'ruby'",
        "plain": "#!/usr/bin/env -S python3 -u\nprint('python')",
        "marked": "\ufeff#!/usr/bin/env python3\nprint('python')",
    }
    for name, text in scripts.items():
        result = machine.run_json([machine.script(text, name=name)])
        assert result["stdout"]["text"].strip() == result["language"], result
    unknown = machine.sbxctl(["run", machine.script("x", name="what.xyz")])
    assert unknown.status == 125 and "--language" in unknown.errors
    assert machine.sbxctl(["run", "--language", "perl", "-c", "print 4"]).text == "4"


def test_case_10_all_bytes_pass_and_the_json_stays_valid(machine):
    script = machine.script("import sys; sys.stdout.buffer.write(bytes(range(256)) * 3)")
    assert machine.sbxctl(["run", script]).stdout == bytes(range(256)) * 3
    raw = machine.sbxctl(["run", "--json", script]).stdout
    result = json.loads(raw)
    assert machine.read(result["stdout"]["path"], user="alice") == bytes(range(256)) * 3


def test_case_09_a_million_lines_are_kept_up_to_the_cap(machine):
    script = machine.script("for i in range(1000000): print('line number', i)")
    result = machine.run_json([script], timeout=120)
    assert result["status"] == "succeeded"
    out = result["stdout"]
    assert out["truncated"] and out["keptBytes"] == 8 << 20
    assert out["bytes"] == sum(len(f"line number {i}\n") for i in range(1000000))
