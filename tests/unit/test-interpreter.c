/* helper/broker/interpreter.c: which runs an interpreter that waits is good for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "broker/interpreter.h"
#include "common/cleanup.h"

static char *environment[] = { (char *)"PATH=/bin", (char *)"HOME=/workspace", NULL };

struct bench {
    struct language language;
    struct request request;
    struct plan plan;
    char *argv[4];
};

static void set(struct bench *b, const char *name, const char *text, size_t size)
{
    static char path[64];

    snprintf(path, sizeof(path), "/workspace/%s", name);
    *b = (struct bench){ .language = { .name = (char *)"python", .interpreter = (char *)"python3" },
                         .argv = { (char *)"python3", path } };
    b->request = (struct request){
        .script_name = (char *)name,
        .script = memfd_create("script", MFD_CLOEXEC),
        .script_bytes = size,
        .streams = STREAMS_DESCRIPTORS,
        .stdin_memfd = -1,
    };
    assert_int_equal(write(b->request.script, text, size), size);
    b->plan = (struct plan){
        .language = &b->language,
        .argv = b->argv,
        .n_argv = 2,
        .environment = environment,
        .n_environment = 2,
    };
}

static bool fits_own(struct bench *b)
{
    const struct interpreter_command own = interpreter_command_of(&b->request, &b->plan);
    bool fits = interpreter_fits(&own, &b->request, &b->plan);

    close(b->request.script);
    return fits;
}

static bool text_fits(const char *text, size_t size)
{
    struct bench b;

    set(&b, "script", text, size);
    return fits_own(&b);
}
#define FITS(text) text_fits(text, sizeof(text) - 1)

static void plain_scripts_fit(void **state)
{
    assert_true(FITS("print(4)"));
    assert_true(FITS("#!/usr/bin/python3\n# comment\nprint('\xc3\xa4')\r\n\f\tx"));
    assert_true(FITS("print(decoding)\n"));
    assert_true(FITS("\n\n\n\n\n# coding: latin-1\n"));
}

static void scripts_that_python_goes_back_in_do_not(void **state)
{
    assert_false(FITS("# coding: latin-1\n"));
    assert_false(FITS("#!/usr/bin/python3\n \t\f# -*- coding=utf-8\n"));
    assert_false(FITS("x\r# coding: latin-1"));
    assert_false(FITS("x\r\n# coding: latin-1"));
    assert_false(FITS("\xef\xbb\xbfprint(4)"));
}

static void scripts_that_are_no_text_do_not(void **state)
{
    assert_false(FITS("print('\xe4')"));
    assert_false(FITS("print(1)\0print(2)"));
    assert_false(FITS("\xf3\r\r\n compiled"));
    assert_false(FITS("print(1)\nPK\005\006"));
}

static void script_must_fit_into_a_pipe(void **state)
{
    static char text[60 * 1024 + 1];

    memset(text, '\n', sizeof(text));
    assert_true(text_fits(text, sizeof(text) - 1));
    assert_false(text_fits(text, sizeof(text)));
}

static void command_must_be_the_same(void **state)
{
    char *other[] = { (char *)"PATH=/bin", (char *)"HOME=/workspace", (char *)"A=B", NULL };
    struct bench b;
    const struct interpreter_command command = {
        .argv = (char *[]){ (char *)"python3", (char *)"/workspace/script", NULL },
        .environment = environment,
        .has_input = true,
    };
    set(&b, "script", "x", 1);
    assert_true(interpreter_fits(&command, &b.request, &b.plan));
    b.argv[2] = (char *)"argument";
    assert_false(interpreter_fits(&command, &b.request, &b.plan));
    b.argv[2] = NULL;
    b.plan.environment = other;
    assert_false(interpreter_fits(&command, &b.request, &b.plan));
    set(&b, "script", "x", 1);
    b.request.streams = STREAMS_NONE; /* so it has no input */
    assert_false(interpreter_fits(&command, &b.request, &b.plan));
    set(&b, "other.py", "x", 1);
    assert_false(interpreter_fits(&command, &b.request, &b.plan));
    assert_false(interpreter_fits(&(struct interpreter_command){ 0 }, &b.request, &b.plan));
}

static void a_users_packages_and_input_do_not_fit(void **state)
{
    struct request_input inputs[] = { { .name = (char *)".localized" },
                                      { .name = (char *)".local/lib/x.py" } };
    struct bench b;

    set(&b, "script", "x", 1);
    b.request.inputs = inputs;
    b.request.n_inputs = 1;
    assert_true(fits_own(&b));
    set(&b, "script", "x", 1);
    b.request.inputs = inputs;
    b.request.n_inputs = 2;
    assert_false(fits_own(&b));
    set(&b, "script", "x", 1);
    b.request.streams = STREAMS_NONE;
    assert_true(fits_own(&b));
    set(&b, "script", "x", 1);
    b.request.streams = STREAMS_NONE;
    b.request.stdin_memfd = 0;
    assert_false(fits_own(&b));
}

/* Nothing of a run's own may be in what waits for others. */
static void model_has_nothing_of_its_callers(void **state)
{
    struct bench b;

    set(&b, "script", "x", 1);
    assert_true(interpreter_is_usual(&b.request, &b.plan));
    b.language.interpreter = (char *)"/usr/bin/python3.13";
    assert_true(interpreter_is_usual(&b.request, &b.plan));
    b.language.interpreter = (char *)"python3-dbg";
    assert_false(interpreter_is_usual(&b.request, &b.plan));
    b.language.interpreter = (char *)"pypy3";
    assert_false(interpreter_is_usual(&b.request, &b.plan));

    set(&b, "secret-plan.py", "x", 1);
    assert_false(interpreter_is_usual(&b.request, &b.plan));
    set(&b, "main.py", "x", 1);
    assert_true(interpreter_is_usual(&b.request, &b.plan));
    b.request.n_environment = 1;
    assert_false(interpreter_is_usual(&b.request, &b.plan));
    b.request.n_environment = 0;
    b.request.stdin_memfd = 0;
    assert_false(interpreter_is_usual(&b.request, &b.plan));
    b.request.stdin_memfd = -1;
    b.plan.n_argv = 3;
    assert_false(interpreter_is_usual(&b.request, &b.plan));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_scripts_fit),
        cmocka_unit_test(scripts_that_python_goes_back_in_do_not),
        cmocka_unit_test(scripts_that_are_no_text_do_not),
        cmocka_unit_test(script_must_fit_into_a_pipe),
        cmocka_unit_test(command_must_be_the_same),
        cmocka_unit_test(a_users_packages_and_input_do_not_fit),
        cmocka_unit_test(model_has_nothing_of_its_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
