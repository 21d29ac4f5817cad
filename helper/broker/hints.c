/* The table of what programs say when they fail, and what to try then, see hints.h. A row must be
 * so exact that its hint cannot be wrong; each has its test in tests/unit/test-hints.c. */
#include "broker/hint-file.h"
#include "broker/hint-internal.h"
#include "common/cleanup.h"
#include "common/escape.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PY (1U << COMPLAINT_PYTHON)
#define ND (1U << COMPLAINT_NODE)
#define LN (1U << COMPLAINT_LINE)
#define ANY (PY | ND | LN)

#define NETWORK_RANK 5 /* programs go on about a network after the line that matters */

#define DISPLAY                                                                                \
    "There is no display in a sandbox: save to a file instead of opening a window. show() of " \
    "matplotlib, plotly and PIL does that by itself."
#define NO_GPU "There is no GPU in a sandbox: let the program use the CPU."
#define INPUT_ENDED                                                                \
    "The program asked for input and there was none: give it by a pipe, such as: " \
    "echo yes | sbxctl run SCRIPT"
#define NLTK                                                                                 \
    "NLTK's data are not in the sandbox: fetch them where there is a network, and give the " \
    "folder "                                                                                \
    "nltk_data with --file."

static const struct row rows[] = {
    /* Modules. */
    { PY, "ModuleNotFoundError", "No module named '*'", MODULE },
    { PY, "AttributeError", "partially initialized module '*' has no attribute", MODULE },
    { PY, "ImportError", "Missing optional dependency '*'", PACKAGE },
    { PY, "ImportError", "Unable to find a usable engine; tried using: '*'", PACKAGE, .rank = 3 },
    { PY, "ImportError", "lxml not found, please install", PACKAGE, "lxml" },
    { PY, "ImportError", "libGL.so.1: cannot open shared object", PACKAGE,
      "opencv-python-headless" },
    { PY, "FeatureNotFound", "you requested: xml.", PACKAGE, "lxml" },
    { PY, "FeatureNotFound", "you requested: lxml-xml.", PACKAGE, "lxml" },
    { PY, "FeatureNotFound", "features you requested: *. Do you need to install", PACKAGE },
    { PY, "ValueError", "requires the kaleido package", PACKAGE, "kaleido", 3 },
    { LN, NULL, "python3: No module named *", MODULE },
    { PY, "LookupError", "NLTK Downloader", SAY, NLTK, 4 },
    { ND, NULL, "^ Cannot find module '*'", NODE_MODULE },
    { ND, NULL, "^ Cannot find package '*'", NODE_MODULE },
    { ND, NULL, "^ No such built-in module: *", SAY,
      "This Node is too old to have *: an --image or --engine with a newer one has it." },
    { LN, NULL, "No matching distribution found for *", PIP, .rank = 3 },

    /* The network. */
    { PY | LN, NULL, "Temporary failure in name resolution", NETWORK, .rank = NETWORK_RANK },
    { PY | LN, NULL, "Name or service not known", NETWORK, .rank = NETWORK_RANK },
    { PY, NULL, "No address associated with hostname", NETWORK },
    { ND | LN, NULL, "getaddrinfo EAI_AGAIN", NETWORK, .rank = NETWORK_RANK },
    { ND | LN, NULL, "getaddrinfo ENOTFOUND", NETWORK, .rank = NETWORK_RANK },
    { ND | LN, NULL, "ENETUNREACH", NETWORK, .rank = NETWORK_RANK },
    { ANY, NULL, "Could not resolve host", NETWORK, .rank = NETWORK_RANK },
    { LN, NULL, "unable to resolve host address", NETWORK, .rank = NETWORK_RANK },
    { ANY, NULL, "Network is unreachable", NETWORK, .rank = NETWORK_RANK },
    { ANY, NULL, "net::ERR_NAME_NOT_RESOLVED", NETWORK },
    { ANY, NULL, "net::ERR_INTERNET_DISCONNECTED", NETWORK },
    { PY, "ConnectionRefusedError", "Connection refused", LOCALHOST },
    { PY, "ConnectionRefusedError", "Connect call failed ('127.0.0.1'", LOCALHOST },
    { ANY, NULL, "connect ECONNREFUSED 127.0.0.1", LOCALHOST },
    { ANY, NULL, "connect ECONNREFUSED ::1", LOCALHOST },
    { ANY, NULL, "\"localhost\" (127.0.0.1), port * failed: Connection refused", LOCALHOST },
    { ANY, NULL, "Can't connect to MySQL server on '127.0.0.1", LOCALHOST },
    { ANY, NULL, "Can't connect to MySQL server on 'localhost", LOCALHOST },
    { ANY, NULL, "connecting to localhost:*. Connection refused", LOCALHOST },
    { PY, "ServerSelectionTimeoutError", "localhost:", LOCALHOST },
    { PY, NULL, "(host='localhost', port=*): Max retries", LOCALHOST },
    { PY, NULL, "(host='127.0.0.1', port=*): Max retries", LOCALHOST },
    { LN, NULL, "Failed to connect to localhost port", LOCALHOST },
    { LN, NULL, "Failed to connect to 127.0.0.1 port", LOCALHOST },

    /* What a run may use. */
    { PY, "_ArrayMemoryError", "Unable to allocate * for an array", MEMORY },
    { PY, "MemoryError", "Unable to allocate * for an array", MEMORY },
    { PY, "MemoryError", "", MEMORY },
    { PY, "ArrowMemoryError", "", MEMORY },
    { PY, "OSError", "[Errno 12] Cannot allocate memory", MEMORY },
    { ND, NULL, "JavaScript heap out of memory", MEMORY },
    { ND, NULL, "Array buffer allocation failed", MEMORY },
    { LN, NULL, "JavaScript heap out of memory", MEMORY, .rank = 7 },
    { LN, NULL, "Cannot allocate memory", MEMORY },
    { LN, NULL, "what():  std::bad_alloc", MEMORY },
    { LN, NULL, "memory exhausted", MEMORY },
    { PY, "RuntimeError", "can't start new thread", TASKS },
    { PY, "BlockingIOError", "[Errno 11] Resource temporarily unavailable", TASKS },
    { ND, NULL, " EAGAIN", TASKS },
    { LN, NULL, "Resource temporarily unavailable", TASKS, .rank = 2 },
    { LN, NULL, "pthread_create failed", TASKS, .rank = 5 },
    { ANY, NULL, "No space left on device", SPACE },
    { ANY, NULL, "database or disk is full", SPACE },
    { ND, NULL, "ENOSPC", SPACE },

    /* Where files may be. */
    { PY, "OSError", "[Errno 30] Read-only file system: '*'", PLACE },
    { ND, NULL, "EROFS: read-only file system, * '", PLACE },
    { LN, NULL, "*: Read-only file system", PLACE },
    { PY, "PermissionError", "[Errno 13] Permission denied: '*'", PERMISSION },
    { ND, NULL, "EACCES: permission denied, * '", PERMISSION },
    { LN, NULL, "*: Permission denied", PERMISSION },
    { ND, NULL, "^ spawn * ENOENT", TOOL },
    { LN, NULL, "/usr/bin/env: '*': No such file", TOOL },
    { LN, NULL, "/usr/bin/env: ‘*’: No such file", TOOL },
    { ND, NULL, "/bin/sh: 1: *: not found", TOOL, .rank = 3 },
    { ND, NULL, "/bin/sh: line 1: *: command not found", TOOL, .rank = 3 },
    { PY, "FileNotFoundError", "[Errno 2] No such file or directory: '*'", INPUT },
    { PY, "FileNotFoundError", "[Errno 2] No such file or directory: b'*'", INPUT },
    { PY, "FileNotFoundError", "^ File b'*' does not exist", INPUT },
    { PY, "FileNotFoundError", "^ * not found.", INPUT },
    { PY, "FileNotFoundError", "unable to open file: name = '*'", INPUT },
    { PY, "IOException", "No files found that match the pattern \"*\"", INPUT },
    { ND, NULL, "ENOENT: no such file or directory, * '", INPUT },
    { LN, NULL, "[Errno 2] No such file or directory: '*'", INPUT },
    { LN, NULL, "ENOENT: no such file or directory, open '*'", INPUT },
    { LN, NULL, "No such file or directory @ rb_sysopen - * (Errno", INPUT },
    { LN, NULL, "cannot open *: No such file", INPUT },
    { LN, NULL, "*: No such file or directory", INPUT },

    /* Tools. */
    { PY, "TesseractNotFoundError", "", SAY, "*tesseract" },
    { PY, "ExecutableNotFound", "failed to execute PosixPath('*')", TOOL },
    { PY, "PDFInfoNotInstalledError", "", SAY, "*pdftoppm" },
    { LN, NULL, "*: command not found", SHELL_TOOL },
    { LN, NULL, "*: not found", SHELL_TOOL },
    { LN, NULL, "sudo: The \"no new privileges\" flag is set", SAY, NO_ROOT, .rank = 2 },
    { LN, NULL, "sudo: effective uid is not 0", SAY, NO_ROOT },
    { LN, NULL, "su: must be suid to work properly", SAY, NO_ROOT },
    { LN, NULL, "E: Could not open lock file /var/lib/", SAY, NO_SYSTEM_PACKAGES, .rank = 3 },
    { LN, NULL, "E: List directory /var/lib/apt/lists/partial is missing", SAY, NO_SYSTEM_PACKAGES,
      .rank = 3 },
    { LN, NULL, "E: Unable to locate package", SAY, NO_SYSTEM_PACKAGES },
    { LN, NULL, "error: externally-managed-environment", SAY,
      "Packages come with --with NAME, not with pip.", .rank = 7 },

    /* What is set, typed and read. */
    { PY, "KeyError", "^ '*'", VARIABLE },
    { PY, NULL, "by setting the * environment variable", VARIABLE },
    { LN, NULL, "*: unbound variable", VARIABLE },
    { LN, NULL, "*: parameter not set", VARIABLE },
    { PY, "EOFError", "^ EOF when reading a line", SAY, INPUT_ENDED },
    { PY, "UnicodeDecodeError", "codec can't decode byte * in position", UNICODE },
    { PY, "UnicodeDecodeError", "codec can't decode bytes in position", UNICODE },
    { PY, "UnicodeEncodeError", "'ascii' codec can't encode", SAY,
      "A file is written in ASCII: open it with encoding='utf-8'." },
    { PY, "UnicodeEncodeError", "'latin-1' codec can't encode", SAY,
      "A file is written in Latin-1, which lacks this character: open it with encoding='utf-8'." },
    { PY, "UnicodeEncodeError", "'charmap' codec can't encode", SAY,
      "A file is written in an encoding that lacks this character: open it with "
      "encoding='utf-8'." },

    /* Displays and devices. */
    { PY, "TclError", "no display name and no $DISPLAY", SAY, DISPLAY },
    { PY, "TclError", "couldn't connect to display", SAY, DISPLAY },
    { PY, "ImportError", "as 'headless' is currently running", SAY,
      "There is no display in a sandbox: leave matplotlib.use() out; show() saves the figures as "
      "files." },
    { PY, NULL, "The function is not implemented. Rebuild the library with Windows, GTK", SAY,
      "There is no display in a sandbox: write images with cv2.imwrite() instead of "
      "cv2.imshow()." },
    { PY, "error", "No available video device", SAY, DISPLAY },
    { PY, "DisplayNameError", "", SAY, DISPLAY },
    { PY, "DisplayConnectionError", "", SAY, DISPLAY },
    { PY, "NoSuchDisplayException", "", SAY, DISPLAY },
    { PY | LN, NULL, "could not connect to display", SAY, DISPLAY, .rank = 7 },
    { PY | LN, NULL, "cannot open display", SAY, DISPLAY, .rank = 2 },
    { PY | LN, NULL, "Can't open display", SAY, DISPLAY, .rank = 2 },
    { ND | LN, NULL, "Missing X server or $DISPLAY", SAY, DISPLAY, .rank = 3 },
    { PY, NULL, "Found no NVIDIA driver on your system", SAY, NO_GPU },
    { PY, NULL, "Torch not compiled with CUDA enabled", SAY, NO_GPU },
    { PY, NULL, "No CUDA GPUs are available", SAY, NO_GPU },
    { PY, NULL, "Attempting to deserialize object on a CUDA device", SAY, NO_GPU },

    /* Mistakes of writing. */
    { PY, "SyntaxError", "", PYTHON_SYNTAX },
    { PY, "IndentationError", "", PYTHON_SYNTAX },
    { PY, "TabError", "", PYTHON_SYNTAX },
    { ND, "SyntaxError", "^ Cannot use import statement outside a module", SAY,
      "import works in modules only: give the script a name that ends in .mjs, or use require()." },
    { ND, "ReferenceError", "^ require is not defined", SAY,
      "require() does not work in modules: give the script a name that ends in .cjs, or use "
      "import." },
    { ND, "SyntaxError", "", NODE_SYNTAX },
    { LN, NULL, ": Syntax error: ", SHELL_SYNTAX, .rank = 1 },
    { LN, NULL, ": syntax error", SHELL_SYNTAX, .rank = 3 },
};

/* ---- advice */

__attribute__((format(printf, 2, 3))) bool hint_say(const struct hint_case *c, const char *format,
                                                    ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(c->ret, HINT_MAX, format, args);
    va_end(args);
    return true;
}

bool hint_is_language(const struct facts *facts, const char *name)
{
    return facts->language && strcmp(facts->language, name) == 0;
}

static bool say_permission(const struct hint_case *c)
{
    const char *name = c->name;

    if (hint_place(name, c->ret))
        return true;
    /* Found, and not to be executed: that is what the shell's status 126 means. */
    if (c->complaint->kind == COMPLAINT_LINE && c->facts->have_exited &&
        c->facts->exited.value == 126 && strlen(name) < 80)
        return hint_say(c, "%s is not executable: name its interpreter, as in: sh %s", name, name);
    return false;
}

/* What the program was doing when a file was not there. */
static bool is_output(const struct complaint *complaint)
{
    static const char *const python[] = { "savefig(",    "to_csv(", "to_excel(",   "to_json(",
                                          "to_parquet(", "mkdir(",  ".save(",      ", 'w",
                                          ", \"w",       ",'w",     ",\"w",        "mode='w",
                                          "mode=\"w",    ", 'a'",   "write_text(", "write_bytes(",
                                          "write_html(" };
    static const char *const node[] = { "writeFile", "mkdir", "createWriteStream", "WriteStream",
                                        "appendFile" };
    bool is_node = complaint->kind == COMPLAINT_NODE;

    for (size_t i = 0; i < ELEMENTS(python) && !is_node; i++)
        if (hint_span_has(complaint->trace, python[i]))
            return true;
    for (size_t i = 0; i < ELEMENTS(node) && is_node; i++)
        if (hint_span_has(complaint->text, node[i]))
            return true;
    return false;
}

/* Python's subprocess says of a program what open() says of a file. */
static bool say_input(const struct hint_case *c)
{
    const struct complaint *complaint = c->complaint;
    bool is_program = complaint->kind == COMPLAINT_PYTHON &&
                      (hint_span_has(complaint->trace, "in _execute_child") ||
                       hint_span_has(complaint->trace, "in _execvpe"));

    if (is_program)
        return hint_tool(c, c->name);
    return hint_missing_file(c->facts, c->name, is_output(complaint), c->ret);
}

static bool say_pip(const struct hint_case *c)
{
    if (c->facts->limits->network)
        return false;
    return hint_with(c, ECOSYSTEM_PYTHON, c->name, "pip has no network here; instead of it:") ||
           hint_network(c);
}

/* The row's text, with the name in the place of its star. */
static bool say_text(const struct hint_case *c)
{
    const char *text = c->row->text, *star = strchr(text, '*');

    if (star == text)
        return hint_tool(c, text + 1);
    if (!star)
        return hint_say(c, "%s", text);
    return hint_say(c, "%.*s%.60s%s", (int)(star - text), text, c->name, star + 1);
}

static bool advise(const struct hint_case *c)
{
    switch (c->row->advice) {
    case SAY:
        return say_text(c);
    case MODULE:
        return hint_module(c);
    case PACKAGE:
        return hint_with(c, ECOSYSTEM_PYTHON, c->row->text ? c->row->text : c->name,
                         "A package is missing:");
    case NODE_MODULE:
        return hint_node_module(c);
    case PIP:
        return say_pip(c);
    case NETWORK:
        return hint_network(c);
    case LOCALHOST:
        return hint_localhost(c);
    case MEMORY:
        return hint_more_memory(c);
    case TASKS:
        return hint_tasks(c);
    case SPACE:
        return hint_full(c);
    case PLACE:
        return hint_place(c->name, c->ret);
    case PERMISSION:
        return say_permission(c);
    case INPUT:
        return say_input(c);
    case TOOL:
        return hint_tool(c, c->name);
    case SHELL_TOOL:
        return hint_shell_tool(c);
    case VARIABLE:
        return hint_variable(c);
    case UNICODE:
        return hint_unicode(c);
    case PYTHON_SYNTAX:
        return hint_python_syntax(c);
    case NODE_SYNTAX:
        return hint_node_syntax(c);
    case SHELL_SYNTAX:
        return hint_shell_syntax(c);
    }
    return false;
}

/* ---- all of it */

static bool row_is_about(const struct row *row, const struct complaint *complaint,
                         struct span *ret_name)
{
    if (!(row->kinds & (1U << complaint->kind)) || complaint->rank > row->rank)
        return false;
    if (row->type && !hint_span_is(complaint->type, row->type))
        return false;
    return hint_matches(complaint->text, row->saying, ret_name);
}

bool hint_find(const struct facts *facts, char ret[HINT_MAX])
{
    struct complaint complaints[COMPLAINTS_MAX];
    size_t n = facts->said ? last_words(facts->said, facts->said_size, complaints) : 0;
    struct hint_case c = { .facts = facts, .ret = ret };

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < ELEMENTS(rows); j++) {
            struct span name;
            if (!row_is_about(&rows[j], &complaints[i], &name))
                continue;
            _cleanup_free_ char *shown = escape_text(name.at, name.size, sizeof(c.name) - 1);
            snprintf(c.name, sizeof(c.name), "%s", shown ? shown : "");
            c.row = &rows[j];
            c.complaint = &complaints[i];
            if (c.row->advice == NETWORK ? hint_refusal(&c) || advise(&c) : advise(&c))
                return true;
        }
    return hint_refusal(&c);
}
