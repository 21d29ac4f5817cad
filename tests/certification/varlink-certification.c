/* org.varlink.certification, by which implementations of varlink prove each other: as a server and
 * as a client, on our library alone. What a method answers is what the client hands to the next
 * one, and both sides look at every value on the way. Run by test_certification.py; never
 * installed.
 *
 *   varlink-certification serve INTERFACE-FILE    on the socket that a service manager passed
 *   varlink-certification bridge INTERFACE-FILE   on the connection that is its standard input
 *   varlink-certification client SOCKET           exit status 0: certified */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "common/varlink.h"

#define INTERFACE "org.varlink.certification"
#define CLIENTS_MAX 64
#define REPLIES 10
#define ANSWER_TIMEOUT_USEC (10 * 1000 * 1000ULL)

enum step {
    START,
    TEST01,
    TEST02,
    TEST03,
    TEST04,
    TEST05,
    TEST06,
    TEST07,
    TEST08,
    TEST09,
    TEST10,
    TEST11,
    END,
    N_STEPS
};

/* What each method answers, without the client_id, and so what the next one wants. Test10 answers
 * ten times with a string; what is here is what becomes of them. */
static const struct {
    const char *method, *answer;
} steps[N_STEPS] = {
    { "Start", "{}" },
    { "Test01", "{\"bool\":true}" },
    { "Test02", "{\"int\":1}" },
    { "Test03", "{\"float\":1.0}" },
    { "Test04", "{\"string\":\"ping\"}" },
    { "Test05", "{\"bool\":false,\"int\":2,\"float\":3.141592653589793,"
                "\"string\":\"a lot of string\"}" },
    { "Test06", "{\"struct\":{\"bool\":false,\"int\":2,\"float\":3.141592653589793,"
                "\"string\":\"a lot of string\"}}" },
    { "Test07", "{\"map\":{\"foo\":\"Foo\",\"bar\":\"Bar\"}}" },
    { "Test08", "{\"set\":{\"one\":{},\"two\":{},\"three\":{}}}" },
    { "Test09", "{\"mytype\":{"
                "\"object\":{\"method\":\"org.varlink.certification.Test09\","
                "\"parameters\":{\"map\":{\"foo\":\"Foo\",\"bar\":\"Bar\"}}},"
                "\"enum\":\"two\","
                "\"struct\":{\"first\":1,\"second\":\"2\"},"
                "\"array\":[\"one\",\"two\",\"three\"],"
                "\"dictionary\":{\"foo\":\"Foo\",\"bar\":\"Bar\"},"
                "\"stringset\":{\"one\":{},\"two\":{},\"three\":{}},"
                "\"nullable\":null,"
                "\"nullable_array_struct\":null,"
                "\"interface\":{\"foo\":[null,{\"foo\":\"foo\",\"bar\":\"bar\"},null,"
                "{\"one\":\"foo\",\"two\":\"bar\"}],"
                "\"anon\":{\"foo\":true,\"bar\":false}}}}" },
    { "Test10", "{\"last_more_replies\":["
                "\"Reply number 1\",\"Reply number 2\",\"Reply number 3\",\"Reply number 4\","
                "\"Reply number 5\",\"Reply number 6\",\"Reply number 7\",\"Reply number 8\","
                "\"Reply number 9\",\"Reply number 10\"]}" },
    { "Test11", "{}" },
    { "End", "{\"all_ok\":true}" },
};

/* ---- Values ---- */

/* Nothing here goes on without memory. */
static json_object *have(json_object *value)
{
    if (!value)
        errx(EXIT_FAILURE, "out of memory");
    return value;
}

static json_object *object_with(const char *key, json_object *value)
{
    json_object *object = have(json_object_new_object());

    if (json_add(object, key, value) < 0)
        errx(EXIT_FAILURE, "out of memory");
    return object;
}

static json_object *answer_of(enum step step)
{
    json_object *answer;

    if (json_parse_guarded(steps[step].answer, strlen(steps[step].answer), &answer) < 0)
        errx(EXIT_FAILURE, "the answer of %s is not JSON", steps[step].method);
    return answer;
}

/* A member that is null is one that is absent; an element that is null stays. */
static json_object *without_nulls(json_object *value)
{
    json_object *copy;

    if (json_object_is_type(value, json_type_array)) {
        copy = have(json_object_new_array());
        for (size_t i = 0; i < json_object_array_length(value); i++)
            json_object_array_add(copy, without_nulls(json_object_array_get_idx(value, i)));
        return copy;
    }
    if (!json_object_is_type(value, json_type_object))
        return json_object_get(value);
    copy = have(json_object_new_object());
    json_object_object_foreach(value, key,
                               member) if (member && json_add(copy, key, without_nulls(member)) < 0)
        errx(EXIT_FAILURE, "out of memory");
    return copy;
}

/* Types count: 1.0 is no int and 1 no bool. */
static bool same(json_object *a, json_object *b)
{
    _cleanup_json_ json_object *x = without_nulls(a), *y = without_nulls(b);

    return json_object_equal(x, y);
}

static json_object *numbered_reply(int number)
{
    char text[32];

    snprintf(text, sizeof(text), "Reply number %d", number);
    return have(json_object_new_string(text));
}

static char *full_name(enum step step)
{
    char *name;

    if (asprintf(&name, INTERFACE ".%s", steps[step].method) < 0)
        errx(EXIT_FAILURE, "out of memory");
    return name;
}

/* ---- Server ---- */

/* Who has begun, and what they must call next. */
struct client {
    char id[SD_ID128_STRING_MAX]; /* empty: nobody */
    enum step next;
};

/* The oldest one's place is the next newcomer's. */
struct clients {
    struct client of[CLIENTS_MAX];
    size_t n;
};

static struct client *find_client(struct clients *clients, json_object *id)
{
    for (size_t i = 0; json_object_is_type(id, json_type_string) && i < CLIENTS_MAX; i++)
        if (clients->of[i].id[0] && strcmp(clients->of[i].id, json_object_get_string(id)) == 0)
            return &clients->of[i];
    return NULL;
}

static json_object *newcomer(struct clients *clients)
{
    struct client *client = &clients->of[clients->n++ % CLIENTS_MAX];
    sd_id128_t id;

    if (sd_id128_randomize(&id) < 0)
        errx(EXIT_FAILURE, "no random number");
    sd_id128_to_string(id, client->id);
    client->next = TEST01;
    return object_with("client_id", have(json_object_new_string(client->id)));
}

static json_object *call_object(enum step step, json_object *parameters, bool more, bool oneway)
{
    _cleanup_free_ char *name = full_name(step);
    json_object *call = object_with("method", have(json_object_new_string(name)));

    if (json_add(call, "parameters", parameters) < 0 ||
        (more && json_add_bool(call, "more", true) < 0) ||
        (oneway && json_add_bool(call, "oneway", true) < 0))
        errx(EXIT_FAILURE, "out of memory");
    return call;
}

/* The call that @client, NULL before Start, must make now. */
static json_object *wanted_call(const struct client *client)
{
    json_object *parameters;

    if (!client)
        return call_object(START, have(json_object_new_object()), false, false);
    parameters = answer_of(client->next - 1);
    json_add_string(parameters, "client_id", client->id);
    return call_object(client->next, parameters, client->next == TEST10, client->next == TEST11);
}

static int answer(struct varlink_call *call, enum step step)
{
    if (step != TEST10)
        return varlink_reply(call, answer_of(step));
    for (int i = 1; i < REPLIES; i++)
        varlink_notify(call, object_with("string", numbered_reply(i)), NULL, 0);
    return varlink_reply(call, object_with("string", numbered_reply(REPLIES)));
}

static int handle(struct varlink_call *call, struct clients *clients, enum step step)
{
    json_object *parameters = varlink_call_parameters(call), *id = NULL;
    _cleanup_json_ json_object *wanted = NULL, *got = NULL;
    struct client *client = NULL;

    if (step != START) {
        json_object_object_get_ex(parameters, "client_id", &id);
        client = find_client(clients, id);
        if (!client)
            return varlink_error(call, INTERFACE ".ClientIdError", NULL);
    }
    wanted = wanted_call(client);
    got = call_object(step, json_object_get(parameters), varlink_call_wants_more(call),
                      varlink_call_is_oneway(call));
    if (!same(wanted, got)) {
        json_object *both = object_with("wants", TAKE_PTR(wanted));

        json_add(both, "got", TAKE_PTR(got));
        if (client)
            client->id[0] = '\0';
        return varlink_error(call, INTERFACE ".CertificationError", both);
    }
    if (step == START)
        return varlink_reply(call, newcomer(clients));
    client->next++;
    if (step == END)
        client->id[0] = '\0';
    return answer(call, step);
}

#define METHOD(name, step)                                         \
    static int on_##name(struct varlink_call *call, void *clients) \
    {                                                              \
        return handle(call, clients, step);                        \
    }
METHOD(start, START)
METHOD(test01, TEST01)
METHOD(test02, TEST02)
METHOD(test03, TEST03)
METHOD(test04, TEST04)
METHOD(test05, TEST05)
METHOD(test06, TEST06)
METHOD(test07, TEST07)
METHOD(test08, TEST08)
METHOD(test09, TEST09)
METHOD(test10, TEST10)
METHOD(test11, TEST11)
METHOD(end, END)

static const struct varlink_method methods[] = {
    { "Start", on_start, 0 },
    { "Test01", on_test01, 0 },
    { "Test02", on_test02, 0 },
    { "Test03", on_test03, 0 },
    { "Test04", on_test04, 0 },
    { "Test05", on_test05, 0 },
    { "Test06", on_test06, 0 },
    { "Test07", on_test07, 0 },
    { "Test08", on_test08, 0 },
    { "Test09", on_test09, 0 },
    { "Test10", on_test10, VARLINK_METHOD_REQUIRES_MORE },
    { "Test11", on_test11, 0 },
    { "End", on_end, 0 },
};

static void exit_with_last_connection(bool busy, void *userdata)
{
    sd_event *event = NULL;

    if (!busy && sd_event_default(&event) >= 0)
        sd_event_exit(event, 0);
    sd_event_unref(event);
}

/* Until SIGTERM; as a bridge, until the connection ends. */
static int serve(const char *text, bool bridge)
{
    struct varlink_interface interface = { INTERFACE, text, methods, ELEMENTS(methods) };
    const struct varlink_interface *const interfaces[] = { &interface };
    struct clients clients = { 0 };
    const struct varlink_server_options options = {
        .vendor = "sbxctl",
        .product = "varlink-certification",
        .version = "1",
        .url = "https://varlink.org",
        .connections_max = CLIENTS_MAX,
        .connections_per_user_max = CLIENTS_MAX,
        .userdata = &clients,
        .busy_changed = bridge ? exit_with_last_connection : NULL,
    };
    struct varlink_server *server = NULL;
    sd_event *event = NULL;
    int r;

    r = sd_event_default(&event);
    if (r >= 0)
        r = sd_event_add_signal(event, NULL, SIGTERM | SD_EVENT_SIGNAL_PROCMASK, NULL, NULL);
    if (r >= 0)
        r = varlink_server_new(event, &options, interfaces, ELEMENTS(interfaces), &server);
    if (r >= 0 && bridge)
        r = varlink_server_add_connection(server, STDIN_FILENO);
    else if (r >= 0)
        r = sd_listen_fds(true) == 1 ? varlink_server_listen(server, SD_LISTEN_FDS_START) : -ENOENT;
    if (r >= 0)
        r = sd_event_loop(event);
    varlink_server_unref(server);
    sd_event_unref(event);
    if (r < 0)
        warnx("%s", strerror(-r));
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;

    if (!file || getdelim(&text, &size, '\0', file) < 0)
        err(EXIT_FAILURE, "%s", path);
    fclose(file);
    return text;
}

/* ---- Client ---- */

static struct varlink_answer receive(struct varlink_client *client, enum step step)
{
    struct varlink_answer answer;
    int r = varlink_client_receive(client, ANSWER_TIMEOUT_USEC, &answer);
    size_t size;

    if (r <= 0)
        errx(EXIT_FAILURE, "%s: %s", steps[step].method, r == 0 ? "no answer" : strerror(-r));
    if (answer.error)
        errx(EXIT_FAILURE, "%s: %s %s", steps[step].method, answer.error,
             json_text(answer.parameters, &size));
    return answer;
}

/* The answers of Test10 become one list. */
static json_object *collect(struct varlink_client *client)
{
    json_object *strings = have(json_object_new_array());
    bool continues = true;

    while (continues) {
        struct varlink_answer answer = receive(client, TEST10);

        json_object_array_add(strings,
                              json_object_get(json_object_object_get(answer.parameters, "string")));
        continues = answer.continues;
        varlink_answer_release(&answer);
    }
    return object_with("last_more_replies", strings);
}

/* Calls one method with @parameters, which are consumed. Returns what it answered. */
static json_object *call_method(struct varlink_client *client, enum step step,
                                json_object *parameters)
{
    enum varlink_call_flags flags = step == TEST10   ? VARLINK_CALL_MORE
                                    : step == TEST11 ? VARLINK_CALL_ONEWAY
                                                     : 0;
    _cleanup_free_ char *name = full_name(step);
    struct varlink_answer answer;
    json_object *result;
    int r;

    r = varlink_client_send(client, name, parameters, flags, NULL, 0);
    if (r < 0)
        errx(EXIT_FAILURE, "%s: %s", steps[step].method, strerror(-r));
    if (step == TEST10)
        return collect(client);
    if (step == TEST11)
        return have(json_object_new_object());
    answer = receive(client, step);
    result = json_object_get(answer.parameters);
    varlink_answer_release(&answer);
    return result;
}

static void check_answer(enum step step, json_object *answer)
{
    _cleanup_json_ json_object *wanted = answer_of(step);
    size_t size;

    if (!same(answer, wanted))
        errx(EXIT_FAILURE, "%s answered %s and not %s", steps[step].method,
             json_text(answer, &size), steps[step].answer);
}

static int certify(const char *path)
{
    _cleanup_json_ json_object *id = NULL;
    struct varlink_client *client;
    json_object *value = NULL;
    int r = varlink_client_connect(path, &client);

    if (r < 0)
        errx(EXIT_FAILURE, "%s: %s", path, strerror(-r));
    for (enum step step = START; step < N_STEPS; step++) {
        if (step != START && json_add(value, "client_id", json_object_get(id)) < 0)
            errx(EXIT_FAILURE, "out of memory");
        value = call_method(client, step, value);
        if (step == START)
            id = json_object_get(json_object_object_get(value, "client_id"));
        /* Some servers send it along with other answers too. */
        json_object_object_del(value, "client_id");
        check_answer(step, value);
    }
    json_object_put(value);
    varlink_client_free(client);
    puts("certified");
    return EXIT_SUCCESS;
}

int main(int argc, char *argv[])
{
    _cleanup_free_ char *text = NULL;
    const char *role = argc == 3 ? argv[1] : "";

    if (strcmp(role, "client") == 0)
        return certify(argv[2]);
    if (strcmp(role, "serve") != 0 && strcmp(role, "bridge") != 0)
        errx(EXIT_FAILURE, "usage: serve|bridge INTERFACE-FILE, or client SOCKET");
    text = read_file(argv[2]);
    return serve(text, strcmp(role, "bridge") == 0);
}
