"""Python by E2B's code interpreter: what is shown comes home, and all else is as with Python itself."""

import base64
import json

import pytest
from e2b_engine import inside

RUN = """
import base64, sys
with Sandbox(image="code-interpreter-v1") as sandbox:
    sandbox.put("script.py", sys.argv[1].encode(), 0o755)
    sandbox.put("input", b"content")
    output = sandbox.run(["python3", "script.py", *sys.argv[2:]], timeout=60)
    files = {name: base64.b64encode(open(os.open(name, os.O_RDONLY, dir_fd=sandbox.workspace), "rb").read()).decode()
             for name in os.listdir(sandbox.workspace) if name not in ("script.py", "input")}
print(json.dumps([output.exited[:2], output.stdout.decode(), output.stderr.decode(), files]))
"""

def interpreted(machine, cloud, script, *arguments):
    told = inside(machine, RUN, script, *arguments, timeout=90)
    assert "execute" in cloud.operations()
    return told

def test_shown_things_become_files_and_the_last_value_is_printed(machine, cloud):
    script = """
class Figure:
    def __repr__(self): return "<Figure>"
    def _repr_png_(self): return b"\\x89PNG"
    def _repr_svg_(self): return "<svg/>"
class Table:
    def __repr__(self): return "a  b"
    def _repr_html_(self): return "<table/>"
from IPython.display import display
display(Figure())
print("printed")
Table()
"""
    exited, stdout, stderr, files = interpreted(machine, cloud, script)
    assert (exited, stderr) == ([1, 0], "")
    assert stdout.split("\n") == ["printed", "a  b", ""]
    assert {name: base64.b64decode(data) for name, data in files.items()} == {
        "display-1.png": b"\x89PNG", "display-1.svg": b"<svg/>", "display-2.html": b"<table/>"}

def test_script_runs_as_with_python_itself(machine, cloud):
    script = """from __future__ import annotations
import os, sys
print(sys.argv, __name__, os.getcwd(), open("input").read(), os.path.basename(__file__))
open("out", "w").write("x")
print("err", file=sys.stderr)
sys.exit(3)
"""
    exited, stdout, stderr, files = interpreted(machine, cloud, script, "a b", 'q"')
    assert exited == [1, 3]
    assert stdout == "['script.py', 'a b', 'q\"'] __main__ /workspace content script.py\n"
    assert stderr == "err\n"
    assert list(files) == ["out"]

@pytest.mark.parametrize("script, line", [("x = 1\n\ndef f(\n", 3), ("def f():\n    return 1 / 0\n\nf()\n", 2)], ids=["syntax", "runtime"])
def test_error_is_told_with_its_line(machine, cloud, script, line):
    exited, _, stderr, _ = interpreted(machine, cloud, script)
    assert exited == [1, 1]
    assert f'script.py", line {line}' in stderr
    assert "_sbxctl" not in stderr and "Error" in stderr

def test_requests_are_as_few_as_without_it(machine, cloud):
    interpreted(machine, cloud, "print(1)")
    machine.wait_for(lambda: cloud.operations().count("get") == 2, 10, "the last request")
    operations = cloud.operations()
    assert sorted(operations[1:3]) == ["files.upload", "get"]  # at once
    assert operations[:1] + operations[3:] == ["create", "execute", "process.start", "delete", "get"]

def test_template_without_an_interpreter_runs_it_all_the_same(machine, cloud):
    cloud.settings(templates={"code-interpreter-v1": False})
    exited, stdout, _, _ = interpreted(machine, cloud, "print(1)")
    assert (exited, stdout) == ([1, 0], "1\n")

def test_program_with_input_has_it(machine, cloud):
    told = inside(machine, """
        with Sandbox(image="code-interpreter-v1") as sandbox:
            sandbox.put("script.py", b"print(input())")
            to, out, err = sandbox.go(["python3", "script.py"])
            os.write(to, b"given\\n")
            stdout, _ = read_all([out, err], 30)
            os.close(to)
        print(json.dumps(stdout.decode()))
    """)
    assert told == "given\n"

@pytest.mark.parametrize("fault", [{"do": "cut", "after": 1}, {"do": "omit", "kinds": ["end_of_execution", "end"]}], ids=str)
def test_execution_without_its_end_is_lost(machine, cloud, fault):
    cloud.fault("execute", **fault)
    told = inside(machine, """
        with Sandbox(image="code-interpreter-v1") as sandbox:
            sandbox.put("script.py", b"import time; print(1, flush=True); time.sleep(2)")
            to, out, err = sandbox.go(["python3", "script.py"])
            os.close(to)
            print(json.dumps(sandbox.hear(60)[0]))
    """, timeout=90)
    assert (told["type"], told["phase"]) == ("error", "lost")
    cloud.wait_until_empty()

def test_interpreter_that_is_killed_is_not_a_success(machine, cloud):
    told = inside(machine, """
        with Sandbox(image="code-interpreter-v1") as sandbox:
            sandbox.put("script.py", b"import os; os.kill(os.getpid(), 9)")
            to, out, err = sandbox.go(["python3", "script.py"])
            os.close(to)
            print(json.dumps(sandbox.hear(60)[0]))
    """, timeout=90)
    assert (told["type"], told["phase"]) == ("error", "lost")
    cloud.wait_until_empty()
