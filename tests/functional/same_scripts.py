"""Scripts that look at everything an interpreter could tell them about how it was started, each a statement that can be
compared: run twice, they must say and leave the same. Used by test_interpreter.py; data only."""

LONG = "values = []\n" + "".join(f"values.append({n}) # {'x' * 60}\n" for n in range(600)) + "print(sum(values))\n"

# name: (code, what it reads on standard input, files that lie beside it)
SCRIPTS = {
    "prints": "print(4)",
    "is a comment": "# nothing",
    "has no last newline": "x = 1\nif x:\n    print(x)",
    "has DOS lines": "x = 1\r\nif x:\r\n    print('''a\r\nb'''.encode())\r\n",
    "has form feeds": "x = 1\n\f\nprint(x)\n",
    "is long": LONG,
    "is longer than a pipe": LONG * 2,
    "says who it is": "print(__name__, __file__, __package__, __spec__, __doc__, __cached__, type(__loader__))",
    "has a docstring": '"""What it is."""\nprint(__doc__, __annotations__ if "__annotations__" in globals() else None)',
    "lists its globals": "print(sorted(globals()))\nprint(type(__builtins__))",
    "looks at __main__": "import __main__, sys\nprint(sorted(vars(__main__)), sys.modules['__main__'] is __main__)",
    "asks its loader": "print(__loader__.name, __loader__.path, __loader__.get_source('__main__')[:10])",
    "tells its arguments": "import sys\nprint(sys.argv, sys.orig_argv)",
    "tells its path": "import sys\nprint(sys.path, len(sys.path_hooks), sorted(sys.path_importer_cache))",
    "tells its modules": "import sys\nprint(sorted(sys.modules))",
    "tells its flags": "import sys\nprint(sys.flags, sys._xoptions, sys.warnoptions)",
    "tells its executable": "import sys\nprint(sys.executable, sys._base_executable, sys.prefix, sys.exec_prefix, sys.version)",
    "tells its streams": "import sys\nfor s in sys.stdin, sys.stdout, sys.stderr:\n    print(s, s.name, s.mode, s.encoding, s.errors, "
                         "s.line_buffering, s.write_through, s.newlines, s.isatty(), s.fileno(), s.buffer, s.buffer.raw)",
    "tells what its descriptors are": "import os, stat\nfor fd in sorted(map(int, os.listdir('/proc/self/fd'))):\n    try:\n"
                                      "        print(fd, oct(os.fstat(fd).st_mode), os.get_inheritable(fd), os.get_blocking(fd))\n"
                                      "    except OSError as e:\n        print(fd, e)",
    "tells its environment": "import os\nprint(dict(os.environ))",
    "tells the kernel's view of it": "for name in 'cmdline', 'environ', 'comm':\n    print(open('/proc/self/' + name).read())",
    "tells its process": "import os\nme, parent = os.getpid(), os.getppid()\n"
                         # systemd 252 counts no processes for a sandbox alone: each has another number.
                         "print((me, parent) if parent == 1 else 'of the machine', me == os.getpgid(0) == os.getsid(0))\n"
                         "print(os.nice(0), os.getcwd())\n"
                         "old = os.umask(0)\nprint(oct(old))",
    "tells its signals": "import signal\nprint([signal.getsignal(n) for n in sorted(signal.valid_signals())])\n"
                         "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    "tells its status": "print([l for l in open('/proc/self/status') if l.split(':')[0] in ('Seccomp', 'NoNewPrivs', 'CapEff', "
                        "'SigBlk', 'SigIgn', 'SigCgt', 'Threads', 'Umask')])",
    "tells its limits": "import resource\nprint([(n, resource.getrlimit(getattr(resource, n))) for n in sorted(dir(resource)) "
                        "if n.startswith('RLIMIT')])",
    "tells its priority to die": "print(open('/proc/self/oom_score_adj').read())",
    "tells its locale": "import locale, sys, time\nprint(locale.getlocale(), locale.getpreferredencoding(), "
                        "sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), time.tzname)",
    "tells its file": "import os\ns = os.stat(__file__)\nprint(oct(s.st_mode), s.st_size, s.st_nlink)",
    "lists where it is": "import os\nprint(sorted(os.listdir('/workspace')), sorted(os.listdir('/tmp')), sorted(os.listdir('/dev/shm')))",
    "reads itself": "print(len(open(__file__).read()))\n# the end",
    "inspects itself": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f), inspect.getsourcefile(f))",
    "reads its input": ("import sys\nprint(sys.stdin.read())", b"one\ntwo\n"),
    "asks": ("print(input('name? '))\nprint(input())", b"x\ny\n"),
    "asks in vain": "input()",
    "reads bytes": ("import sys\nprint(len(sys.stdin.buffer.read()))", bytes(range(256)) * 500),
    "fails": "1/0",
    "fails further down": "def f(n):\n    return f(n - 1) if n else [][0]\n\n\ntry:\n    f(3)\nexcept IndexError as e:\n"
                          "    raise KeyError('x') from e",
    "fails in a class": "class A:\n    @property\n    def x(self):\n        raise ValueError(self.y)\nA().x",
    "recurses": "def f(): f()\nf()",
    "is no Python": "print('a'\nx = = 1\n",
    "is badly indented": "if True:\n    x = 1\n   y = 2\n",
    "mixes tabs": "if 1:\n\tx = 1\n        y = 2\n",
    "does not close a string": "x = 1\ny = '''abc\n",
    "has bytes that are none": b"print('\xff')\n",
    "has a NUL": b"print(1)\n\0print(2)\n",
    "says its encoding": "# -*- coding: latin-1 -*-\nprint('\xe4')\n".encode("latin-1"),
    "says UTF-8": "# coding: utf-8\nprint('ä')\n",
    "has a byte order mark": "\ufeffprint('ä')\n",
    "is in another tongue": "größe = 'ä€𝄞'\nprint(größe)\nraise ValueError(größe)",
    "warns": "import warnings\nwarnings.warn('old')\nx = 1 is 1\nprint('\\d')",
    "exits": "import sys\nsys.exit(3)",
    "exits with words": "import sys\nsys.exit('so')",
    "exits with None": "raise SystemExit(None)",
    "exits at once": "import os\nprint('lost', end='')\nos._exit(4)",
    "is interrupted": "raise KeyboardInterrupt",
    "cleans up": "import atexit\natexit.register(print, 'bye')\nclass D:\n    def __del__(self):\n        print('gone')\nd = D()\nprint('hi')",
    "fails while cleaning up": "import atexit\natexit.register(int, 'x')\nprint('hi')",
    "kills itself": "import os, signal\nprint('x', end='')\nos.kill(os.getpid(), signal.SIGKILL)",
    "is terminated": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "catches a signal": "import os, signal\nsignal.signal(signal.SIGTERM, lambda *a: print('caught'))\n"
                        "os.kill(os.getpid(), signal.SIGTERM)\nprint('on')",
    "crashes": "import os\nos.abort()",
    "has threads": "import threading\nt = threading.Thread(target=print, args=(1,))\nt.start()\nt.join()\n"
                   "print(threading.main_thread().name, threading.active_count())",
    "forks": "import os\nif os.fork() == 0:\n    print('child')\n    os._exit(0)\nos.wait()\nprint('parent')",
    "has workers": "import multiprocessing\ndef f(x):\n    return x * x\nif __name__ == '__main__':\n"
                   "    for way in ('fork', 'spawn'):\n        with multiprocessing.get_context(way).Pool(2) as p:\n"
                   "            print(p.map(f, range(4)))",
    "starts itself": "import subprocess, sys\nif sys.stdin.read() != 'again':\n"
                     "    print(subprocess.run([sys.executable, __file__], input='again', text=True, capture_output=True).stdout)\n"
                     "else:\n    print('second', sys.argv, sys.path)",
    "pickles what it defines": "import pickle\nclass A: pass\nprint(pickle.loads(pickle.dumps(A())).__class__, pickle.dumps(A))",
    "runs others": "import runpy, sys\nprint(runpy.run_path(__file__, run_name='other')['__name__'] "
                   "if __name__ == '__main__' else __name__)",
    "loops asynchronously": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 1\nprint(asyncio.run(f()))",
    "logs": "import logging\nlogging.warning('w')\nlogging.error('e', exc_info=False)",
    "writes files": "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\nopen('d', 'w')\nos.symlink('d', 'e')\nos.chmod('d', 0o600)",
    "changes itself": "open(__file__, 'a').write('# more')\nprint(open(__file__).read())",
    "removes itself": "import os\nos.unlink(__file__)\n1/0",
    "prints much": "print('x' * 1000000)",
    "writes to both": "import sys\nfor n in range(5):\n    print(n)\n    print(n, file=sys.stderr)",
    "imports what lies beside it": ("import beside, sys\nprint(beside.x, beside.__file__, beside.__cached__)", b"", {"beside.py": b"x = 1"}),
    "shadows a module": ("import json\nprint(json.x)", b"", {"json.py": b"x = 'own'"}),
    "has a user's site": ("import sys\nprint(sys.path)\nimport own", b"",
                          {".local/lib/python3.%d/site-packages/own.py" % n: b"print('own')" for n in (11, 12, 13)}),
    "has a sitecustomize beside it": ("print('main')", b"", {"sitecustomize.py": b"print('custom')"}),
    "reads an input": ("print(open('in.csv').read())", b"", {"in.csv": b"a,b\n"}),
    "traces": "import sys\nn = []\nsys.settrace(lambda *a: n.append(a[1]))\n(lambda: 1)()\nsys.settrace(None)\nprint(n)",
    "compiles": "exec(compile('print(__name__)', 'x', 'exec'))\nprint(eval('1+1'))",
    "has annotations": "x: int = 1\nprint(__annotations__)",
    "counts": "import collections, json, re, datetime, decimal\nprint(json.dumps(collections.Counter('abca')), re.findall('a', 'aa'), "
              "decimal.Decimal('0.1'))",
    "has a shebang": "#!/usr/bin/env python3\nprint(1)",
}


def parts(entry):
    """The code, what it reads on standard input, and the files beside it."""
    entry = entry if isinstance(entry, tuple) else (entry,)
    code, stdin, files = (*entry, *(b"", {})[len(entry) - 1 :])
    return code if isinstance(code, bytes) else code.encode(), stdin, files
