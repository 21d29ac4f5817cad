/* The audit trail (helper/broker/audit.h). That the real journald takes and shows the records is
 * for the tests in the machine. SBXCTL_CATALOG is the catalog, from meson. */
#include "store-fixture.h"
#include "journald-double.h"

struct fixture {
    struct journald journald;
    struct audit *audit;
    sd_event *event; /* NULL: records do not wait */
    struct audit_record record;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    journald_new(&f->journald);
    assert_int_equal(audit_open(f->journald.address.sun_path, &f->audit), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    audit_close(f->audit);
    sd_event_unref(f->event);
    journald_free(&f->journald);
    free(f);
    return 0;
}

static const char *receive(struct fixture *f)
{
    return journald_receive(&f->journald);
}

/* Whether the record has exactly this line. */
static bool has_line(const char *text, const char *line)
{
    size_t n = strlen(line);

    for (const char *p = text; (p = strstr(p, line)); p++)
        if ((p == text || p[-1] == '\n') && p[n] == '\n')
            return true;
    return false;
}

static void record_is_one_datagram_of_fields(void **state)
{
    struct fixture *f = *state;

    audit_record_init(&f->record, AUDIT_START);
    audit_add(&f->record, "RUN_ID", RUN_ID);
    audit_add(&f->record, "IMAGE", NULL);
    audit_add_u64(&f->record, "UID", UINT64_MAX);
    audit_add_i64(&f->record, "EXIT_CODE", -1);
    assert_int_equal(audit_send(f->audit, &f->record), 0);

    const char *text = receive(f);
    char id[64];
    assert_non_null(text);
    snprintf(id, sizeof(id), "MESSAGE_ID=%s", audit_message_id(AUDIT_START));
    assert_true(has_line(text, id));
    assert_true(has_line(text, "PRIORITY=5"));
    assert_true(has_line(text, "SYSLOG_FACILITY=10"));
    assert_true(has_line(text, "SYSLOG_IDENTIFIER=sbxctl-helper"));
    assert_true(has_line(text, "SBXCTL_RUN_ID=" RUN_ID));
    assert_true(has_line(text, "SBXCTL_UID=18446744073709551615"));
    assert_true(has_line(text, "SBXCTL_EXIT_CODE=-1"));
    assert_null(strstr(text, "IMAGE"));
    assert_null(receive(f));
}

static void fault_13_text_of_strangers_makes_no_second_entry_or_field(void **state)
{
    struct fixture *f = *state;
    const char *const values[] = {
        "two\nMESSAGE=forged",        "cr\rand\033[2Jescape",   "c1 \xc2\x9b",
        "bidi \xe2\x80\xae",          "bad utf-8 \xff\xc0\xaf", "%s%n%s",
        "line separator \xe2\x80\xa8"
    };
    size_t lines = 0, before = 0;

    audit_record_init(&f->record, AUDIT_REQUEST);
    for (size_t i = 0; i < f->record.size; i++)
        before += f->record.data[i] == '\n';
    for (size_t i = 0; i < ELEMENTS(values); i++)
        audit_add(&f->record, "SCRIPT_NAME", values[i]);
    assert_int_equal(audit_send(f->audit, &f->record), 0);

    const char *text = receive(f);
    assert_non_null(text);
    for (const char *p = text; *p; p++) {
        lines += *p == '\n';
        assert_true(*p == '\n' || ((unsigned char)*p >= ' ' && (unsigned char)*p < 0x7f));
    }
    assert_int_equal(lines, before + ELEMENTS(values));
    assert_true(has_line(text, "SBXCTL_SCRIPT_NAME=two\\x0aMESSAGE=forged"));
    assert_true(has_line(text, "SBXCTL_SCRIPT_NAME=%s%n%s"));
    assert_null(receive(f));
}

static void fault_13_long_value_is_cut(void **state)
{
    struct fixture *f = *state;
    char *value = malloc(1024 * 1024 + 1);

    memset(value, 'x', 1024 * 1024);
    value[1024 * 1024] = '\0';
    audit_record_init(&f->record, AUDIT_REQUEST);
    audit_add(&f->record, "ARGV", value);
    free(value);
    assert_int_equal(audit_send(f->audit, &f->record), 0);
    const char *text = receive(f), *field = strstr(text, "SBXCTL_ARGV=");
    assert_non_null(field);
    size_t n = strcspn(field, "\n") - strlen("SBXCTL_ARGV=");
    assert_true(n <= AUDIT_VALUE_MAX && n > AUDIT_VALUE_MAX - 8);
    assert_non_null(strstr(field, "…\n"));
}

static void record_that_is_too_large_is_not_sent_in_part(void **state)
{
    struct fixture *f = *state;
    char value[AUDIT_VALUE_MAX];

    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    audit_record_init(&f->record, AUDIT_REQUEST);
    for (int i = 0; i < 64; i++)
        audit_add(&f->record, "ARGV", value);
    audit_add_u64(&f->record, "UID", 1);
    assert_int_equal(audit_send(f->audit, &f->record), -E2BIG);
    assert_null(receive(f));
}

static void absent_journald_is_an_error_and_not_a_success(void **state)
{
    struct fixture *f = *state;

    journald_stop(&f->journald);
    audit_record_init(&f->record, AUDIT_START);
    assert_int_equal(audit_send(f->audit, &f->record), -ENOENT);
}

static void journald_that_is_gone_is_noticed_by_the_next_record(void **state)
{
    struct fixture *f = *state;

    audit_record_init(&f->record, AUDIT_START);
    assert_int_equal(audit_send(f->audit, &f->record), 0);
    f->journald.sock = close_fd(f->journald.sock);
    assert_int_equal(audit_send(f->audit, &f->record), -ECONNREFUSED);
}

static void restarted_journald_gets_the_record(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 3; i++) {
        audit_record_init(&f->record, AUDIT_END);
        assert_int_equal(audit_send(f->audit, &f->record), 0);
        assert_non_null(receive(f));
        journald_stop(&f->journald);
        journald_start(&f->journald);
    }
}

static void stuck_journald_blocks_nobody_and_is_an_error(void **state)
{
    struct fixture *f = *state;
    int r = 0, taken = 0;

    audit_record_init(&f->record, AUDIT_START);
    while (taken < 100000 && (r = audit_send(f->audit, &f->record)) == 0)
        taken++;
    assert_int_equal(r, -EAGAIN);

    /* Once it reads again, it is as before, and nothing that was taken is lost. */
    while (receive(f))
        taken--;
    assert_int_equal(taken, 0);
    assert_int_equal(audit_send(f->audit, &f->record), 0);
}

/* So that the next record has no room. */
static void fill_journal(struct fixture *f)
{
    audit_record_init(&f->record, AUDIT_START);
    while (audit_send(f->audit, &f->record) == 0)
        ;
}

static void let_records_wait(struct fixture *f)
{
    assert_int_equal(sd_event_new(&f->event), 0);
    audit_attach(f->audit, f->event);
}

static int tell(struct fixture *f, const char *name)
{
    audit_record_init(&f->record, AUDIT_END);
    audit_add(&f->record, "NAME", name);
    return audit_tell(f->audit, &f->record);
}

/* The next record that was told. */
static const char *receive_told(struct fixture *f)
{
    const char *text;

    while ((text = receive(f)) && !strstr(text, "SBXCTL_NAME="))
        ;
    return text;
}

static void assert_told(struct fixture *f, const char *line)
{
    const char *text = receive_told(f);

    assert_non_null(text);
    assert_true(has_line(text, line));
}

static void what_has_happened_waits_for_a_full_journal(void **state)
{
    struct fixture *f = *state;

    let_records_wait(f);
    fill_journal(f);
    assert_int_equal(tell(f, "first"), 0);
    assert_int_equal(tell(f, "second"), 0);
    while (receive(f))
        ;
    /* There is room, and it is not for the third before the others. */
    assert_int_equal(tell(f, "third"), 0);
    assert_null(receive(f));
    assert_true(sd_event_run(f->event, 10 * 1000 * 1000) > 0);
    assert_told(f, "SBXCTL_NAME=first");
    assert_told(f, "SBXCTL_NAME=second");
    assert_told(f, "SBXCTL_NAME=third");
    assert_int_equal(tell(f, "fourth"), 0);
    assert_told(f, "SBXCTL_NAME=fourth");
}

static void what_waits_has_an_end(void **state)
{
    struct fixture *f = *state;
    char name[1000];
    int r = 0, told = 0;

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    fill_journal(f);
    assert_int_equal(tell(f, name), -EAGAIN); /* nobody would try again */
    let_records_wait(f);
    while (told < 100000 && (r = tell(f, name)) == 0)
        told++;
    assert_int_equal(r, -EAGAIN);
    assert_in_range(told, 500, 1100);
}

static void what_waits_is_sent_at_the_end(void **state)
{
    struct fixture *f = *state;

    let_records_wait(f);
    fill_journal(f);
    assert_int_equal(tell(f, "last"), 0);
    while (receive(f))
        ;
    f->audit = audit_close(f->audit);
    assert_told(f, "SBXCTL_NAME=last");
}

static void every_event_is_explained_in_the_catalog(void **state)
{
    int fd = open(SBXCTL_CATALOG, O_RDONLY | O_CLOEXEC);
    char catalog[32 * 1024], heading[64];
    int entries = 0;

    assert_true(fd >= 0);
    ssize_t n = read(fd, catalog, sizeof(catalog) - 1);
    close(fd);
    assert_true(n > 0 && n < (ssize_t)sizeof(catalog) - 1);
    catalog[n] = '\0';
    for (enum audit_event event = AUDIT_REQUEST; event <= AUDIT_MARKED; event++) {
        assert_int_equal(strlen(audit_message_id(event)), 32);
        snprintf(heading, sizeof(heading), "\n-- %s\nSubject: ", audit_message_id(event));
        const char *entry = strstr(catalog, heading);
        assert_non_null(entry);
        assert_null(strstr(entry + 1, heading));
        assert_non_null(strstr(entry, "\nDefined-By: sbxctl\n"));
    }
    for (const char *p = catalog; (p = strstr(p, "\n-- ")); p++)
        entries++;
    /* One more is of common/degradation.h. */
    assert_int_equal(entries, AUDIT_MARKED + 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(record_is_one_datagram_of_fields),
        T(fault_13_text_of_strangers_makes_no_second_entry_or_field),
        T(fault_13_long_value_is_cut),
        T(record_that_is_too_large_is_not_sent_in_part),
        T(absent_journald_is_an_error_and_not_a_success),
        T(journald_that_is_gone_is_noticed_by_the_next_record),
        T(restarted_journald_gets_the_record),
        T(stuck_journald_blocks_nobody_and_is_an_error),
        T(what_has_happened_waits_for_a_full_journal),
        T(what_waits_has_an_end),
        T(what_waits_is_sent_at_the_end),
        cmocka_unit_test(every_event_is_explained_in_the_catalog),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
