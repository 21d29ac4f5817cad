"""The main job: an ordinary user's script runs on real data, and the results are the caller's alone."""

import json

EXAMPLE = "/usr/share/sbxctl/examples/packages.py"


def run_example(machine):
    result = machine.run_json(["--file", "/var/lib/dpkg/status", EXAMPLE])
    assert result["status"] == "succeeded", result
    return result


def test_example_prints_a_table_and_leaves_csv_and_png(machine):
    result = run_example(machine)
    assert "python" in result["stdout"]["text"]
    names = {file["name"] for file in result["files"]}
    assert {"sections.csv", "sections.png"} <= names
    types = {file["name"]: file["type"] for file in result["files"]}
    assert types["sections.png"] == "image/png"


def test_the_chart_opens_as_a_picture(machine):
    result = run_example(machine)
    path = next(f["path"] for f in result["files"] if f["name"] == "sections.png")
    opened = machine.run(
        ["python3", "-c", f"import PIL.Image as i; p = i.open({path!r}); p.load(); print(p.size)"],
        user="alice",
        check=True,
    )
    width, height = eval(opened.text)
    assert width > 300 and height > 200


def test_results_belong_to_the_caller_alone(machine):
    result = run_example(machine)
    directory = result["outputDirectory"]
    assert directory == f"/var/lib/sbxctl/users/1000/{result['id']}"
    owners = machine.run(["find", directory, "-printf", "%u %m %y\n"], check=True).text
    assert {line.split()[0] for line in owners.splitlines()} == {"alice"}
    assert all(line.split()[1] in ("700", "600") for line in owners.splitlines())
    for path in [directory, directory + "/run.json", result["stdout"]["path"]]:
        assert machine.run(["ls", "-l", path], user="bob").status != 0
        assert machine.run(["cat", path], user="bob").status != 0
    assert machine.run(["ls", "/var/lib/sbxctl/users"], user="bob").status != 0


def test_run_json_is_the_result(machine):
    result = run_example(machine)
    kept = json.loads(machine.read(result["outputDirectory"] + "/run.json", user="alice"))
    assert kept == result


def test_caller_can_remove_results_without_the_helper(machine):
    result = run_example(machine)
    machine.run(["rm", "-r", result["outputDirectory"]], user="alice", check=True)
    assert machine.sbxctl(["rm", result["id"]]).status == 0


def test_unchanged_inputs_are_no_outputs_and_the_script_is_kept(machine):
    result = run_example(machine)
    assert "status" not in {file["name"] for file in result["files"]}
    assert machine.read(result["outputDirectory"] + "/script", user="alice") == machine.read(EXAMPLE)


def test_case_26_a_changed_input_is_an_output(machine):
    path = machine.script("a;b\n1;2\n", name="data.csv")
    result = machine.run_json(["--file", path, "-c", "open('data.csv', 'w').write('a;b\\n3;4\\n')"])
    assert [file["name"] for file in result["files"]] == ["data.csv"]
    assert machine.read(result["files"][0]["path"], user="alice") == b"a;b\n3;4\n"
    assert machine.read(path, user="alice") == b"a;b\n1;2\n"


def test_case_26_a_shell_that_changes_an_input_at_once_is_seen(machine):
    path = machine.script("aaaa\n", name="data.csv")
    result = machine.run_json(["--language", "shell", "--file", path, "-c", "echo bbbb >data.csv"])
    assert [file["name"] for file in result["files"]] == ["data.csv"]


def test_case_27_a_second_run_finds_nothing_of_the_first(machine):
    first = "open('left', 'w'); open('/tmp/left', 'w'); open('/dev/shm/left', 'w')"
    assert machine.run_json(["-c", first])["status"] == "succeeded"
    # In the cloud the engine has a folder there, called like the run.
    second = ("import os; print(sorted(name for name in os.listdir('.') + os.listdir('/tmp') + os.listdir('/dev/shm') "
              "if not name.startswith('.sbxctl-')))")
    assert machine.run_json(["-c", second])["stdout"]["text"] == "['script']\n"


def test_output_directory_option_copies_the_files(machine):
    target = machine.directory()
    made = machine.sbxctl(["run", "-o", target, "-c", "open('x.txt', 'w').write('hello')"])
    assert made.status == 0, made
    assert machine.read(target + "/x.txt", user="alice") == b"hello"
