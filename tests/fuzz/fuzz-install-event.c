/* Lines of an installer, which shares its sandbox with what it installs: what is taken is of the
 * form that the rest of the broker counts on, and safe to show. */
#include "broker/install-events.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "common/escape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const char *text, size_t max)
{
    check(strlen(text) <= max && utf8_is_valid(text));
    for (const char *at = text; *at; at++)
        check((unsigned char)*at >= ' ' && *at != 0x7f);
}

static void check_word(const char *word, size_t max)
{
    check_line(word, max);
    check(word[0] != '\0' && strspn(word, "abcdefghijklmnopqrstuvwxyz-") == strlen(word));
}

static void check_failure(const struct install_failure *failure)
{
    check_word(failure->kind, INSTALL_KIND_MAX);
    check_line(failure->package, PACKAGE_NAME_MAX);
    check_line(failure->reason, INSTALL_TEXT_MAX);
    check_line(failure->hint, INSTALL_TEXT_MAX);
}

static void check_resolved(json_object *resolved)
{
    static const char *const members[] = { "name", "version", "hash" };
    char leaf[] = "leaf", *const denied[] = { leaf, NULL };
    struct install_failure failure;

    check(json_object_array_length(resolved) <= INSTALL_RESOLVED_MAX);
    for (size_t i = 0; i < json_object_array_length(resolved); i++)
        for (size_t j = 0; j < ELEMENTS(members); j++) {
            const char *text = json_get_string(json_object_array_get_idx(resolved, i), members[j]);
            check(text);
            check_line(text, PACKAGE_NAME_MAX);
        }
    for (int node = 0; node < 2; node++)
        if (!install_is_allowed(node ? ECOSYSTEM_NODE : ECOSYSTEM_PYTHON, denied, resolved,
                                &failure))
            check_failure(&failure);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct install_event event;

    int r = install_event_parse((const char *)data, size, &event);
    check(r == 0 || r == -EBADMSG);
    if (r < 0)
        return 0;
    if (event.type == INSTALL_EVENT_PROGRESS) {
        check_word(event.progress.phase, INSTALL_PHASE_MAX);
        check_line(event.progress.name, PACKAGE_NAME_MAX);
        check(event.progress.current <= INT64_MAX && event.progress.total <= INT64_MAX);
    } else if (event.type == INSTALL_EVENT_ERROR) {
        check_failure(&event.failure);
    } else if (event.type == INSTALL_EVENT_RESOLVED) {
        check_resolved(event.resolved);
        json_object_put(event.resolved);
    }
    return 0;
}
