"""The ways to run a Python program that are compared: ours, and what people would use instead, with the same limits and the same
hardening as far as each can be asked for it. Each function makes a command of a program's text.

Where a folder is given, the program finds its input there and leaves its files in it, as far as the way has a folder that is shared;
where none is, it works in memory. Imported by what runs in the test machine, as root.
"""

IMAGE = "sbxctl-bench"
INPUT = "input"  # the name of the input file, if there is one
USER = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--", "env", "HOME=/home/alice"]
RUN = ["sbxctl", "run", "--quiet"]
DOCKER = ["--engine", "docker"]
# No sandbox that waits has it, so one is made for the run; nothing else is different.
NEW_SANDBOX = ["--memory", "511M"]
# A sandbox waits, but no interpreter that has it.
NEW_INTERPRETER = ["--env", "A=B"]

# What sbxctl-engine-systemd asks for (helper/engine/systemd/unit-start.c), as far as systemd-run can say it; the filter of system
# calls is the launcher's there.
HARDENING = """
DynamicUser=yes RootDirectory=/usr/lib/sbxctl/root MountAPIVFS=yes BindReadOnlyPaths=/usr BindReadOnlyPaths=/etc
WorkingDirectory=/workspace PrivateNetwork=yes PrivateUsers=yes PrivateIPC=yes PrivateDevices=yes PrivateMounts=yes
PrivatePIDs=yes BindLogSockets=no ProtectSystem=strict ProtectKernelTunables=yes ProtectKernelModules=yes ProtectKernelLogs=yes
ProtectControlGroups=yes ProtectClock=yes ProtectHostname=yes ProtectProc=invisible NoNewPrivileges=yes CapabilityBoundingSet=
RestrictNamespaces=yes RestrictRealtime=yes RestrictSUIDSGID=yes RemoveIPC=yes KeyringMode=private LockPersonality=yes
SystemCallFilter=@system-service InaccessiblePaths=-+/sys/fs/cgroup InaccessiblePaths=-+/dev/pts InaccessiblePaths=-+/dev/mqueue
InaccessiblePaths=-+/dev/hugepages TemporaryFileSystem=/dev/shm:mode=1777 MemoryMax=512M CPUQuota=100% TasksMax=256
RuntimeMaxSec=60
""".split()
SYSTEMD_RUN = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--setenv=HOME=/tmp"]
BWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr",
         "--ro-bind", "/etc", "/etc", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
         "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--clearenv",
         "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/tmp", "--chdir", "/workspace"]
CONTAINER = ["docker", "run", "--rm", "--network=none", "--memory=512m", "--cpus=1.0"]
# As tools for assistants do it today: a work directory, mounted, and the program's output read by asyncio.
HELPER = """
import asyncio, os, pathlib, shutil, sys, tempfile
async def main(image, program, *inputs):
    with tempfile.TemporaryDirectory() as work:
        pathlib.Path(work, "script.py").write_text(program)
        for path in inputs:
            shutil.copy(path, work)
        process = await asyncio.create_subprocess_exec(
            "docker", "run", "--rm", "--network=none", "--memory=512m", "--cpus=1.0", "-v", f"{work}:/workspace", "-w", "/workspace",
            image, "python3", "script.py", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        stdout, _ = await asyncio.wait_for(process.communicate(), 60)
        sys.stdout.write(stdout.decode())
        return os.listdir(work)
asyncio.run(main(*sys.argv[1:]))
"""


def bare(program, folder=None, has_input=False):
    return [*USER, "python3", "-c", program]


def sbxctl(*options):
    def command(program, folder=None, has_input=False):
        files = ["--file", f"{folder}/{INPUT}:{INPUT}"] if has_input else []
        return [*USER, *RUN, *options, *files, "-c", program]
    return command


def systemd_run(program, folder=None, has_input=False):
    workspace = f"BindPaths={folder}:/workspace" if folder else "TemporaryFileSystem=/workspace:mode=0777"
    options = [word for value in [*HARDENING, workspace] for word in ("-p", value)]
    return [*SYSTEMD_RUN, *options, "python3", "-c", program]


def bwrap(program, folder=None, has_input=False):
    workspace = ["--bind", folder, "/workspace"] if folder else ["--tmpfs", "/workspace"]
    return [*USER, *BWRAP, *workspace, "python3", "-c", program]


def docker_run(program, folder=None, has_input=False):
    workspace = ["-v", f"{folder}:/workspace", "-w", "/workspace"] if folder else []
    return [*CONTAINER, *workspace, IMAGE, "python3", "-c", program]


def asyncio_helper(program, folder=None, has_input=False):
    return ["python3", "-c", HELPER, IMAGE, program, *([f"{folder}/{INPUT}"] if has_input else [])]


WAYS = {
    "bare python3": bare,
    "warm": sbxctl(),
    "warm, own interpreter": sbxctl(*NEW_INTERPRETER),
    "cold": sbxctl(*NEW_SANDBOX),
    "systemd-run": systemd_run,
    "bwrap": bwrap,
    "docker engine, warm": sbxctl(*DOCKER),
    "docker engine, cold": sbxctl(*DOCKER, *NEW_SANDBOX),
    "docker run": docker_run,
    "asyncio helper": asyncio_helper,
}
