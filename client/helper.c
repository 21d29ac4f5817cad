/* The connection to the helper and its errors in words, see helper.h. */
#include "client/helper.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/exit-status.h"
#include "client/say.h"

#define INTERFACE "io.sbxctl.Sandbox."
/* The helper itself waits for polkit for 25 s at most. */
#define ANSWER_USEC (30 * 1000 * 1000ULL)

static const char start_hint[] = "as root, try: systemctl enable --now sbxctl-helper.socket";

static int fail_connect(int r, const char *path)
{
    switch (-r) {
    case ENOENT:
        return say_failure(EXIT_UNREACHABLE, "Unreachable", start_hint,
                           "the helper is not installed or its socket is not active (%s)", path);
    case ECONNREFUSED:
        return say_failure(EXIT_UNREACHABLE, "Unreachable",
                           "as root, try: systemctl restart sbxctl-helper.socket",
                           "nobody listens on the helper's socket (%s)", path);
    case EACCES:
        return say_failure(EXIT_UNREACHABLE, "Unreachable",
                           "ask the administrator for access to it",
                           "you may not connect to the helper's socket (%s)", path);
    default:
        return say_failure(EXIT_UNREACHABLE, "Unreachable", start_hint,
                           "cannot connect to the helper (%s): %s", path, strerror(-r));
    }
}

static bool is_helper_user(uid_t uid)
{
    const struct passwd *user = getpwnam(HELPER_USER);
    return user && user->pw_uid == uid;
}

/* Whoever called listen() on the socket is the peer (unix(7), SO_PEERCRED): PID 1 for an activated
 * socket. Anybody else could only read what is meant for the helper. */
static int check_listener(int fd, const char *path, bool may_be_own)
{
    struct ucred peer = { .uid = (uid_t)-1 };
    socklen_t size = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return fail_connect(-errno, path);
    if (peer.uid == 0 || (may_be_own && peer.uid == geteuid()) || is_helper_user(peer.uid))
        return 0;
    return say_failure(EXIT_UNREACHABLE, "Unreachable", "tell the administrator",
                       "what listens on %s is not the helper: it belongs to uid %u", path,
                       (unsigned)peer.uid);
}

int helper_connect(struct varlink_client **ret)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    const char *own_path = getenv("SBXCTL_SOCKET"), *path = own_path ? own_path : HELPER_SOCKET;

    int r = varlink_client_connect(path, &client);
    if (r < 0)
        return fail_connect(r, path);
    r = check_listener(varlink_client_fd(client), path, own_path);
    if (r != 0)
        return r;
    *ret = TAKE_PTR(client);
    return 0;
}

int helper_send(struct varlink_client *client, const char *method, json_object *parameters,
                enum varlink_call_flags flags, const int *fds, size_t n_fds)
{
    char name[64];

    snprintf(name, sizeof(name), INTERFACE "%s", method);
    int r = varlink_client_send(client, name, parameters, flags, fds, n_fds);
    if (r == -EMSGSIZE || r == -E2BIG)
        return say_failure(EXIT_OURS, "Failed", "put them into a file, and give it with --file",
                           "the arguments are too long for one message");
    return r < 0 ? helper_fail_connection(r, false) : 0;
}

/* Waits for the answer to a call that the helper answers at once. */
static int receive(struct varlink_client *client, struct varlink_answer *ret)
{
    _cleanup_answer_ struct varlink_answer answer = {};

    int r = varlink_client_receive(client, ANSWER_USEC, &answer);
    if (r == 0)
        return say_failure(EXIT_UNREACHABLE, "Unreachable",
                           "as root, try: systemctl restart sbxctl-helper.service",
                           "the helper does not answer");
    if (r < 0)
        return helper_fail_connection(r, false);
    if (answer.error)
        return helper_fail(&answer);
    *ret = answer;
    answer = (struct varlink_answer){};
    return 0;
}

int helper_call(struct varlink_client *client, const char *method, json_object *parameters,
                struct varlink_answer *ret)
{
    int r = helper_send(client, method, parameters, 0, NULL, 0);
    return r != 0 ? r : receive(client, ret);
}

int helper_get_policy(struct varlink_client *client, bool approvals, struct varlink_answer *ret)
{
    json_object *parameters = json_object_new_object();
    int r = json_add_bool(parameters, "approvals", approvals);

    if (r < 0) {
        json_object_put(parameters);
        return say_failure_errno(r, "cannot ask for the policy");
    }
    return helper_call(client, "GetPolicy", parameters, ret);
}

int helper_fail_connection(int r, bool answered)
{
    static const char hint[] = HELPER_GONE_HINT;

    if (r != -ECONNRESET && r != -EPIPE)
        return say_failure(EXIT_OURS, "Failed", hint, "cannot talk to the helper: %s",
                           strerror(-r));
    if (!answered)
        return say_failure(EXIT_UNREACHABLE, "Unreachable", hint,
                           "the helper ended the connection without an answer");
    return say_failure(EXIT_OURS, "Lost", hint,
                       "the helper went away during the run, which was ended with it");
}

/* A sentence for errors that carry none; NULL if the helper's own is all there is to say. */
static char *error_sentence(const char *error, json_object *parameters)
{
    static const struct {
        const char *error, *sentence, *member;
    } sentences[] = {
        { INTERFACE "NoSuchRun", "you have no run with the id %s", "id" },
        { INTERFACE "RunActive", "the run %s has not ended yet", "id" },
        { INTERFACE "NoSuchFile", "the run has no file %s", "name" },
        { INTERFACE "NoSuchLayer", "you have no packages with the key %s", "key" },
        { INTERFACE "LayerInUse", "a run uses the packages %s", "key" },
        { VARLINK_ERROR_INVALID_PARAMETER, "the helper does not take this %s", "parameter" },
        { VARLINK_ERROR_METHOD_NOT_FOUND, "this helper is too old for %s", "method" },
        { VARLINK_ERROR_PERMISSION_DENIED, "you may not do that", NULL },
    };

    for (size_t i = 0; i < ELEMENTS(sentences); i++) {
        if (strcmp(sentences[i].error, error) != 0)
            continue;
        const char *what = NULL;
        if (sentences[i].member)
            what = json_get_string(parameters, sentences[i].member);
        const char *place = strstr(sentences[i].sentence, "%s");
        char *text = NULL;
        if (!place)
            return strdup(sentences[i].sentence);
        if (asprintf(&text, "%.*s%s%s", (int)(place - sentences[i].sentence), sentences[i].sentence,
                     what ? what : "?", place + 2) < 0)
            return NULL;
        return text;
    }
    return NULL;
}

static const char *error_hint(const char *error)
{
    if (strcmp(error, INTERFACE "NoSuchRun") == 0)
        return "'sbxctl ps --all' lists your runs";
    if (strcmp(error, INTERFACE "RunActive") == 0)
        return "wait for its end, or end it with 'sbxctl stop'";
    if (strcmp(error, INTERFACE "NoSuchLayer") == 0)
        return "'sbxctl packages' lists those that you have";
    if (strcmp(error, INTERFACE "LayerInUse") == 0)
        return "wait for its end; 'sbxctl ps' lists your runs";
    if (strcmp(error, INTERFACE "AboveCeiling") == 0)
        return "'sbxctl policy' shows what you may ask for";
    if (strcmp(error, INTERFACE "QueueFull") == 0)
        return "try again when some of your runs have ended; 'sbxctl ps' lists them";
    if (strcmp(error, INTERFACE "AuditUnavailable") == 0)
        return "tell the administrator; is systemd-journald running?";
    return NULL;
}

static void say_error_object(const struct varlink_answer *answer)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_string(object, "error", answer->error) < 0)
        return;
    json_object_object_foreach(answer->parameters, key, value)
    {
        if (strcmp(key, "error") != 0 && json_add(object, key, json_object_get(value)) < 0)
            return;
    }
    say_object(object);
}

int helper_fail(const struct varlink_answer *answer)
{
    _cleanup_free_ char *sentence = NULL, *shown = NULL, *shown_hint = NULL;
    const char *reason = json_get_string(answer->parameters, "reason");
    const char *hint = json_get_string(answer->parameters, "hint");

    if (!reason)
        reason = sentence = error_sentence(answer->error, answer->parameters);
    if (!hint)
        hint = error_hint(answer->error);

    shown = displayed(reason ? reason : answer->error);
    say_error("%s", shown);
    if (hint) {
        shown_hint = displayed(hint);
        say("%s", shown_hint);
    }
    say_error_object(answer);
    return exit_status_of_error(answer->error);
}
