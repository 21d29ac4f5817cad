/* polkit, its rules, and who shows its dialogs, see doctor.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/audit-journal.h"
#include "client/doctor.h"

#define AUTHORITY "org.freedesktop.PolicyKit1"
#define OBJECT "/org/freedesktop/PolicyKit1/Authority"
#define AGENT_PROGRAM "/usr/bin/pkttyagent"
#define RULE "/usr/share/polkit-1/rules.d/00-io.sbxctl.rules"

static const char meaning[] = "polkit decides about each run, so none is allowed without it.";

static inline void sd_bus_message_unrefp_(sd_bus_message **message)
{
    sd_bus_message_unref(*message);
}

/* Whether polkit knows our actions; or a negative errno. The call starts it. */
static int find_action(struct doctor *doctor)
{
    _cleanup_(sd_bus_message_unrefp_) sd_bus_message *reply = NULL;
    bool found = false;
    const char *id;

    int r = sd_bus_call_method(doctor->bus, AUTHORITY, OBJECT, AUTHORITY ".Authority",
                               "EnumerateActions", NULL, &reply, "s", "");
    r = r < 0 ? r : sd_bus_message_enter_container(reply, 'a', "(ssssssuuua{ss})");
    while (r >= 0 && (r = sd_bus_message_enter_container(reply, 'r', "ssssssuuua{ss}")) > 0) {
        r = sd_bus_message_read(reply, "s", &id);
        found |= r >= 0 && strcmp(id, "io.sbxctl.run") == 0;
        r = r < 0 ? r : sd_bus_message_skip(reply, "sssssuuua{ss}");
        r = r < 0 ? r : sd_bus_message_exit_container(reply);
    }
    return r < 0 ? r : found;
}

void doctor_polkit(struct doctor *doctor)
{
    if (!doctor->bus)
        return;
    if (doctor_unit_tell(doctor, DOCTOR_FAILURE, "polkit.service", meaning))
        return;
    int r = find_action(doctor);
    if (r < 0)
        doctor_tell(doctor, DOCTOR_FAILURE, meaning,
                    "systemctl kill --signal=KILL polkit.service; systemctl restart polkit.service",
                    "polkit does not answer: %s.", strerror(-r));
    else if (r == 0)
        doctor_tell(doctor, DOCTOR_FAILURE, meaning,
                    "apt-get install --reinstall sbxctl && systemctl restart polkit.service",
                    "polkit does not know the actions of sbxctl (io.sbxctl.policy).");
    else if (access(RULE, F_OK) < 0 &&
             errno == ENOENT) /* others may not look there, on Debian 12 */
        doctor_tell(doctor, DOCTOR_WARNING,
                    "Runs that need several approvals take an administrator's password.",
                    "apt-get install --reinstall sbxctl && systemctl restart polkit.service",
                    "The rule file %s is missing.", RULE);
    else
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "polkit answers.");
}

/* ---- Rules ---- */

static uint64_t started_usec(struct doctor *doctor)
{
    _cleanup_free_ char *path = NULL;
    uint64_t usec = 0;

    if (doctor->manager &&
        sd_bus_path_encode("/org/freedesktop/systemd1/unit", "polkit.service", &path) >= 0)
        (void)sd_bus_get_property_trivial(doctor->manager, "org.freedesktop.systemd1", path,
                                          "org.freedesktop.systemd1.Unit", "InactiveExitTimestamp",
                                          NULL, 't', &usec);
    return usec;
}

/* "Error compiling script /etc/polkit-1/rules.d/x.rules: SyntaxError: ..." and "Error loading
 * script
 * ...": polkitd's words, from 0.106 to 126. A new object of "path: what", by the path. */
static int note_error(json_object *errors, const char *message)
{
    static const char *const beginnings[] = { "Error compiling script ", "Error loading script ",
                                              "Error evaluating script " };

    for (size_t i = 0; i < ELEMENTS(beginnings); i++) {
        size_t length = strlen(beginnings[i]);
        if (strncmp(message, beginnings[i], length) != 0)
            continue;
        _cleanup_free_ char *path =
            doctor_text("%.*s", (int)strcspn(message + length, ": "), message + length);
        return json_add_string(errors, path, message);
    }
    return 0;
}

static int read_errors(struct doctor *doctor, json_object *errors)
{
    struct audit_selection selection = { .sender = AUDIT_FROM_POLKIT,
                                         .since_usec = started_usec(doctor) };
    struct audit_journal *journal;
    int r = audit_journal_open(&selection, &journal);

    if (r < 0)
        return r;
    for (;;) {
        _cleanup_json_ json_object *record = NULL;
        r = audit_journal_next(journal, &record);
        if (r <= 0)
            break;
        const char *message = json_get_string(record, "message");
        r = message ? note_error(errors, message) : 0;
        if (r < 0)
            break;
    }
    audit_journal_close(journal);
    return r;
}

/* polkitd reads a file anew when it changed, and says then if it is still wrong. */
static bool is_still_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

void doctor_rules(struct doctor *doctor)
{
    _cleanup_json_ json_object *errors = json_object_new_object();
    bool is_good = true;

    int r = errors ? read_errors(doctor, errors) : -ENOMEM;
    if (r < 0) {
        doctor_tell(doctor, DOCTOR_UNKNOWN, NULL, NULL,
                    "Whether polkit could load all rules is in the journal, which you may not "
                    "read.");
        return;
    }
    json_object_object_foreach(errors, path, message)
    {
        if (!is_still_there(path))
            continue;
        is_good = false;
        _cleanup_free_ char *word = doctor_word(path);
        doctor_tell_owned(doctor, DOCTOR_FAILURE,
                          "What it forbids may be allowed, and what it allows is not.",
                          doctor_text("mv %s %s.wrong", word, word), "polkit: %s",
                          json_object_get_string(message));
    }
    if (is_good)
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "polkit has loaded all rules.");
}

/* ---- Agent ---- */

void doctor_agent(struct doctor *doctor)
{
    static const char agent_meaning[] =
        "On a terminal nobody can be asked for a password, so runs that need an approval are "
        "refused there.";
    bool is_desktop = getenv("DISPLAY") || getenv("WAYLAND_DISPLAY");

    if (access(AGENT_PROGRAM, F_OK) < 0)
        doctor_tell(doctor, DOCTOR_WARNING, agent_meaning,
                    "apt-get install --yes --reinstall polkitd", "There is no " AGENT_PROGRAM ".");
    else if (access(AGENT_PROGRAM, X_OK) < 0)
        doctor_tell(doctor, DOCTOR_WARNING, agent_meaning, "chmod 0755 " AGENT_PROGRAM,
                    AGENT_PROGRAM " cannot be executed.");
    else
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "%s",
                    is_desktop ? "The desktop asks for approvals, or else the terminal."
                    : isatty(STDERR_FILENO)
                        ? "The terminal asks for approvals."
                        : "Here is neither a desktop nor a terminal that could ask for approvals.");
}
