/* What is said after a program's last words: a case for each row of the tables in hints.c, and what
 * must not be said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "broker/hints.h"
#include "broker/package-names.h"
#include "common/cleanup.h"

static const struct limits limits = { .memory_bytes = 512 << 20,
                                      .cpu_percent = 100,
                                      .timeout_usec = 60000000 };
static const struct limits ceiling = { .network = true,
                                       .memory_bytes = UINT64_C(2) << 30,
                                       .cpu_percent = 200,
                                       .timeout_usec = 300000000 };
static struct request_input inputs[] = { { .name = (char *)"Sales.csv" },
                                         { .name = (char *)"data/stock 2024.csv" } };

static struct facts failed(const char *language)
{
    bool is_python = strcmp(language, "python") == 0;

    return (struct facts){
        .limits = &limits,
        .defaults = &limits,
        .ceiling = &ceiling,
        .tasks = 256,
        .workspace_bytes = 256 << 20,
        .workspace_files = 1000,
        .scratch_bytes = 64 << 20,
        .interpreter = "x",
        .engine = "systemd",
        .language = language,
        .script_name = is_python ? "random.py" : "x.sh",
        .inputs = inputs,
        .n_inputs = ELEMENTS(inputs),
        .may_have_packages = is_python || strcmp(language, "node") == 0,
        .ecosystem = is_python ? ECOSYSTEM_PYTHON : ECOSYSTEM_NODE,
        .have_exited = true,
        .exited = { .kind = LAUNCH_EXIT_CODE, .value = 1 },
        .have_ended = true,
        .ended = { .task_refusals = 3 },
    };
}

static const char *hint(const struct facts *facts, const char *said)
{
    static char text[HINT_MAX];
    struct facts copy = *facts;

    copy.said = said;
    copy.said_size = strlen(said);
    memset(text, 0, sizeof(text));
    return hint_find(&copy, text) ? text : "";
}

static const char *hint_in(const char *language, const char *said)
{
    struct facts facts = failed(language);
    return hint(&facts, said);
}

#define TRACE                                 \
    "Traceback (most recent call last):\n"    \
    "  File \"/workspace/x.py\", line 3, in " \
    "<module>\n    call()\n"
#define FRAME(file, function, code) "  File \"" file "\", line 9, in " function "\n    " code "\n"
#define HEAD "Traceback (most recent call last):\n"
#define STACK "\n    at Object.<anonymous> (/workspace/x.js:1:7)\n\nNode.js v20.19.2\n"
#define NO_NETWORK "This run had no network; --network asks for it, which needs an approval."
#define LOCAL                                                                                   \
    "Inside, localhost is the sandbox itself: services of this machine cannot be reached; the " \
    "script has to start what it needs."
#define PARTS \
    "Use less memory at a time, or ask for more with --memory 1024M, which needs an approval."
#define INSTALL "ask the administrator to install it, or use an --engine and --image that have it."
#define DISPLAY                                                                                \
    "There is no display in a sandbox: save to a file instead of opening a window. show() of " \
    "matplotlib, plotly and PIL does that by itself."
#define GPU "There is no GPU in a sandbox: let the program use the CPU."
#define WORKERS "Start fewer workers: a run may have 256 processes and threads."
#define SPACE \
    "A run may have 256 MiB in 1000 files in /workspace, and 64 MiB each in /tmp and /dev/shm."
#define ROOT "Nobody is root in a sandbox, whatever is tried: leave sudo and the like out."
#define SYSTEM                                                                                    \
    "Programs of the system cannot be installed in a sandbox: Python's and Node's packages come " \
    "with --with, others with another --image or from the administrator."

static const struct {
    const char *language, *said, *hint;
} cases[] = {
    /* ---- modules */
    { "python", TRACE "ModuleNotFoundError: No module named 'cv2'\n",
      "The module cv2 is missing; a package has it: --with opencv-python-headless" },
    { "python", TRACE "ModuleNotFoundError: No module named 'google.cloud.storage'\n",
      "The module google.cloud.storage is missing; a package has it: --with google-cloud-storage" },
    { "python", TRACE "ModuleNotFoundError: No module named 'tea_pot'\n",
      "The module tea_pot is missing; if it is a file of yours: --file tea_pot.py; if a package "
      "has "
      "it: --with tea-pot" },
    { "python", TRACE "ModuleNotFoundError: No module named 'sklearn.nothing'\n", "" },
    { "python", TRACE "ModuleNotFoundError: No module named '_sqlite3'\n",
      "It is a part of Python that is not installed here; the administrator can install it, or "
      "choose an --engine or --image that has it." },
    { "python", TRACE "ModuleNotFoundError: No module named 'distutils'\n",
      "Python has no such module since version 3.12: --with setuptools has it." },
    { "python",
      TRACE "ModuleNotFoundError: No module named 'random.x'; 'random' is not a package\n",
      "random.py hides the module of that name: rename it." },
    { "python", TRACE "ModuleNotFoundError: No module named 'six.x'; 'six' is not a package\n",
      "" },
    { "python",
      TRACE "AttributeError: partially initialized module 'random' has no attribute 'choice' (most "
            "likely due to a circular import)\n",
      "random.py hides the module of that name: rename it." },
    { "python",
      TRACE "ImportError: Missing optional dependency 'openpyxl'.  Use pip or conda to install "
            "openpyxl.\n",
      "A package is missing: --with openpyxl" },
    { "python",
      TRACE "ImportError: Unable to find a usable engine; tried using: 'pyarrow', 'fastparquet'.\n"
            "A suitable version of pyarrow or fastparquet is required for parquet support.\n"
            "Trying to import the above resulted in these errors:\n - Missing optional dependency "
            "'pyarrow'. pyarrow is required for parquet support.\n",
      "A package is missing: --with pyarrow" },
    { "python", TRACE "ImportError: lxml not found, please install it\n",
      "A package is missing: --with lxml" },
    { "python",
      TRACE "ImportError: libGL.so.1: cannot open shared object file: No such file or directory\n",
      "A package is missing: --with opencv-python-headless" },
    { "python",
      TRACE "bs4.exceptions.FeatureNotFound: Couldn't find a tree builder with the features you "
            "requested: html5lib. Do you need to install a parser library?\n",
      "A package is missing: --with html5lib" },
    { "python",
      TRACE "bs4.FeatureNotFound: Couldn't find a tree builder with the features you requested: "
            "xml. Do you need to install a parser library?\n",
      "A package is missing: --with lxml" },
    { "python",
      TRACE "bs4.FeatureNotFound: Couldn't find a tree builder with the features you requested: "
            "lxml-xml. Do you need to install a parser library?\n",
      "A package is missing: --with lxml" },
    { "python",
      TRACE
      "ValueError: \nImage export using the \"kaleido\" engine requires the kaleido package,\n"
      "which can be installed using pip:\n    $ pip install -U kaleido\n\n",
      "A package is missing: --with kaleido" },
    { "python", "/usr/bin/python3: No module named pytest\n",
      "The module pytest is missing; a package has it: --with pytest" },
    { "python",
      TRACE "LookupError: \n"
            "**********************************************************************\n"
            "  Resource punkt not found.\n  Please use the NLTK Downloader to obtain the "
            "resource:\n\n  >>> import nltk\n"
            "**********************************************************************\n\n",
      "NLTK's data are not in the sandbox: fetch them where there is a network, and give the "
      "folder nltk_data with --file." },
    { "node",
      "node:internal/modules/cjs/loader:1215\n  throw err;\n  ^\n\nError: Cannot find module "
      "'@tea/pot/lid'\nRequire stack:\n- /workspace/x.js\n    at Module._resolveFilename "
      "(node:internal/modules/cjs/loader:1212:15) {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: "
      "[ "
      "'/workspace/x.js' ]\n}\n\nNode.js v20.19.2\n",
      "The module @tea/pot/lid is missing; if a package has it: --with @tea/pot" },
    { "node", "Error: Cannot find module './lib/lid'\nRequire stack:\n- /workspace/x.js" STACK,
      "" },
    { "node", "Error: Cannot find module './lid'\nRequire stack:\n- /workspace/x.js" STACK,
      "The script's own module lid is not in the sandbox: --file lid.js brings it." },
    { "node", "Error: Cannot find module '/x'\nRequire stack:\n- /workspace/x.js" STACK, "" },
    { "node", "Error: Cannot find module '" STACK, "" },
    { "node", "Error: Cannot find module 'node:sea'\nRequire stack:\n- /workspace/x.js" STACK,
      "This Node does not have its own module node:sea: an --image or --engine with another one "
      "may." },
    { "node",
      "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'chalk' imported from "
      "/workspace/x.mjs" STACK,
      "The module chalk is missing; if a package has it: --with chalk" },
    { "node", "Error [ERR_UNKNOWN_BUILTIN_MODULE]: No such built-in module: node:sqlite" STACK,
      "This Node is too old to have node:sqlite: an --image or --engine with a newer one has it." },
    { "python", "ERROR: No matching distribution found for tea\n",
      "pip has no network here; instead of it: --with tea" },
    { "shell", "ERROR: No matching distribution found for tea\n", NO_NETWORK },

    /* ---- network */
    { "python",
      TRACE "socket.gaierror: [Errno -3] Temporary failure in name resolution\n\nThe above "
            "exception was the direct cause of the following exception:\n\n" TRACE
            "app.Error: cannot get it\n",
      NO_NETWORK },
    { "shell", "ping: example.org: Name or service not known\n", NO_NETWORK },
    { "python", TRACE "socket.gaierror: [Errno -5] No address associated with hostname\n",
      NO_NETWORK },
    { "node",
      "TypeError: fetch failed\n    at node:internal/deps/undici/undici:12345:11 {\n  [cause]: "
      "Error: getaddrinfo EAI_AGAIN example.org\n      at GetAddrInfoReqWrap.onlookup {\n    "
      "errno: -3001\n  }\n}\n\nNode.js v20.19.2\n",
      NO_NETWORK },
    { "node", "Error: getaddrinfo ENOTFOUND example.org" STACK, NO_NETWORK },
    { "node", "Error: connect ENETUNREACH 192.0.2.1:80 - Local (0.0.0.0:0)" STACK, NO_NETWORK },
    { "shell", "curl: (6) Could not resolve host: example.org\n", NO_NETWORK },
    { "shell",
      "Resolving example.org... failed: Temporary failure in name resolution.\nwget: unable to "
      "resolve host address 'example.org'\n",
      NO_NETWORK },
    { "shell", "wget: unable to resolve host address 'example.org'\n", NO_NETWORK },
    { "python", TRACE "OSError: [Errno 101] Network is unreachable\n", NO_NETWORK },
    { "node", "Error: page.goto: net::ERR_NAME_NOT_RESOLVED at https://example.org" STACK,
      NO_NETWORK },
    { "node", "Error: page.goto: net::ERR_INTERNET_DISCONNECTED at https://example.org" STACK,
      NO_NETWORK },
    { "python",
      HEAD FRAME("/workspace/x.py", "<module>",
                 "socket.create_connection(('127.0.0.1', 1))") "ConnectionRefusedError: [Errno "
                                                               "111] Connection refused\n",
      LOCAL },
    { "python",
      TRACE "ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 5432)\n",
      LOCAL },
    { "python", TRACE "ConnectionRefusedError: [Errno 111] Connection refused\n", "" },
    { "node", "Error: connect ECONNREFUSED 127.0.0.1:6379" STACK, LOCAL },
    { "node", "Error: connect ECONNREFUSED ::1:6379" STACK, LOCAL },
    { "python",
      TRACE "psycopg2.OperationalError: connection to server at \"localhost\" (127.0.0.1), port "
            "5432 failed: Connection refused\n\tIs the server running on that host and accepting "
            "TCP/IP connections?\n\n",
      LOCAL },
    { "python",
      TRACE "mysql.connector.errors.DatabaseError: 2003 (HY000): Can't connect to MySQL server on "
            "'127.0.0.1:3306' (111)\n",
      LOCAL },
    { "python",
      TRACE "pymysql.err.OperationalError: (2003, \"Can't connect to MySQL server on 'localhost' "
            "([Errno 111] Connection refused)\")\n",
      LOCAL },
    { "python",
      TRACE "redis.exceptions.ConnectionError: Error 111 connecting to localhost:6379. Connection "
            "refused.\n",
      LOCAL },
    { "python",
      TRACE "pymongo.errors.ServerSelectionTimeoutError: localhost:27017: [Errno 111] Connection "
            "refused\n",
      LOCAL },
    { "python",
      TRACE "requests.exceptions.ConnectionError: HTTPConnectionPool(host='localhost', port=8000): "
            "Max retries exceeded with url: / (Caused by NewConnectionError('refused'))\n",
      LOCAL },
    { "python",
      TRACE "requests.exceptions.ConnectionError: HTTPConnectionPool(host='127.0.0.1', port=8000): "
            "Max retries exceeded with url: / (Caused by NewConnectionError('refused'))\n",
      LOCAL },
    { "shell", "curl: (7) Failed to connect to localhost port 80 after 0 ms\n", LOCAL },
    { "shell", "curl: (7) Failed to connect to 127.0.0.1 port 80 after 0 ms\n", LOCAL },

    /* ---- what a run may use */
    { "python",
      TRACE "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array "
            "with shape (1000000000,) and data type float64\n",
      "It wanted 7.4 GiB at once, and this machine allows a run 2 GiB: work through the data in "
      "parts." },
    { "python",
      TRACE "numpy.core._exceptions.MemoryError: Unable to allocate 763. MiB for an array with "
            "shape (100000000,) and data type float64\n",
      "Use less memory at a time, or ask for more with --memory 1280M, which needs an approval." },
    { "python", TRACE "MemoryError\n", PARTS },
    { "python", TRACE "pyarrow.lib.ArrowMemoryError: malloc of size 64 failed\n", PARTS },
    { "python", TRACE "OSError: [Errno 12] Cannot allocate memory\n", PARTS },
    { "node",
      "\n<--- Last few GCs --->\n\n[2:0x1] 900 ms: Mark-sweep 380.0 (384.0) MB\n\n\n<--- JS "
      "stacktrace --->\n\nFATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out "
      "of memory\n----- Native stack trace -----\n\n 1: 0xb8 node::Abort() [node]\n",
      PARTS },
    { "node", "RangeError: Array buffer allocation failed" STACK, PARTS },
    { "shell",
      "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n",
      PARTS },
    { "bash", "bash: fork: Cannot allocate memory\n", PARTS },
    { "shell",
      "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  "
      "std::bad_alloc\n",
      "" },
    { "shell", "sort: memory exhausted\n", PARTS },
    { "python", TRACE "RuntimeError: can't start new thread\n", WORKERS },
    { "python", TRACE "BlockingIOError: [Errno 11] Resource temporarily unavailable\n", WORKERS },
    { "node", "Error: spawn /bin/sh EAGAIN" STACK, WORKERS },
    { "bash", "/workspace/x.sh: fork: Resource temporarily unavailable\n", WORKERS },
    { "shell", "OpenBLAS blas_thread_init: pthread_create failed for thread 3 of 4\n", WORKERS },
    { "python", TRACE "OSError: [Errno 28] No space left on device: 'x'\n", SPACE },
    { "python", TRACE "sqlite3.OperationalError: database or disk is full\n", SPACE },
    { "node", "Error: ENOSPC: no space left on device, write" STACK, SPACE },

    /* ---- where files may be */
    { "python", TRACE "OSError: [Errno 30] Read-only file system: '/opt/plot.png'\n",
      "'/opt/plot.png' cannot be written: write to /workspace, the directory the program starts in "
      "(such as plot.png); what lies there is kept." },
    { "node", "Error: EROFS: read-only file system, open '/opt/x.txt'" STACK,
      "'/opt/x.txt' cannot be written: write to /workspace, the directory the program starts in "
      "(such as x.txt); what lies there is kept." },
    { "bash", "/workspace/x.sh: line 1: /opt/x.txt: Read-only file system\n",
      "'/opt/x.txt' cannot be written: write to /workspace, the directory the program starts in "
      "(such as x.txt); what lies there is kept." },
    { "python", TRACE "PermissionError: [Errno 13] Permission denied: '/root/x.txt'\n",
      "'/root/x.txt' cannot be written: write to /workspace, the directory the program starts in "
      "(such as x.txt); what lies there is kept." },
    { "python", TRACE "PermissionError: [Errno 13] Permission denied: 'x.txt'\n", "" },
    { "node", "Error: EACCES: permission denied, mkdir '/root/x'" STACK,
      "'/root/x' cannot be written: write to /workspace, the directory the program starts in (such "
      "as x); what lies there is kept." },
    { "bash", "touch: cannot touch '/root/x': Permission denied\n",
      "'/root/x' cannot be written: write to /workspace, the directory the program starts in (such "
      "as x); what lies there is kept." },
    { "python", TRACE "FileNotFoundError: [Errno 2] No such file or directory: 'sales.csv'\n",
      "There is no 'sales.csv' in the sandbox; did you mean 'Sales.csv'?" },
    { "python", TRACE "FileNotFoundError: [Errno 2] No such file or directory: 'sale.csv'\n",
      "There is no 'sale.csv' in the sandbox; did you mean 'Sales.csv'?" },
    { "python", TRACE "FileNotFoundError: [Errno 2] No such file or directory: 'orders.csv'\n",
      "There is no 'orders.csv' in the sandbox: if it is a file of yours, --file orders.csv puts a "
      "copy beside the script." },
    { "python", TRACE "FileNotFoundError: [Errno 2] No such file or directory: 'in/orders.csv'\n",
      "There is no 'in/orders.csv' in the sandbox: if it is a file of yours, --file "
      "in/orders.csv:in/orders.csv brings it." },
    { "python",
      TRACE "FileNotFoundError: [Errno 2] No such file or directory: '/home/alice/orders.csv'\n",
      "'/home/alice/orders.csv' is not in the sandbox: --file puts a copy of yours beside the "
      "script, where it is called orders.csv; results go there, too." },
    { "python", TRACE "FileNotFoundError: [Errno 2] No such file or directory: '/etc/thing'\n",
      "" },
    { "python",
      HEAD FRAME("/workspace/x.py", "<module>",
                 "plt.savefig('out/plot.png')") "FileNotFoundError: [Errno 2] No such file or "
                                                "directory: 'out/plot.png'\n",
      "There is no directory 'out' yet: the program has to make it first." },
    { "python",
      HEAD FRAME("/workspace/x.py", "<module>",
                 "df.to_csv('/home/alice/x.csv')") "OSError: Cannot save file into a non-existent "
                                                   "directory: '/home/alice'\n",
      "" },
    { "python", TRACE "FileNotFoundError: [Errno 2] No such file or directory: b'orders.csv'\n",
      "There is no 'orders.csv' in the sandbox: if it is a file of yours, --file orders.csv puts a "
      "copy beside the script." },
    { "python", TRACE "FileNotFoundError: orders.csv not found.\n",
      "There is no 'orders.csv' in the sandbox: if it is a file of yours, --file orders.csv puts a "
      "copy beside the script." },
    { "python",
      TRACE "FileNotFoundError: [Errno 2] Unable to synchronously open file (unable to open file: "
            "name = 'orders.h5', errno = 2, error message = 'No such file or directory')\n",
      "There is no 'orders.h5' in the sandbox: if it is a file of yours, --file orders.h5 puts a "
      "copy beside the script." },
    { "python",
      TRACE "duckdb.duckdb.IOException: IO Error: No files found that match the pattern "
            "\"orders.csv\"\n",
      "There is no 'orders.csv' in the sandbox: if it is a file of yours, --file orders.csv puts a "
      "copy beside the script." },
    { "node", "Error: ENOENT: no such file or directory, open 'orders.csv'" STACK,
      "There is no 'orders.csv' in the sandbox: if it is a file of yours, --file orders.csv puts a "
      "copy beside the script." },
    { "node",
      "Error: ENOENT: no such file or directory, open 'out/x.txt'\n    at Object.openSync "
      "(node:fs:573:18)\n    at Object.writeFileSync (node:fs:2362:35)\n\nNode.js v20.19.2\n",
      "There is no directory 'out' yet: the program has to make it first." },
    { "node",
      "Error: ENOENT: no such file or directory, open '/opt/x.txt'\n    at Object.openSync "
      "(node:fs:573:18)\n    at Object.writeFileSync (node:fs:2362:35)\n\nNode.js v20.19.2\n",
      "'/opt/x.txt' cannot be written: write to /workspace, the directory the program starts in "
      "(such as x.txt); what lies there is kept." },
    { "node",
      "node:internal/process/promises:288\n            triggerUncaughtException(err, true);\n\n"
      "[Error: ENOENT: no such file or directory, open 'orders.csv'] {\n  errno: -2,\n  code: "
      "'ENOENT'\n}\n\nNode.js v18.20.4\n",
      "There is no 'orders.csv' in the sandbox: if it is a file of yours, --file orders.csv puts a "
      "copy beside the script." },
    { "python", "error: [Errno 2] No such file or directory: 'orders.csv'\n",
      "There is no 'orders.csv' in the sandbox: if it is a file of yours, --file orders.csv puts a "
      "copy beside the script." },
    { "node", "ENOENT: no such file or directory, open 'orders.csv'\n",
      "There is no 'orders.csv' in the sandbox: if it is a file of yours, --file orders.csv puts a "
      "copy beside the script." },
    { "ruby",
      "/workspace/x.rb:1:in `initialize': No such file or directory @ rb_sysopen - orders.csv "
      "(Errno::ENOENT)\n\tfrom /workspace/x.rb:1:in `open'\n",
      "There is no 'orders.csv' in the sandbox: if it is a file of yours, --file orders.csv puts a "
      "copy beside the script." },
    { "shell", "/workspace/x.sh: 1: cannot open orders.csv: No such file\n",
      "There is no 'orders.csv' in the sandbox: if it is a file of yours, --file orders.csv puts a "
      "copy beside the script." },
    { "shell", "ls: cannot access 'orders.csv': No such file or directory\n",
      "There is no 'orders.csv' in the sandbox: if it is a file of yours, --file orders.csv puts a "
      "copy beside the script." },
    { "shell", "cat: Sale.csv: No such file or directory\n",
      "There is no 'Sale.csv' in the sandbox; did you mean 'Sales.csv'?" },

    /* ---- tools */
    { "node", "Error: spawn ffmpeg ENOENT" STACK,
      "There is no program 'ffmpeg' in the sandbox: " INSTALL },
    { "node",
      "node:child_process:965\n    throw err;\n    ^\n\nError: Command failed: jq . "
      "x.json\n/bin/sh: "
      "1: jq: not found\n" STACK,
      "There is no program 'jq' in the sandbox: " INSTALL },
    { "node", "Error: Command failed: jq . x.json\n/bin/sh: line 1: jq: command not found\n" STACK,
      "There is no program 'jq' in the sandbox: " INSTALL },
    { "python",
      HEAD FRAME("/usr/lib/python3.13/subprocess.py", "_execute_child",
                 "raise child_exception") "FileNotFoundError: [Errno 2] No such file or directory: "
                                          "'ffmpeg'\n",
      "There is no program 'ffmpeg' in the sandbox: " INSTALL },
    { "python",
      TRACE "pytesseract.pytesseract.TesseractNotFoundError: tesseract is not installed\n",
      "There is no program 'tesseract' in the sandbox: " INSTALL },
    { "python",
      TRACE "graphviz.backend.execute.ExecutableNotFound: failed to execute PosixPath('dot'), make "
            "sure the Graphviz executables are on your systems' PATH\n",
      "There is no program 'dot' in the sandbox: " INSTALL },
    { "python",
      TRACE "pdf2image.exceptions.PDFInfoNotInstalledError: Unable to get page count. Is poppler "
            "installed and in PATH?\n",
      "There is no program 'pdftoppm' in the sandbox: " INSTALL },
    { "bash", "/workspace/x.sh: line 3: ffmpeg: command not found\n",
      "There is no program 'ffmpeg' in the sandbox: " INSTALL },
    { "shell", "/workspace/x.sh: 3: ffmpeg: not found\n",
      "There is no program 'ffmpeg' in the sandbox: " INSTALL },
    { "shell", "/workspace/x.sh: 3: [[: not found\n",
      "'[[' is a word of bash, and this ran in sh: --language bash" },
    { "shell", "ERROR: page: not found\n", "" },
    { "shell", "/usr/bin/env: 'tea': No such file or directory\n",
      "There is no program 'tea' in the sandbox: " INSTALL },
    { "shell", "/usr/bin/env: ‘tea’: No such file or directory\n",
      "There is no program 'tea' in the sandbox: " INSTALL },
    { "shell", "/workspace/x.sh: 1: sudo: not found\n", ROOT },
    { "shell", "/workspace/x.sh: 1: apt-get: not found\n", SYSTEM },
    { "shell", "/workspace/x.sh: 1: python: not found\n", "Here Python is called python3." },
    { "shell", "/workspace/x.sh: 1: pip: not found\n",
      "There is no pip in the sandbox: packages come with --with NAME." },
    { "shell",
      "sudo: The \"no new privileges\" flag is set, which prevents sudo from running as "
      "root.\nsudo: If sudo is running in a container, you may need to adjust it.\n",
      ROOT },
    { "shell", "sudo: effective uid is not 0, is sudo installed setuid root?\n", ROOT },
    { "shell", "su: must be suid to work properly\n", ROOT },
    { "shell",
      "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission "
      "denied)\nE: Unable to acquire the dpkg frontend lock, are you root?\n",
      SYSTEM },
    { "shell", "E: List directory /var/lib/apt/lists/partial is missing. - Acquire (30)\n",
      SYSTEM },
    { "shell", "E: Unable to locate package ffmpeg\n", SYSTEM },
    { "shell",
      "error: externally-managed-environment\n\n× This environment is externally "
      "managed\n",
      "Packages come with --with NAME, not with pip." },

    /* ---- what is set, typed and read */
    { "python",
      HEAD FRAME("/workspace/x.py", "<module>", "os.environ['TEA_KEY']")
          FRAME("<frozen os>", "__getitem__", "raise KeyError(key)") "KeyError: 'TEA_KEY'\n",
      "The variable TEA_KEY is not set inside: --env TEA_KEY gives the script yours, --env "
      "TEA_KEY=VALUE another." },
    { "python", TRACE "KeyError: 'TEA_KEY'\n", "" },
    { "python",
      TRACE "openai.OpenAIError: The api_key client option must be set either by passing api_key "
            "to the client or by setting the OPENAI_API_KEY environment variable\n",
      "The variable OPENAI_API_KEY is not set inside: --env OPENAI_API_KEY gives the script yours, "
      "--env OPENAI_API_KEY=VALUE another." },
    { "bash", "/workspace/x.sh: line 2: TEA_KEY: unbound variable\n",
      "The variable TEA_KEY is not set inside: --env TEA_KEY gives the script yours, --env "
      "TEA_KEY=VALUE another." },
    { "bash", "/workspace/x.sh: line 2: count: unbound variable\n", "" },
    { "shell", "/workspace/x.sh: 2: TEA_KEY: parameter not set\n",
      "The variable TEA_KEY is not set inside: --env TEA_KEY gives the script yours, --env "
      "TEA_KEY=VALUE another." },
    { "python", TRACE "EOFError: EOF when reading a line\n",
      "The program asked for input and there was none: give it by a pipe, such as: echo yes | "
      "sbxctl run SCRIPT" },
    { "python",
      TRACE "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe4 in position 12: invalid "
            "continuation byte\n",
      "The text is not in UTF-8: read it with encoding='cp1252' or encoding='latin-1', which most "
      "other Western text is in." },
    { "python",
      TRACE "UnicodeDecodeError: 'utf-8' codec can't decode bytes in position 0-1: invalid "
            "continuation byte\n",
      "The text is not in UTF-8: read it with encoding='cp1252' or encoding='latin-1', which most "
      "other Western text is in." },
    { "python",
      TRACE "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x8b in position 1: invalid start "
            "byte\n",
      "The data are compressed by gzip: read them with gzip.open(), or with compression='gzip'." },
    { "python",
      TRACE "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start "
            "byte\n",
      "The text is in UTF-16: read it with encoding='utf-16'." },
    { "python",
      TRACE "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x89 in position 0: invalid start "
            "byte\n",
      "That is no text: open the file as bytes, with mode 'rb', or by a library for its format." },
    { "python",
      TRACE
      "UnicodeDecodeError: 'ascii' codec can't decode byte 0xc3 in position 3: ordinal not in "
      "range(128)\n",
      "The text is not ASCII: read it with encoding='utf-8'." },
    { "python",
      TRACE "UnicodeEncodeError: 'ascii' codec can't encode character '\\xe4' in position 0\n",
      "A file is written in ASCII: open it with encoding='utf-8'." },
    { "python",
      TRACE "UnicodeEncodeError: 'latin-1' codec can't encode character '\\u20ac' in position 0\n",
      "A file is written in Latin-1, which lacks this character: open it with encoding='utf-8'." },
    { "python",
      TRACE "UnicodeEncodeError: 'charmap' codec can't encode character '\\u20ac' in position 0\n",
      "A file is written in an encoding that lacks this character: open it with "
      "encoding='utf-8'." },

    /* ---- displays and devices */
    { "python", TRACE "_tkinter.TclError: no display name and no $DISPLAY environment variable\n",
      DISPLAY },
    { "python", TRACE "_tkinter.TclError: couldn't connect to display \":0\"\n", DISPLAY },
    { "python",
      TRACE "ImportError: Cannot load backend 'TkAgg' which requires the 'tk' interactive "
            "framework, as 'headless' is currently running\n",
      "There is no display in a sandbox: leave matplotlib.use() out; show() saves the figures as "
      "files." },
    { "python",
      TRACE "cv2.error: OpenCV(4.9.0) window.cpp:1272: error: (-2:Unspecified error) The function "
            "is not implemented. Rebuild the library with Windows, GTK+ 2.x or Cocoa support.\n",
      "There is no display in a sandbox: write images with cv2.imwrite() instead of "
      "cv2.imshow()." },
    { "python", TRACE "pygame.error: No available video device\n", DISPLAY },
    { "python", TRACE "Xlib.error.DisplayNameError: Bad display name \"\"\n", DISPLAY },
    { "python", TRACE "Xlib.error.DisplayConnectionError: Can't connect to display\n", DISPLAY },
    { "python", TRACE "pyglet.display.xlib.NoSuchDisplayException: Cannot connect to \"None\"\n",
      DISPLAY },
    { "python",
      "qt.qpa.xcb: could not connect to display \nqt.qpa.plugin: Could not load the Qt platform "
      "plugin \"xcb\" in \"\" even though it was found.\nThis application failed to start.\n\n"
      "Available platform plugins are: offscreen, xcb.\n",
      DISPLAY },
    { "shell", "xclock: cannot open display: \n", DISPLAY },
    { "shell", "Error: Can't open display: \n", DISPLAY },
    { "node", "Error: Missing X server or $DISPLAY" STACK, DISPLAY },
    { "python", TRACE "RuntimeError: Found no NVIDIA driver on your system. Please check it.\n",
      GPU },
    { "python", TRACE "AssertionError: Torch not compiled with CUDA enabled\n", GPU },
    { "python", TRACE "RuntimeError: No CUDA GPUs are available\n", GPU },
    { "python",
      TRACE "RuntimeError: Attempting to deserialize object on a CUDA device but "
            "torch.cuda.is_available() is False.\n",
      GPU },

    /* ---- mistakes of writing */
    { "python",
      "  File \"/workspace/x.py\", line 3\n    if x\n        ^\nSyntaxError: expected ':'\n",
      "Python cannot read line 3 of x.py, so nothing of it was run." },
    { "python",
      "  File \"/workspace/x.py\", line 3\n    print 4\n    ^^^^^^^\nSyntaxError: Missing "
      "parentheses "
      "in call to 'print'. Did you mean print(...)?\n",
      "Line 3 of x.py is written for Python 2, and this is Python 3." },
    { "python",
      "  File \"/workspace/x.py\", line 1\n    ```python\n    ^\nSyntaxError: invalid syntax\n",
      "Line 1 of x.py is a mark of Markdown: leave out the lines with ```." },
    { "python",
      "  File \"/workspace/x.py\", line 4\n    y = 1\nIndentationError: unexpected indent\n",
      "Python cannot read line 4 of x.py, so nothing of it was run." },
    { "python", "  File \"/workspace/x.py\", line 4\n    y = 1\nTabError: inconsistent use\n",
      "Python cannot read line 4 of x.py, so nothing of it was run." },
    { "python",
      TRACE "  File \"<string>\", line 1\n    if x\n        ^\nSyntaxError: expected ':'\n", "" },
    { "node",
      "/workspace/x.js:1\nimport fs from 'fs';\n^^^^^^\n\nSyntaxError: Cannot use import statement "
      "outside a module\n    at internalCompileFunction (node:internal/vm:76:18)\n\nNode.js "
      "v20.19.2\n",
      "import works in modules only: give the script a name that ends in .mjs, or use require()." },
    { "node", "ReferenceError: require is not defined in ES module scope" STACK,
      "require() does not work in modules: give the script a name that ends in .cjs, or use "
      "import." },
    { "node",
      "/workspace/x.js:2\nlet x = ;\n        ^\n\nSyntaxError: Unexpected token ';'\n    at "
      "wrapSafe (node:internal/modules/cjs/loader:1378:20)\n\nNode.js v20.19.2\n",
      "Node cannot read line 2 of x.js, so nothing of it was run." },
    { "node",
      "undefined:1\n{bad\n ^\n\nSyntaxError: Expected property name in JSON at position 1\n    at "
      "JSON.parse (<anonymous>)\n    at Object.<anonymous> (/workspace/x.js:1:6)\n\nNode.js "
      "v20.19.2\n",
      "" },
    { "shell", "/workspace/x.sh: 3: Syntax error: \"(\" unexpected\n",
      "The shell cannot read line 3 of x.sh; if it is written for bash: --language bash" },
    { "bash",
      "/workspace/x.sh: line 3: syntax error near unexpected token `fi'\n/workspace/x.sh: line 3: "
      "`fi'\n",
      "The shell cannot read line 3 of x.sh." },
};

static void each_kind_of_last_words_has_its_hint(void **state)
{
    bool failed_one = false;

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        const char *got = hint_in(cases[i].language, cases[i].said);
        if (strcmp(got, cases[i].hint) == 0)
            continue;
        failed_one = true;
        print_error("%s: %s\n  got:    %s\n  wanted: %s\n", cases[i].language, cases[i].said, got,
                    cases[i].hint);
    }
    assert_false(failed_one);
}

static void what_was_got_over_explains_nothing(void **state)
{
    static const char *const said[] = {
        /* logged, and the program went on */
        "WARNING: no YAML\n" TRACE "ModuleNotFoundError: No module named 'yaml'\nusage: x FILE\n",
        /* handled, and then something else failed */
        TRACE "ModuleNotFoundError: No module named 'yaml'\n\nDuring handling of the above "
              "exception, another exception occurred:\n\n" TRACE "ValueError: no\n",
        "Error: Cannot find module 'chalk'\nRequire stack:\n- /workspace/x.js" STACK
        "giving up: bad input\n",
        "cat: x.csv: No such file or directory\nx: too few rows\n",
        "Traceback (most recent call last):\n  File \"/workspace/x.py\", line",
        "",
        "\n\n",
    };

    for (size_t i = 0; i < ELEMENTS(said); i++) {
        assert_string_equal(hint_in("python", said[i]), "");
        assert_string_equal(hint_in("node", said[i]), "");
    }
}

static void cause_of_an_exception_explains_it(void **state)
{
    static const char cause[] =
        TRACE "ModuleNotFoundError: No module named 'yaml'\n\nThe above exception was the direct "
              "cause of the following exception:\n\n" TRACE "app.Broken: no settings\n";
    static const char group[] =
        "  + Exception Group Traceback (most recent call last):\n  |   File \"/workspace/x.py\", "
        "line "
        "3, in <module>\n  |     main()\n  | ExceptionGroup: two (2 sub-exceptions)\n  "
        "+-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   "
        "File \"/workspace/x.py\", line 5, in f\n    |     import yaml\n    | ModuleNotFoundError: "
        "No "
        "module named 'yaml'\n    +---------------- 2 ----------------\n    | ValueError: x\n    "
        "+------------------------------------\n";
    static const char child[] =
        "cat: orders.csv: No such file or directory\n" TRACE
        "subprocess.CalledProcessError: Command '['cat', 'orders.csv']' returned non-zero exit "
        "status 1.\n";

    assert_non_null(strstr(hint_in("python", cause), "--with pyyaml"));
    assert_non_null(strstr(hint_in("python", group), "--with pyyaml"));
    assert_non_null(strstr(hint_in("python", child), "--file orders.csv"));
}

static void packages_are_offered_only_where_they_can_be_had(void **state)
{
    static const char said[] = TRACE "ModuleNotFoundError: No module named 'yaml'\n";
    char *allowed[] = { (char *)"numpy", NULL }, *denied[] = { NULL };
    struct config_packages rules = { .allowed = allowed, .denied = denied };
    struct facts facts = failed("python");

    facts.packages = &rules;
    assert_string_equal(hint(&facts, said),
                        "The module yaml is missing; a package has it: the package pyyaml would "
                        "have it, and the administrator does not allow that.");
    facts.may_have_packages = false;
    assert_string_equal(hint(&facts, said), "");
    facts.cloud = true;
    assert_string_equal(
        hint(&facts, said),
        "The module yaml is missing; a package has it: choose a --template that has "
        "it, or an --engine of this machine and --with pyyaml");
    assert_string_equal(hint_in("perl", said), "");
}

static void other_engines_have_other_ways_to_a_program(void **state)
{
    static const char said[] = "/workspace/x.sh: 3: ffmpeg: not found\n";
    struct facts facts = failed("shell");

    facts.images = true;
    assert_string_equal(hint(&facts, said), "There is no program 'ffmpeg' in the sandbox: choose "
                                            "an --image that has it.");
    facts.images = false;
    facts.cloud = true;
    assert_string_equal(hint(&facts, said), "There is no program 'ffmpeg' in the sandbox: choose a "
                                            "--template that has it.");
    assert_string_equal(hint(&facts, TRACE "MemoryError\n"),
                        "Use less memory at a time, or a template that has more, with --template.");
}

static void workers_are_blamed_only_if_some_were_refused(void **state)
{
    struct facts facts = failed("python");

    facts.ended.task_refusals = 0;
    assert_string_equal(hint(&facts, TRACE "RuntimeError: can't start new thread\n"), "");
}

static void not_executable_file_is_told_from_a_forbidden_one(void **state)
{
    struct facts facts = failed("shell");

    facts.exited.value = 126;
    assert_string_equal(hint(&facts, "/workspace/x.sh: 1: ./y.sh: Permission denied\n"),
                        "./y.sh is not executable: name its interpreter, as in: sh ./y.sh");
}

static void names_of_strangers_are_escaped_and_hints_stay_short(void **state)
{
    char said[5000];

    assert_string_equal(hint_in("python", TRACE "FileNotFoundError: [Errno 2] No such file or "
                                                "directory: 'a\x1b[2Jb.csv'\n"),
                        "");
    snprintf(said, sizeof(said), TRACE "ModuleNotFoundError: No module named '%0200d'\n", 7);
    assert_true(strlen(hint_in("python", said)) < HINT_MAX);
    snprintf(said, sizeof(said), TRACE "ModuleNotFoundError: No module named '%04000d'\n", 7);
    assert_string_equal(hint_in("python", said), "");
}

static void modules_lead_to_their_packages(void **state)
{
    static const char *const pairs[][2] = {
        { "Bio", "biopython" },
        { "PIL", "pillow" },
        { "bs4", "beautifulsoup4" },
        { "cv2", "opencv-python-headless" },
        { "dateutil", "python-dateutil" },
        { "docx", "python-docx" },
        { "dotenv", "python-dotenv" },
        { "fitz", "PyMuPDF" },
        { "git", "GitPython" },
        { "jwt", "PyJWT" },
        { "mysql.connector", "mysql-connector-python" },
        { "numpy", "numpy" },
        { "pptx", "python-pptx" },
        { "serial", "pyserial" },
        { "skimage", "scikit-image" },
        { "sklearn", "scikit-learn" },
        { "yaml", "PyYAML" },
        { "zmq", "pyzmq" },
    };

    for (size_t i = 0; i < ELEMENTS(pairs); i++)
        assert_string_equal(package_of_module(pairs[i][0]), pairs[i][1]);
    assert_null(package_of_module("helpers"));
    assert_null(package_of_module("os"));
    assert_null(package_of_module(""));
}

static void modules_of_node_are_no_packages(void **state)
{
    assert_true(node_has_module("fs"));
    assert_true(node_has_module("node:sqlite"));
    assert_false(node_has_module("sqlite"));
    assert_false(node_has_module("lodash"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_last_words_has_its_hint),
        cmocka_unit_test(what_was_got_over_explains_nothing),
        cmocka_unit_test(cause_of_an_exception_explains_it),
        cmocka_unit_test(packages_are_offered_only_where_they_can_be_had),
        cmocka_unit_test(other_engines_have_other_ways_to_a_program),
        cmocka_unit_test(workers_are_blamed_only_if_some_were_refused),
        cmocka_unit_test(not_executable_file_is_told_from_a_forbidden_one),
        cmocka_unit_test(names_of_strangers_are_escaped_and_hints_stay_short),
        cmocka_unit_test(modules_lead_to_their_packages),
        cmocka_unit_test(modules_of_node_are_no_packages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
