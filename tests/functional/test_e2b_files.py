"""Files on their way to E2B's cloud and home again: every name, every kind, and no more than fits."""

import json
import textwrap

from e2b_engine import inside

# In the workspace, as bytes of names: how each entry looks.
LOOK = """
import stat
def look(workspace):
    found = {}
    for path, folders, names, fd in os.fwalk(b".", dir_fd=workspace):
        for name in folders + names:
            st = os.stat(name, dir_fd=fd, follow_symlinks=False)
            kind = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo"}[stat.S_IFMT(st.st_mode)]
            found[os.path.join(path, name)[2:].decode("utf-8", "backslashreplace")] = [kind, oct(st.st_mode & 0o777), st.st_size]
    return found
"""


def test_names_go_there_and_come_home_byte_for_byte(machine, cloud):
    names = ["plain", "with space", "é", "-dash", 'quo"te', "back\\slash", "per%41cent", "semi;colon", "deep/er/file", "n" * 255]
    told = inside(machine, LOOK + textwrap.dedent("""
        import sys
        names = [os.fsencode(name) for name in json.loads(sys.argv[1])] + [b"new\\nline", b"bad\\xff", b"esc\\x1b[31m"]
        code = "import os; open(b'all', 'wb').write(b'\\\\0'.join(sorted(os.listdir(b'.')))); [open(b + b'+', 'w').write('x')" \\
               " for b in os.listdir(b'.') if len(b) < 255 and os.path.isfile(b)]"
        with Sandbox() as sandbox:
            errors = [sandbox.put(os.fsdecode(name), name).error for name in names]
            output = sandbox.python(code)
            listed = open(os.open("all", os.O_RDONLY, dir_fd=sandbox.workspace), "rb").read().split(b"\\0")
            missing = [name for name in names if name.split(b"/")[0] not in listed]
            home = os.listdir(os.fsencode(f"/proc/self/fd/{sandbox.workspace}"))
            lost = [name for name in names if b"/" not in name and len(name) < 255 and name + b"+" not in home]
        print(json.dumps([errors, output.exited[:2], [str(name) for name in missing], [str(name) for name in lost]]))
    """), json.dumps(names))
    assert told == [[0] * (len(names) + 3), [1, 0], [], []]


def test_every_kind_comes_home_as_what_it_is(machine, cloud):
    told = inside(machine, LOOK + textwrap.dedent("""
        code = "import os; os.makedirs('a/b'); open('a/b/c', 'w').write('deep'); os.makedirs('empty'); " \
               "os.symlink('/etc/shadow', 'link'); os.mkfifo('fifo'); os.link('a/b/c', 'hard'); open('private', 'w').write('x'); " \
               "os.chmod('private', 0o600); f = open('sparse', 'wb'); f.seek(1 << 40); f.write(b'end'); " \
               "os.makedirs('closed/in'); open('closed/in/f', 'w').write('x'); os.chmod('closed/in/f', 0); os.chmod('closed', 0)"
        with Sandbox() as sandbox:
            output = sandbox.python(code)
            found = look(sandbox.workspace)
            sparse = os.stat("sparse", dir_fd=sandbox.workspace).st_blocks
        print(json.dumps([output.exited[:2], output.stderr.decode(), found, sparse]))
    """))
    exited, errors, found, sparse = told
    assert (exited, errors) == ([1, 0], "")
    assert found["a/b/c"] == ["file", "0o644", 4] and found["hard"] == ["file", "0o644", 4]
    assert found["empty"][0] == "folder" and found["link"][0] == "link" and found["fifo"][0] == "fifo"
    assert found["private"] == ["file", "0o600", 1]
    assert found["closed/in/f"][2] == 1
    assert found["sparse"] == ["file", "0o644", (1 << 40) + 3] and sparse < 1000


def test_input_that_nobody_changed_stays_as_it_was_put(machine, cloud):
    told = inside(machine, """
        def look(name):
            st = os.stat(name, dir_fd=sandbox.workspace)
            return [st.st_ino, st.st_size, st.st_ctime_ns, st.st_mtime_ns]
        def put(name):
            done = sandbox.put(name, b"content")
            return [done.inode, done.size, done.ctime_sec * 10**9 + done.ctime_nsec, done.mtime_sec * 10**9 + done.mtime_nsec]
        with Sandbox() as sandbox:
            before = [put("same"), put("changed"), put("touched")]
            sandbox.run(["sh", "-c", "cat same; printf CONTENT >changed; touch touched"])
            after = [look("same"), look("changed"), look("touched")]
            content = open(os.open("changed", os.O_RDONLY, dir_fd=sandbox.workspace)).read()
        print(json.dumps([[a == b for a, b in zip(before, after)], content]))
    """)
    assert told == [[True, False, False], "CONTENT"]


def test_large_file_and_two_thousand_small_ones_come_home(machine, cloud):
    told = inside(machine, """
        code = "import os; os.mkdir('many'); [open(f'many/{i}', 'w').write(str(i)) for i in range(2000)]; " \\
               "f = open('large', 'wb'); [f.write(os.urandom(1 << 20)) for _ in range(100)]; f.close()"
        with Sandbox(workspaceBytes=256 << 20, workspaceInodes=5000) as sandbox:
            output = sandbox.python(code, timeout=120)
            many = os.open("many", os.O_RDONLY, dir_fd=sandbox.workspace)
            same = sum(open(os.open(name, os.O_RDONLY, dir_fd=many)).read() == name for name in os.listdir(many))
            size = os.stat("large", dir_fd=sandbox.workspace).st_size
        print(json.dumps([output.exited[:2], output.stderr.decode(), same, size]))
    """, timeout=150)
    assert told == [[1, 0], "", 2000, 100 << 20]


def test_what_does_not_fit_is_named_and_the_rest_is_kept(machine, cloud):
    told = inside(machine, """
        with Sandbox(workspaceBytes=8 << 20) as sandbox:
            output = sandbox.run(["sh", "-c", "head -c 20000000 /dev/urandom >big; echo small >z; echo small >a"])
            files = sorted(os.listdir(sandbox.workspace))
        print(json.dumps([output.exited[:2], output.stderr.decode(), files]))
    """)
    exited, errors, files = told
    assert exited == [1, 0] and files == ["a", "z"]
    assert errors == ("sbxctl: 'big' (19.1 MiB) did not fit into the workspace on this machine and is lost, "
                      "as is what is larger.\n")


def test_input_larger_than_the_workspace_is_refused_before_anything_is_sent(machine, cloud):
    told = inside(machine, """
        with Sandbox(workspaceBytes=1 << 20) as sandbox:
            print(json.dumps([sandbox.put("large", bytes(2 << 20)).error, sandbox.put("small", b"x").error,
                              sandbox.put("../out", b"x").error, sandbox.put("small", b"x").error]))
    """)
    assert told == [28, 0, 22, 17]
    assert "files.upload" not in cloud.operations()


def test_files_of_a_run_that_is_killed_come_home(machine, cloud):
    told = inside(machine, """
        with Sandbox() as sandbox:
            to, out, err = sandbox.go(["sh", "-c", "echo kept >kept; echo ready; sleep 1000"])
            os.read(out, 10)
            ended = sandbox.kill()
            print(json.dumps([ended["cleaned"], os.listdir(sandbox.workspace)]))
    """)
    assert told == [True, ["kept"]]
    cloud.wait_until_empty()
