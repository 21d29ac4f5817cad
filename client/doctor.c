/* sbxctl doctor: what is wrong with this machine as far as sbxctl goes, and the command that mends
 * it. The checks are in the table below, in an order that tells causes before what follows of them.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/doctor.h"
#include "client/exit-status.h"
#include "client/say.h"
#include "client/text.h"
#include "client/verb.h"

static const struct check {
    const char *name;
    void (*look)(struct doctor *doctor);
} checks[] = {
    { "bus", doctor_bus },
    { "kernel", doctor_kernel },
    { "namespaces", doctor_namespaces },
    { "cgroups", doctor_cgroups },
    { "clock", doctor_clock },
    { "account", doctor_account },
    { "disk", doctor_disk },
    { "journal", doctor_journal },
    { "polkit", doctor_polkit },
    { "rules", doctor_rules },
    { "agent", doctor_agent },
    { "socket", doctor_socket },
    { "service", doctor_service },
    { "version", doctor_version },
    { "engines", doctor_engines },
    { "images", doctor_images },
    { "quota", doctor_quota },
    { "network", doctor_egress },
    { "leftovers", doctor_leftovers },
};

/* ---- Findings ---- */

static const char *const state_names[] = { [DOCTOR_OK] = "ok",
                                           [DOCTOR_WARNING] = "warning",
                                           [DOCTOR_FAILURE] = "failure",
                                           [DOCTOR_UNKNOWN] = "unknown" };

char *doctor_text(const char *format, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, format);
    int n = vasprintf(&text, format, ap);
    va_end(ap);
    if (n >= 0)
        return text;
    fputs("sbxctl: out of memory\n", stderr);
    _exit(EXIT_OURS);
}

char *doctor_word(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "/._-:@+,%";
    _cleanup_free_ char *shown = displayed(text);
    char *word = doctor_text("%s", "");

    if (*shown && *shown != '-' && strspn(shown, plain) == strlen(shown))
        return free(word), TAKE_PTR(shown);
    for (const char *part = shown;; part++) {
        size_t length = strcspn(part, "'");
        _cleanup_free_ char *before = word;
        word = doctor_text("%s'%.*s'", before, (int)length, part);
        part += length;
        if (*part == '\0')
            return word;
        _cleanup_free_ char *quoted = word;
        word = doctor_text("%s\\'", quoted);
    }
}

__attribute__((format(printf, 5, 0))) static void tell(struct doctor *doctor,
                                                       enum doctor_state state, const char *meaning,
                                                       const char *command, const char *format,
                                                       va_list ap)
{
    json_object *finding = json_object_new_object();
    _cleanup_free_ char *text = NULL;

    if (vasprintf(&text, format, ap) < 0)
        text = NULL;
    if (json_add_string(finding, "check", doctor->check) < 0 ||
        json_add_string(finding, "state", state_names[state]) < 0 ||
        json_add_string(finding, "what", text) < 0 ||
        json_add_string(finding, "meaning", meaning) < 0 ||
        json_add_string(finding, "command", command) < 0 ||
        json_append(doctor->findings, finding) < 0)
        _exit(say_failure_errno(-ENOMEM, "cannot tell what was found"));
}

void doctor_tell(struct doctor *doctor, enum doctor_state state, const char *meaning,
                 const char *command, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    tell(doctor, state, meaning, command, format, ap);
    va_end(ap);
}

void doctor_tell_owned(struct doctor *doctor, enum doctor_state state, const char *meaning,
                       char *command, const char *format, ...)
{
    _cleanup_free_ char *owned = command;
    va_list ap;

    va_start(ap, format);
    tell(doctor, state, meaning, owned, format, ap);
    va_end(ap);
}

static size_t count(json_object *findings, enum doctor_state state)
{
    size_t n = 0;

    for (size_t i = 0; i < json_object_array_length(findings); i++) {
        const char *name = json_get_string(json_object_array_get_idx(findings, i), "state");
        n += name && strcmp(name, state_names[state]) == 0;
    }
    return n;
}

/* ---- Showing ---- */

static void print_finding(json_object *finding)
{
    const char *what = json_get_string(finding, "what");
    const char *meaning = json_get_string(finding, "meaning");
    const char *command = json_get_string(finding, "command");
    _cleanup_free_ char *shown = displayed(what ? what : ""), *line = NULL;

    line = doctor_text("%s: %s: %s", json_get_string(finding, "state"),
                       json_get_string(finding, "check"), shown);
    text_print_wrapped(stdout, line, terminal_width());
    if (meaning)
        text_print_wrapped(stdout, meaning, terminal_width());
    /* In one line, to be pasted. */
    if (command)
        printf("    %s\n", command);
    if (meaning || command)
        putchar('\n');
}

static int print_findings(json_object *findings, bool all)
{
    size_t failures = count(findings, DOCTOR_FAILURE), warnings = count(findings, DOCTOR_WARNING);

    for (size_t i = 0; i < json_object_array_length(findings); i++) {
        json_object *finding = json_object_array_get_idx(findings, i);
        const char *state = json_get_string(finding, "state");
        if (all || strcmp(state, "failure") == 0 || strcmp(state, "warning") == 0)
            print_finding(finding);
    }
    int r = print_end();
    if (failures + warnings == 0)
        say("nothing is wrong%s", geteuid() != 0 ? "; as root, some more is looked at" : "");
    return r != 0 ? r : failures > 0 ? EXIT_UNHEALTHY : 0;
}

static int print_findings_json(json_object *findings)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    bool healthy = count(findings, DOCTOR_FAILURE) == 0;

    if (json_add_bool(object, "healthy", healthy) < 0 ||
        json_add(object, "findings", json_object_get(findings)) < 0)
        return say_failure_errno(-ENOMEM, "cannot tell what was found");
    int r = print_json(object);
    return r != 0 ? r : healthy ? 0 : EXIT_UNHEALTHY;
}

int verb_doctor(const struct verb *verb, int argc, char **argv)
{
    struct doctor doctor = { .findings = json_object_new_array() };
    struct verb_arguments arguments;
    int r;

    if (!verb_read_arguments(verb, argc, argv, 0, 0, &arguments, &r)) {
        json_object_put(doctor.findings);
        return r;
    }
    say_mode.json = arguments.json;
    doctor.check = "configuration";
    doctor_configuration(&doctor);
    doctor.check = "state";
    doctor_state(&doctor);
    /* Its engines may take a while to say that they cannot do something. */
    struct doctor_helper *helper = doctor_helper_ask(&doctor);
    for (size_t i = 0; i < ELEMENTS(checks); i++) {
        doctor.check = checks[i].name;
        if (checks[i].look == doctor_socket)
            doctor_helper_take(&doctor, helper);
        checks[i].look(&doctor);
    }
    r = arguments.json ? print_findings_json(doctor.findings)
                       : print_findings(doctor.findings, arguments.all);
    json_object_put(doctor.policy);
    json_object_put(doctor.engines);
    json_object_put(doctor.info);
    json_object_put(doctor.findings);
    sd_bus_unref(doctor.bus);
    sd_bus_unref(doctor.manager);
    return r;
}
