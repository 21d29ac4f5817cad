/* Requests to the code interpreter, see interpreter.h. */
#include "interpreter.h"

#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"

/* It says that it lives every 5 s. */
#define SILENCE_USEC (90 * USEC_PER_SEC)

/* One cell, which runs the script as Python itself would: its own name and arguments, tracebacks
 * with its lines, its exit status; but its last expression is the cell's value. */
static const char cell[] =
    "def _sbxctl(directory, folder, argv):\n"
    "    import ast, os, sys, time, traceback\n"
    "    os.chdir(directory)\n"
    "    os.makedirs(folder, 0o700, exist_ok=True)\n"
    "    with open('/proc/vmstat') as lines, open(folder + '/oom', 'w') as kept:\n"
    "        kept.writelines(line.split()[1] + '\\n' for line in lines if "
    "line.startswith('oom_kill '))\n"
    "    open(folder + '/mark', 'w').close()\n"
    "    time.sleep(0.01)\n"
    "    sys.argv = argv\n"
    "    sys.path.insert(0, directory)\n"
    "    names = globals()\n"
    "    names['__file__'] = os.path.abspath(argv[0])\n"
    "    status, value = 0, None\n"
    "    try:\n"
    "        with open(argv[0], 'rb') as file:\n"
    "            tree = ast.parse(file.read(), argv[0])\n"
    "        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else "
    "None\n"
    "        exec(compile(tree, argv[0], 'exec', dont_inherit=True), names)\n"
    "        if last:\n"
    "            value = eval(compile(ast.Expression(last.value), argv[0], 'eval', "
    "dont_inherit=True), names)\n"
    "    except SystemExit as end:\n"
    "        status = 0 if end.code is None else end.code if isinstance(end.code, int) else 1\n"
    "        if status == 1 and end.code != 1:\n"
    "            print(end.code, file=sys.stderr)\n"
    "    except BaseException as error:\n"
    "        status = 1\n"
    "        own = isinstance(error, SyntaxError) and error.filename == argv[0]\n"
    "        traceback.print_exception(type(error), error, None if own else "
    "error.__traceback__.tb_next)\n"
    "    sys.stdout.flush(), sys.stderr.flush()\n"
    "    with open(folder + '/status', 'w') as file:\n"
    "        file.write(f'{status & 255}\\n')\n"
    "    return value\n";

/* ---- messages */

void interpreter_message_release(struct interpreter_message *message)
{
    json_object_put(message->object);
    message->object = NULL;
}

int interpreter_parse(const char *line, size_t size, struct interpreter_message *ret)
{
    static const struct {
        const char *name, *text;
        enum interpreter_type type;
    } kinds[] = {
        { "stdout", "text", INTERPRETER_STDOUT },    { "stderr", "text", INTERPRETER_STDERR },
        { "result", "text", INTERPRETER_RESULT },    { "error", "name", INTERPRETER_ERROR },
        { "end_of_execution", "", INTERPRETER_END },
    };
    json_object *object = NULL;

    if (json_parse_guarded(line, size, &object) < 0)
        return -EBADMSG;
    const char *type = json_get_string(object, "type");
    *ret = (struct interpreter_message){ INTERPRETER_NOTHING, NULL, object };
    if (!type) {
        interpreter_message_release(ret);
        return -EBADMSG;
    }
    for (size_t i = 0; i < ELEMENTS(kinds); i++)
        if (strcmp(type, kinds[i].name) == 0) {
            ret->type = kinds[i].type;
            ret->text = json_get_string(object, kinds[i].text);
        }
    return 0;
}

/* ---- the stream of them */

struct stream {
    const struct interpreter_run *run;
    char *line;
    size_t size;
    bool ended;
    char error[80]; /* of the kernel; empty: none */
};

static int print(struct stream *s, bool is_stderr, const char *text, const char *more)
{
    const struct envd_program *streams = s->run->streams;
    int r = text ? streams->output(is_stderr, text, strlen(text), streams->userdata) : 0;

    return r < 0 || !text || !more
               ? r
               : streams->output(is_stderr, more, strlen(more), streams->userdata);
}

static int handle(struct stream *s, const struct interpreter_message *message)
{
    switch (message->type) {
    case INTERPRETER_STDOUT:
    case INTERPRETER_STDERR:
        return print(s, message->type == INTERPRETER_STDERR, message->text, NULL);
    case INTERPRETER_RESULT:
        return print(s, false, shown_add(s->run->shown, message->object), "\n");
    case INTERPRETER_ERROR:
        snprintf(s->error, sizeof(s->error), "%.40s", message->text ? message->text : "an error");
        return 0;
    case INTERPRETER_END:
        s->ended = true;
        return 0;
    case INTERPRETER_NOTHING:
    default:
        return 0;
    }
}

static int handle_line(struct stream *s, const char *line, size_t size)
{
    struct interpreter_message message;

    /* What cannot be read tells nothing; the end must be told. */
    if (interpreter_parse(line, size, &message) < 0)
        return 0;
    int r = handle(s, &message);
    interpreter_message_release(&message);
    return r;
}

static int on_stream(const char *data, size_t size, void *userdata)
{
    struct stream *s = userdata;
    const struct envd_program *streams = s->run->streams;
    size_t at = 0;
    int r = 0;

    if (streams->full(streams->userdata))
        return HTTP_PAUSE;
    if (size > INTERPRETER_LINE_MAX - s->size)
        return -EMSGSIZE;
    char *longer = realloc(s->line, s->size + size + 1);
    if (!longer)
        return -ENOMEM;
    memcpy(longer + s->size, data, size);
    s->line = longer;
    /* Only what is new can hold the end of a line. */
    size_t seen = s->size;
    s->size += size;
    for (char *end; r >= 0 && (end = memchr(s->line + seen, '\n', s->size - seen));) {
        r = handle_line(s, s->line + at, (size_t)(end - s->line) - at);
        seen = at = (size_t)(end - s->line) + 1;
    }
    memmove(s->line, s->line + at, s->size - at);
    s->size -= at;
    return r;
}

/* ---- the request */

bool interpreter_takes(const struct config *config, const char *template_id,
                       const struct launch_program *program)
{
    size_t length = strlen(template_id);
    const char *name = strrchr(program->argv[0], '/');

    name = name ? name + 1 : program->argv[0];
    if (strncmp(name, "python", 6) != 0 || !program->argv[1] || program->argv[1][0] == '-')
        return false;
    for (const char *p = config->interpreters; *p; p += strspn(p, " ")) {
        size_t word = strcspn(p, " ");
        if (word == length && strncmp(p, template_id, length) == 0)
            return true;
        p += word;
    }
    return false;
}

static bool add_word(FILE *stream, const char *word)
{
    _cleanup_json_ json_object *text = json_object_new_string(word);

    /* A string of JSON is one of Python, too, as long as it has no surrogates: json-c writes UTF-8.
     */
    return text && fputs(json_text(text, &(size_t){ 0 }), stream) >= 0;
}

static char *make_code(const struct interpreter_run *run)
{
    char *code = NULL;
    size_t size;
    FILE *stream = open_memstream(&code, &size);

    if (!stream)
        return NULL;
    bool good = fprintf(stream, "%s_sbxctl(", cell) > 0;
    good = good && add_word(stream, run->program->directory) && fputs(", ", stream) >= 0;
    good = good && add_word(stream, run->folder) && fputs(", [", stream) >= 0;
    for (char *const *word = run->program->argv + 1; good && *word; word++)
        good = add_word(stream, *word) && fputs(", ", stream) >= 0;
    good = good && fputs("])", stream) >= 0;
    if (fclose(stream) != 0 || !good) {
        free(code);
        return NULL;
    }
    return code;
}

static json_object *make_body(const struct interpreter_run *run)
{
    _cleanup_free_ char *code = make_code(run);
    json_object *body = json_object_new_object();

    if (!code || json_add_string(body, "code", code) < 0 ||
        json_add(body, "env_vars", json_object_get(run->environment)) < 0) {
        json_object_put(body);
        return NULL;
    }
    return body;
}

/* Its port is not open: the template is another one than its name says. */
static bool is_absent(const struct http_reply *reply)
{
    return reply->status == 404 ||
           (reply->status == 502 && reply->text && strstr(reply->text, "port is not open"));
}

/* What stands in front of it lost it, and nobody knows when. */
static bool is_cut(const struct http_reply *reply)
{
    return (reply->status == 502 || reply->status == 504) && !is_absent(reply);
}

static int check_end(struct envd *envd, const struct stream *s, const struct http_reply *reply)
{
    char words[CLOUD_WORDS_MAX];

    if (is_absent(reply))
        return -ENOPROTOOPT;
    if (reply->status != 200) {
        cloud_words(reply, words);
        return cloud_fail(envd->cloud, -EREMOTEIO,
                          "The code interpreter refused the program (status %u): %s.",
                          reply->status, words);
    }
    if (s->error[0])
        return cloud_fail(envd->cloud, -EOWNERDEAD, "The code interpreter ended the program: %s.",
                          s->error);
    if (!s->ended)
        return cloud_fail(envd->cloud, -ECONNRESET,
                          "The code interpreter stopped talking before it told of the end.");
    return 0;
}

int interpreter_run(struct envd *envd, const struct cloud_sandbox *sandbox,
                    const struct interpreter_run *run, bool *ret_may_have_started)
{
    _cleanup_json_ json_object *body = make_body(run);
    struct stream s = { .run = run };
    struct http_reply reply = { 0 };
    char base[512], url[600];

    *ret_may_have_started = false;
    if (!body)
        return cloud_fail(envd->cloud, -ENOMEM, "Out of memory.");
    envd_url(envd->cloud->config, sandbox, INTERPRETER_PORT, base);
    snprintf(url, sizeof(url), "%s/execute", base);
    struct http_request request = {
        .method = "POST",
        .url = url,
        .headers = { envd->id, envd->token, "E2b-Sandbox-Port: 49999",
                     "Content-Type: application/json" },
        .silence_usec = SILENCE_USEC,
        .data = on_stream,
        .data_userdata = &s,
        .running = run->streams->running,
    };
    request.body = json_text(body, &request.body_size);
    int r = http_perform(&envd->cloud->http, &request, &reply);
    *ret_may_have_started = r < 0 ? !http_was_not_sent(r) : reply.status == 200 || is_cut(&reply);
    r = r < 0 ? cloud_fail_transport(envd->cloud, r, "The code interpreter")
              : check_end(envd, &s, &reply);
    free(s.line);
    http_reply_release(&reply);
    return r;
}
