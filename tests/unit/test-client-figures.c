/* Which of a run's files are opened on the desktop; what is shown in terminals is the functional
 * tests' (tests/functional/test_seen.py). */
#include "client-fixture.h"

#include <sys/wait.h>

#include "client/figures.h"
#include "client/say.h"
#include "common/file.h"
#include "common/json.h"

static void make_file(const char *path, const char *text, mode_t mode)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    assert_int_equal(write_all(fd, text, strlen(text)), 0);
}

/* Stands in for the desktop: notes what it is to open. */
static void make_viewer(const char *directory)
{
    char path[128];

    make_file("xdg-open", "#!/bin/sh\necho \"$1\" >>opened\n", 0700);
    snprintf(path, sizeof(path), "%s:/usr/bin:/bin", directory);
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_int_equal(setenv("DISPLAY", ":0", 1), 0);
}

static void only_what_is_called_an_image_is_opened(void **state)
{
    static const char *const names[] = { "a.html", "b.desktop", "c", "d.png.svg", "e.PNG" };
    struct result result = { .output_directory = *state, .files = json_object_new_array() };
    char text[256] = "", expected[128];

    make_viewer(*state);
    assert_int_equal(mkdir("files", 0700), 0);
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        _cleanup_free_ char *path = NULL;
        json_object *file = json_object_new_object();
        assert_true(asprintf(&path, "files/%s", names[i]) > 0);
        make_file(path, "GIF89a<script>alert(1)</script>", 0600);
        assert_int_equal(json_append(result.files, file), 0);
        assert_int_equal(json_add_string(file, "name", names[i]), 0);
        assert_int_equal(json_add_uint64(file, "bytes", 31), 0);
    }
    figures_open(&result);
    while (wait(NULL) > 0)
        ;
    json_object_put(result.files);
    _cleanup_close_ int fd = open("opened", O_RDONLY | O_CLOEXEC);
    assert_true(pread_full(fd, text, sizeof(text) - 1, 0) > 0);
    snprintf(expected, sizeof(expected), "%s/files/e.PNG\n", (const char *)*state);
    assert_string_equal(text, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_what_is_called_an_image_is_opened, enter_scratch,
                                        leave_scratch),
    };

    say_mode.quiet = true;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
