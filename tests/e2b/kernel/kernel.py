"""One context of the code interpreter, in a sandbox: runs cells of Python as IPython does, and tells what they show.

Started by code_interpreter.py. Requests are lines of JSON on standard input, messages the same on standard
output; what the code itself prints, by Python or beneath it, becomes such messages. No IPython is needed: what
scripts take from IPython.display is here.
"""

import ast
import asyncio
import base64
import builtins
import datetime
import inspect
import json
import linecache
import os
import re
import sys
import threading
import traceback
import types
import uuid

BUFFERED = 8192
FLUSH_EVERY = 0.1
FORMATS = {"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png",
           "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex", "application/json": "json",
           "application/javascript": "javascript", "e2b/data": "data", "e2b/chart": "chart"}
METHODS = {"html": "html", "markdown": "markdown", "svg": "svg", "png": "png", "jpeg": "jpeg", "pdf": "pdf", "latex": "latex",
           "json": "json", "javascript": "javascript", "e2b_data": "data", "e2b_chart": "chart"}

requests = os.fdopen(os.dup(0), "rb", 0)
control = os.dup(1)
lock = threading.RLock()


def tell(kind, **fields):
    data = json.dumps({"type": kind, **fields}).encode() + b"\n"
    with lock:
        while data:
            data = data[os.write(control, data):]


def tell_text(kind, text):
    if text:
        tell(kind, text=text, timestamp=datetime.datetime.now(datetime.timezone.utc).isoformat())


# ---- output

class Output:
    """sys.stdout or sys.stderr: collects for a moment, like that of IPython's kernel."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, kind, fd):
        self.kind = kind
        self.fd = fd
        self.pieces = []
        self.size = 0

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with lock:
            self.pieces.append(text)
            self.size += len(text)
            if self.size > BUFFERED:
                self.flush()
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        with lock:
            text, self.pieces, self.size = "".join(self.pieces), [], 0
            tell_text(self.kind, text)

    def fileno(self):
        return self.fd

    def isatty(self):
        return False

    def writable(self):
        return True


class Beneath:
    """What is written to descriptor 1 or 2 without Python, by a child for example."""

    def __init__(self, kind, fd):
        self.kind = kind
        self.fd = fd
        self.drained = threading.Event()
        self.mark = b"\0" + uuid.uuid4().bytes
        self.source, target = os.pipe()
        os.dup2(target, fd)
        os.close(target)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        data = b""
        while piece := os.read(self.source, 65536):
            data += piece
            marked = self.mark in data
            text, data = data.replace(self.mark, b""), b""
            tell_text(self.kind, text.decode("utf-8", "replace"))
            if marked:
                self.drained.set()

    def drain(self):
        self.drained.clear()
        try:
            os.write(self.fd, self.mark)
        except OSError:
            return
        self.drained.wait(1)


def flush_now_and_then():
    while True:
        threading.Event().wait(FLUSH_EVERY)
        for stream in (out, err):
            if stream.pieces:
                stream.flush()


# ---- results

def encoded(data):
    return base64.b64encode(data).decode() if isinstance(data, bytes) else data


def bundle_of(value):
    """Every format that an object can be shown in, as fields of a result."""
    fields = {}
    text = repr(value)
    # The outer quotes of a string's repr are taken off.
    fields["text"] = text[1:-1] if isinstance(value, str) else text
    if not isinstance(value, type):
        for name, field in METHODS.items():
            shown = getattr(value, f"_repr_{name}_", lambda: None)()
            if shown is not None:
                fields[field] = encoded(shown[0] if isinstance(shown, tuple) else shown)
        if hasattr(value, "_repr_mimebundle_"):
            bundle = value._repr_mimebundle_()
            bundle = bundle[0] if isinstance(bundle, tuple) else bundle
            for kind, shown in bundle.items():
                if kind in FORMATS:
                    fields[FORMATS[kind]] = encoded(shown)
                else:
                    fields.setdefault("extra", {})[kind] = encoded(shown)
    if type(value).__name__ == "DataFrame":
        fields["data"] = json.loads(json.dumps(value.to_dict(orient="list"), default=str))
    return fields


def display(*values, **options):
    out.flush()
    err.flush()
    for value in values:
        tell("result", **bundle_of(value), is_main_result=False)


# ---- what scripts import

def shown_as(name, method):
    def set_data(self, data=None, **options):
        self.data = data

    return type(name, (), {"__init__": set_data, method: lambda self: self.data})


class Image:
    def __init__(self, data=None, filename=None, format="png"):
        if filename:
            with open(filename, "rb") as file:
                data = file.read()
            format = filename.rpartition(".")[2]
        self.data = data
        self.format = {"jpg": "jpeg"}.get(format, format)

    def _repr_mimebundle_(self):
        return {f"image/{self.format}": self.data}


def make_modules():
    shown = types.ModuleType("IPython.display")
    shown.display = display
    shown.Image = Image
    for name, method in (("HTML", "html"), ("SVG", "svg"), ("Markdown", "markdown"), ("JSON", "json"), ("Latex", "latex"),
                         ("Javascript", "javascript")):
        setattr(shown, name, shown_as(name, f"_repr_{method}_"))
    package = types.ModuleType("IPython")
    package.display = shown
    package.get_ipython = lambda: None
    sys.modules |= {"IPython": package, "IPython.display": shown}
    builtins.display = display
    os.environ["MPLBACKEND"] = "module://sandbox_figures"
    sys.path.append(os.path.dirname(__file__))


# ---- cells

def compiled(code, name):
    """The cell without its last expression, and that."""
    code = re.sub(r"^!(.*)$", lambda line: f"__import__('os').system({line[1]!r})", code, flags=re.M)
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    tree = ast.parse(code, name)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
        last = compile(ast.Expression(tree.body.pop().value), name, "eval", flags)
    return compile(tree, name, "exec", flags), last


def evaluated(code):
    value = eval(code, namespace)
    return asyncio.run(value) if code.co_flags & inspect.CO_COROUTINE else value


def run_cell(code, count):
    name = f"Cell In[{count}]"
    try:
        body, last = compiled(code, name)
        evaluated(body)
        value = evaluated(last) if last else None
        if value is not None:
            out.flush()
            err.flush()
            tell("result", **bundle_of(value), is_main_result=True)
            namespace["_"] = value
        if figures := sys.modules.get("sandbox_figures"):
            figures.show()
    except BaseException as error:
        out.flush()
        err.flush()
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith("Cell In[")]
        lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
        tell("error", name=type(error).__name__, value=str(error), traceback=f"\x1b[0;31m{'-' * 75}\x1b[0m\n" + "".join(lines))


def execute(request, count):
    tell("number_of_executions", execution_count=count)
    before = dict(os.environ)
    os.environ.update(request.get("env_vars") or {})
    try:
        run_cell(request["code"], count)
        for stream in (out, err):
            stream.flush()
        for stream in beneath:
            stream.drain()
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
        tell("end_of_execution")


main = types.ModuleType("__main__")
namespace = main.__dict__
sys.modules["__main__"] = main
sys.argv = [""]
sys.path[0] = ""
os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
beneath = [Beneath("stdout", 1), Beneath("stderr", 2)]
out, err = Output("stdout", 1), Output("stderr", 2)
sys.stdout, sys.stderr = out, err
make_modules()
threading.Thread(target=flush_now_and_then, daemon=True).start()
executions = 0
while True:
    try:
        line = requests.readline()
        if not line:
            os._exit(0)
        executions += 1
        execute(json.loads(line), executions)
    except KeyboardInterrupt:
        pass
