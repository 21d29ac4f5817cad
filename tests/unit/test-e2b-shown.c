/* What a notebook shows, as files and as text; the reports and lines beside it; and which programs
 * a notebook may run at all. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/cleanup.h"
#include "engine/e2b/interpreter.h"
#include "engine/e2b/transfer.h"

static json_object *object(const char *text)
{
    json_object *parsed = NULL;

    assert_int_equal(json_parse_guarded(text, strlen(text), &parsed), 0);
    return parsed;
}

/* The files of one result as "extension=content ", and its text. */
static void check(const char *result, const char *files, const char *text)
{
    _cleanup_json_ json_object *parsed = object(result);
    struct shown shown = { 0 };
    char found[512] = "";

    const char *printed = shown_add(&shown, parsed);
    for (size_t i = 0; i < shown.n_files; i++)
        snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s=%.*s ",
                 shown.files[i].extension, (int)shown.files[i].size, shown.files[i].data);
    assert_string_equal(found, files);
    if (text)
        assert_string_equal(printed, text);
    else
        assert_null(printed);
    shown_release(&shown);
}

static void each_form_of_a_result_is_a_file(void **state)
{
    check("{\"text\":\"<Figure>\",\"png\":\"UE5H\\n\",\"svg\":\"<svg/>\"}", "png=PNG svg=<svg/> ",
          NULL);
    check("{\"text\":\"a\",\"html\":\"<b>\",\"is_main_result\":true}", "html=<b> ", "a");
    check("{\"text\":\"42\",\"is_main_result\":true}", "", "42");
    check("{\"text\":\"shown\"}", "", "shown");
    check("{\"json\":{\"a\":[1]},\"chart\":{\"t\":\"bar\"}}",
          "json={\"a\":[1]} chart.json={\"t\":\"bar\"} ", NULL);
    /* No base64, no string: no file of it, and no trouble. */
    check("{\"text\":\"x\",\"png\":\"*\",\"svg\":5,\"new\":{}}", "", "x");
}

static void table_is_written_as_csv(void **state)
{
    static const struct {
        const char *columns, *csv;
    } cases[] = {
        { "{\"a\":[1,2],\"b\":[\"x\",null]}", "a,b\r\n1,x\r\n2,\r\n" },
        { "{\"a,b\":[\"say \\\"hi\\\"\",\"two\\nlines\"]}",
          "\"a,b\"\r\n\"say \"\"hi\"\"\"\r\n\"two\nlines\"\r\n" },
        { "{\"a\":[1.5,true],\"b\":[7]}", "a,b\r\n1.5,7\r\ntrue,\r\n" },
        { "{}", NULL },
        { "{\"a\":5}", NULL },
        { "{\"a\":[]}", NULL },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_json_ json_object *columns = object(cases[i].columns);
        size_t size = 0;
        _cleanup_free_ char *csv = shown_csv(columns, &size);
        if (cases[i].csv) {
            assert_string_equal(csv, cases[i].csv);
            assert_int_equal(size, strlen(csv));
        } else {
            assert_null(csv);
        }
    }
}

/* Some kilobytes that would be 400 MB of commas. */
static void table_that_is_nearly_all_empty_is_no_file(void **state)
{
    _cleanup_json_ json_object *columns = json_object_new_object();
    json_object *column = json_object_new_array();
    char name[16];
    size_t size;

    for (int i = 0; i < 20000; i++)
        assert_int_equal(json_object_array_add(column, json_object_new_int(1)), 0);
    assert_int_equal(json_object_object_add(columns, "long", column), 0);
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "%d", i);
        assert_int_equal(json_object_object_add(columns, name, json_object_new_array()), 0);
    }
    assert_null(shown_csv(columns, &size));
}

static void more_results_than_are_kept_are_dropped(void **state)
{
    _cleanup_json_ json_object *result = object("{\"svg\":\"<svg/>\"}");
    struct shown shown = { 0 };

    for (int i = 0; i < INTERPRETER_FILES_MAX; i++)
        shown_add(&shown, result);
    assert_false(shown.is_incomplete);
    shown_add(&shown, result);
    assert_true(shown.is_incomplete);
    assert_int_equal(shown.n_files, INTERPRETER_FILES_MAX);
    shown_release(&shown);
}

static void files_of_the_program_stay_what_they_are(void **state)
{
    char directory[] = "/tmp/test-e2b-shown-XXXXXX";
    _cleanup_json_ json_object *result = object("{\"svg\":\"<svg/>\"}");
    struct shown shown = { 0 };

    assert_non_null(mkdtemp(directory));
    _cleanup_close_ int workspace = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(symlinkat("/nowhere/at/all", workspace, "display-1.svg"), 0);
    shown_add(&shown, result);
    shown_write(&shown, workspace);
    assert_int_equal(faccessat(workspace, "display-1.svg", F_OK, 0), -1);
    assert_int_equal(unlinkat(workspace, "display-1.svg", 0), 0);
    assert_int_equal(unlinkat(workspace, "display-1-2.svg", 0), 0);
    shown_release(&shown);
    rmdir(directory);
}

static void line_is_one_of_the_known_kinds_or_nothing(void **state)
{
    static const struct {
        const char *line;
        int type; /* -1: no message */
        const char *text;
    } cases[] = {
        { "{\"type\":\"stdout\",\"text\":\"a\",\"timestamp\":\"t\"}", INTERPRETER_STDOUT, "a" },
        { "{\"type\":\"stderr\",\"text\":\"b\"}", INTERPRETER_STDERR, "b" },
        { "{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\"}", INTERPRETER_ERROR, "E" },
        { "{\"type\":\"end_of_execution\"}", INTERPRETER_END, NULL },
        { "{\"type\":\"keepalive\"}", INTERPRETER_NOTHING, NULL },
        { "{\"type\":\"something_new\",\"text\":\"x\"}", INTERPRETER_NOTHING, NULL },
        { "{\"type\":\"stdout\",\"text\":7}", INTERPRETER_STDOUT, NULL },
        { "{\"text\":\"x\"}", -1, NULL },
        { "", -1, NULL },
        { "<html>", -1, NULL },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct interpreter_message message;
        int r = interpreter_parse(cases[i].line, strlen(cases[i].line), &message);
        assert_int_equal(r, cases[i].type < 0 ? -EBADMSG : 0);
        if (r < 0)
            continue;
        assert_int_equal(message.type, cases[i].type);
        if (cases[i].text)
            assert_string_equal(message.text, cases[i].text);
        else
            assert_null(message.text);
        interpreter_message_release(&message);
    }
}

static void interpreter_takes_scripts_of_python_in_its_templates(void **state)
{
    static char *const cases[][3] = {
        { (char *)"python3", (char *)"script.py", (char *)"yes" },
        { (char *)"/usr/bin/python3.12", (char *)"a b.py", (char *)"yes" },
        { (char *)"python3", (char *)"-c", NULL },
        { (char *)"python3", NULL, NULL },
        { (char *)"sh", (char *)"script.py", NULL },
        { (char *)"/python/sh", (char *)"script.py", NULL },
    };
    const struct config config = { .interpreters = (char *)"one two" };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct launch_program program = { .argv = { cases[i][0], cases[i][1] } };
        assert_int_equal(interpreter_takes(&config, "two", &program), cases[i][2] != NULL);
        assert_false(interpreter_takes(&config, "on", &program));
        assert_false(interpreter_takes(&config, "three", &program));
    }
}

static void report_is_read_as_far_as_it_can_be(void **state)
{
    struct transfer_report report = { 0 };

    transfer_parse_report(
        "missing\nstatus 7\nbefore 3\nafter 5\ntimes 1m2.50s 0m0.25s\nscratch 4\n", &report);
    assert_true(report.is_missing);
    assert_int_equal(report.status, 7);
    assert_int_equal(report.oom_kills, 2);
    assert_int_equal(report.cpu_usec, 62750000);
    assert_int_equal(report.scratch_files, 4);

    report = (struct transfer_report){ 0 };
    transfer_parse_report("after 5\nbefore 9\nstatus 999\ntimes 0mnans 0m0s\nscratch x\n\nnoise",
                          &report);
    assert_false(report.is_missing);
    assert_int_equal(report.status, -1);
    assert_true(report.oom_kills == UINT64_MAX && report.cpu_usec == UINT64_MAX);
    assert_int_equal(report.scratch_files, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form_of_a_result_is_a_file),
        cmocka_unit_test(table_is_written_as_csv),
        cmocka_unit_test(table_that_is_nearly_all_empty_is_no_file),
        cmocka_unit_test(more_results_than_are_kept_are_dropped),
        cmocka_unit_test(files_of_the_program_stay_what_they_are),
        cmocka_unit_test(line_is_one_of_the_known_kinds_or_nothing),
        cmocka_unit_test(interpreter_takes_scripts_of_python_in_its_templates),
        cmocka_unit_test(report_is_read_as_far_as_it_can_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
