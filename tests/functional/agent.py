"""An authentication agent of polkit for one program, as a desktop has one: it tells what it is asked,
and answers as told. (pkttyagent, which sbxctl starts on a terminal, can neither be told to close a
dialog nor to wait.)"""

from conversation import Conversation

# Commands: {"grant": password}, {"dismiss": true}, {"refuse": true} for the dialog that is open,
# {"input": text} and {"kill": signal} for the program. Events: {"pid": …}, {"asked": {…}},
# {"closed": cookie} when polkit closes the dialog, {"output": …}, {"errors": …}, {"status": …}.
PROGRAM = r"""
import json, os, select, subprocess, sys
from jeepney import DBusAddress, MessageType, new_error, new_method_call, new_method_return
from jeepney.io.blocking import open_dbus_connection

PATH = "/io/sbxctl/TestAgent"
argv, locale, environment = json.loads(sys.argv[1])
bus = open_dbus_connection("SYSTEM")
go, go_end = os.pipe()
# The program waits until its agent is there.
child = subprocess.Popen(
    ["sh", "-c", f'read x <&{go}; exec {go}<&-; exec "$@"', "sh", *argv],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[go],
    env=os.environ | environment)
os.close(go)
open_call = cookie = None

def tell(**event):
    print(json.dumps(event), flush=True)

def register():
    start = int(open(f"/proc/{child.pid}/stat").read().rpartition(")")[2].split()[19])
    subject = ("unix-process", {"pid": ("u", child.pid), "start-time": ("t", start),
                                "uid": ("i", os.getuid())})
    authority = DBusAddress("/org/freedesktop/PolicyKit1/Authority", "org.freedesktop.PolicyKit1",
                            "org.freedesktop.PolicyKit1.Authority")
    reply = bus.send_and_get_reply(new_method_call(
        authority, "RegisterAuthenticationAgent", "(sa{sv})ss", (subject, locale, PATH)))
    assert reply.header.message_type == MessageType.method_return, reply.body

def finish(error=None):
    global open_call
    if open_call and error:
        bus.send(new_error(open_call, f"org.freedesktop.PolicyKit1.Error.{error}", "s", ("closed",)))
    elif open_call:
        bus.send(new_method_return(open_call))
    open_call = None

def take_call(message):
    global open_call, cookie
    if message.header.message_type != MessageType.method_call:
        return
    member = message.header.fields[3]
    if member == "BeginAuthentication":
        action, text, icon, details, cookie, identities = message.body
        open_call = message
        tell(asked={"action": action, "message": text, "details": details,
                    "uids": [i[1]["uid"][1] for i in identities if i[0] == "unix-user"]})
    elif member == "CancelAuthentication":
        bus.send(new_method_return(message))
        finish("Cancelled")
        tell(closed=message.body[0])

def authenticate(password):
    helper = subprocess.run(
        ["/usr/lib/polkit-1/polkit-agent-helper-1", password.get("user", os.environ["USER"])],
        input=f"{cookie}\n{password['text']}\n", capture_output=True, text=True)
    tell(helper=helper.stdout)
    finish()

def take_command(command):
    if "grant" in command:
        authenticate(command["grant"])
    if "dismiss" in command:
        finish("Cancelled")
    if "refuse" in command:
        finish()
    if "input" in command:
        child.stdin.write(command["input"].encode())
        child.stdin.flush()
    if "kill" in command:
        child.send_signal(command["kill"])

register()
tell(pid=child.pid)
os.close(go_end)
ended, commands = os.pidfd_open(child.pid), b""
names = {child.stdout.fileno(): "output", child.stderr.fileno(): "errors"}
watched = [0, bus.sock.fileno(), ended, *names]
told = False
while 0 in watched:
    if not told and not {ended, *names} & set(watched):
        told = True
        tell(status=child.wait())
    ready = select.select(watched, [], [])[0]
    for fd in set(names) & set(ready):
        data = os.read(fd, 65536)
        tell(**{names[fd]: data.decode("utf-8", "replace")}) if data else watched.remove(fd)
    if ended in ready:
        watched.remove(ended)
    if bus.sock.fileno() in ready:
        try:
            while True:
                take_call(bus.receive(timeout=0))
        except TimeoutError:
            pass
        except ConnectionResetError:
            watched.remove(bus.sock.fileno())
    if 0 in ready:
        commands += (data := os.read(0, 65536))
        if not data:
            watched.remove(0)
        *lines, commands = commands.split(b"\n")
        for line in lines:
            take_command(json.loads(line))
child.kill()
"""


class Agent(Conversation):
    """A program with an agent. `asked` are the dialogs so far (action, message, details, uids),
    `closed` those that polkit itself closed."""

    def __init__(self, machine, argv, user="alice", locale="C.UTF-8", session=False, **environment):
        super().__init__(machine, PROGRAM, [argv, locale, environment], user, session)
        self.argv = argv
        self.asked, self.closed, self.output, self.errors = [], [], "", ""
        self.status = self.pid = None
        self.wait(lambda: self.pid, 20, "the agent to be there")

    def __repr__(self):
        return (f"<{self.argv}: status {self.status}, asked {self.asked}, closed {self.closed}, "
                f"stdout {self.output!r}, stderr {self.errors!r}>")

    def take(self, event):
        self.output += event.pop("output", "")
        self.errors += event.pop("errors", "")
        for name in ("asked", "closed"):
            if name in event:
                getattr(self, name).append(event.pop(name))
        vars(self).update(event)

    def dialog(self, number=1):
        """Waits for that many dialogs and returns the last."""
        self.wait(lambda: len(self.asked) >= number, 20, f"dialog {number}")
        return self.asked[number - 1]

    def grant(self, password="alice-pw", user="alice"):
        self.command(grant={"user": user, "text": password})

    def dismiss(self):
        self.command(dismiss=True)

    def refuse(self):
        self.command(refuse=True)

    def input(self, text):
        self.command(input=text)

    def kill(self, number=9):
        self.command(kill=number)

    def end(self, timeout=60):
        self.wait(lambda: self.status is not None, timeout, "the program to end")
        return self
