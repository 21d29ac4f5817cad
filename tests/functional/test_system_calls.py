"""The system calls that a program in a sandbox is refused (helper/launch/seccomp-gen.c), one by one.

What the kernel would refuse by itself to somebody without privileges is in here too: the filter is what
counts when there is a hole behind such a call. That ordinary programs miss nothing is the subject of
test_standard_library.py and test_interpreters.py.
"""

import json
import pathlib
import re

import pytest

GENERATOR = pathlib.Path(__file__).parents[2] / "helper/launch/seccomp-gen.c"

# Refused whatever the arguments. What libseccomp does not know, the filter does not either.
REFUSED = """
    ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd
    migrate_pages move_pages
    bpf io_uring_setup io_uring_enter io_uring_register perf_event_open userfaultfd memfd_secret
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    keyctl add_key request_key
    chroot setns unshare mount umount2 pivot_root fsopen fsconfig fsmount fspick open_tree move_mount
    mount_setattr
    name_to_handle_at open_by_handle_at lookup_dcookie fanotify_init fanotify_mark
    acct adjtimex clock_adjtime clock_settime settimeofday create_module init_module finit_module
    delete_module get_kernel_syms query_module kexec_load kexec_file_load iopl ioperm modify_ldt nfsservctl
    quotactl quotactl_fd reboot sethostname setdomainname swapon swapoff syslog sysfs uselib ustat vhangup
    _sysctl capset
""".split()

# Calls of newer kernels than a libseccomp of today knows: ENOSYS, as in an older kernel, lets a program
# fall back. Once libseccomp knows those that are on the list of the refused they answer EPERM.
NEWER = {"statmount": 457, "listmount": 458, "lsm_set_self_attr": 460, "setxattrat": 463,
         "open_tree_attr": 467, "file_setattr": 469, "a call that does not exist": 1000, "nor this one": 9999}

NAMESPACES = {"NEWNS": 0x00020000, "NEWCGROUP": 0x02000000, "NEWUTS": 0x04000000, "NEWIPC": 0x08000000,
              "NEWUSER": 0x10000000, "NEWPID": 0x20000000, "NEWNET": 0x40000000}  # fmt: skip

# A call that is allowed, with arguments that are not: number or name, arguments, error.
ARGUMENTS = {
    "clone3": ("clone3", (0, 0), "ENOSYS"),  # its flags are in memory, where no filter sees them
    "personality": ("personality", (0x0040000,), "ENOSYS"),
    "chmod u+s": ("chmod", ("/workspace", 0o4755), "EPERM"),
    "chmod g+s": ("chmod", ("/workspace", 0o2755), "EPERM"),
    "create u+s": ("open", ("/workspace/x", 0o101, 0o4755), "EPERM"),
    "TIOCSTI": ("ioctl", (0, 0x5412, 0), "EPERM"),
    "TIOCLINUX": ("ioctl", (0, 0x541C, 0), "EPERM"),
    "TIOCSETD": ("ioctl", (0, 0x5423, 0), "EPERM"),
    "TIOCSTI, high bits": ("ioctl", (0, (1 << 32) + 0x5412, 0), "EPERM"),
    "mmap of huge pages": ("mmap", (0, 1 << 21, 3, 0x40022, -1, 0), "ENOMEM"),
    "memfd of huge pages": ("memfd_create", ("x", 4), "ENOMEM"),
    "shared memory of huge pages": ("shmget", (0, 1 << 21, 0o4600), "ENOMEM"),
    "netlink audit": ("socket", (16, 3, 9), "EPROTONOSUPPORT"),
    "netlink netfilter": ("socket", (16, 3, 12), "EPROTONOSUPPORT"),
    "sctp": ("socket", (2, 1, 132), "EPROTONOSUPPORT"),
    "sctp, high bits": ("socket", (2, 1, (1 << 32) + 132), "EPROTONOSUPPORT"),
    "packet socket, high bits": ("socket", ((1 << 32) + 17, 3, 0), "EAFNOSUPPORT"),
    "netlink audit, high bits": ("socket", (16, 3, (1 << 32) + 9), "EPROTONOSUPPORT"),
    "chmod u+s, high bits": ("chmod", ("/workspace", (1 << 32) + 0o4755), "EPERM"),
    "clone with CLONE_NEWUSER, high bits": ("clone", ((1 << 32) + 0x10000011, 0, 0, 0, 0), "EPERM"),
    "mptcp": ("socket", (10, 1, 262), "EPROTONOSUPPORT"),
    "raw socket": ("socket", (2, 3, 1), "EPERM"),
    "packet socket": ("socket", (17, 3, 0), "EAFNOSUPPORT"),
    "pair of tipc sockets": ("socketpair", (30, 1, 0, "12345678"), "EAFNOSUPPORT"),
    "pair of vsockets": ("socketpair", (40, 1, 0, "12345678"), "EAFNOSUPPORT"),
    **{
        f"clone with CLONE_{name}": ("clone", (flag | 17, 0, 0, 0, 0), "EPERM")
        for name, flag in NAMESPACES.items()
    },
    **{
        f"unshare of CLONE_{name}": ("unshare", (flag,), "EPERM")
        for name, flag in (NAMESPACES | {"NEWTIME": 0x80}).items()
    },
    # Unix, IPv4, IPv6 and netlink are allowed.
    **{
        f"socket family {family}": ("socket", (family, 3, 0), "EAFNOSUPPORT")
        for family in [*range(50), 200, 1 << 31]
        if family not in (1, 2, 10, 16)
    },
}

CALL = """
import ctypes, errno, json, re, sys
header = open("/usr/include/x86_64-linux-gnu/asm/unistd_64.h").read()
numbers = {name: int(number) for name, number in re.findall(r"#define __NR_(\\w+) (\\d+)", header)}
libc = ctypes.CDLL(None, use_errno=True)
answers = {}
for name, (call, arguments) in json.load(sys.stdin).items():
    number = call if isinstance(call, int) else numbers[call]
    words = [a.encode() if isinstance(a, str) else ctypes.c_long(a) for a in arguments]
    result = libc.syscall(number, *words)
    answers[name] = errno.errorcode[ctypes.get_errno()] if result == -1 else "success"
print(json.dumps(answers))
"""


def answers(machine, calls):
    """Makes the calls in a sandbox; returns the error of each, by its name."""
    path = machine.script(CALL)
    result = machine.sbxctl(["run", path], input=json.dumps(calls).encode())
    assert result.status == 0, result
    return json.loads(result.stdout)


def test_dangerous_system_calls_are_refused(machine):
    assert answers(machine, {name: (name, [0] * 6) for name in REFUSED}) == dict.fromkeys(REFUSED, "EPERM")


def test_every_call_on_the_list_is_tried():
    source = GENERATOR.read_text()
    block = re.search(r"refused\[\] = \{(.*?)\n\};", source, re.DOTALL).group(1)
    listed = set(" ".join(re.findall(r'"([^"]*)"', block)).split())
    # Calls of 32-bit x86, and some that are too new to have a number in the machine's headers.
    assert listed - set(REFUSED) == {"umount", "stime", "vm86", "vm86old", "statmount", "listmount"}


def test_allowed_calls_with_dangerous_arguments_are_refused(machine):
    calls = {name: (call, arguments) for name, (call, arguments, _) in ARGUMENTS.items()}
    expected = {name: error for name, (_, _, error) in ARGUMENTS.items()}
    assert answers(machine, calls) == expected


def test_newer_calls_look_like_those_of_an_older_kernel(machine):
    found = answers(machine, {name: (number, [0] * 6) for name, number in NEWER.items()})
    known = {name for name, error in found.items() if error == "EPERM"}
    assert known <= {"statmount", "listmount"}
    assert {error for name, error in found.items() if name not in known} == {"ENOSYS"}


# getpid by each of the other two ways into this kernel.
X32 = "ctypes.CDLL(None).syscall(0x40000000 + 39)"
I386 = """
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000" "cd80" "c3"))
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
"""


@pytest.mark.parametrize("way", [X32, I386], ids=["x32", "i386"])
def test_calls_of_another_architecture_kill_the_program(machine, way):
    result = machine.run_json(["-c", f"import ctypes, mmap\nprint('up', flush=True)\n{way}\nprint('back')"])
    assert (result["status"], result["signal"]) == ("killed", "SIGSYS"), result
    assert result["stdout"]["text"] == "up\n"


def test_programs_may_restrict_themselves(machine):
    calls = {"landlock": ("landlock_create_ruleset", (0, 0, 1)), "seccomp": ("seccomp", (2, 0, "\1\1\1\1\1\1\1\1")),
             "own personality": ("personality", (0xFFFFFFFF,))}  # fmt: skip
    found = answers(machine, calls)
    assert "EPERM" not in found.values(), found
    assert found["own personality"] == "success" and found["landlock"] in ("success", "EOPNOTSUPP"), found
