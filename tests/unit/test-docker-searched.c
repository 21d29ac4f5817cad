/* Which images a launcher need not look through again. What is in doubt is not known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/docker/searched.h"

static struct image image_of(const char *id, const char *layer)
{
    struct image image = { 0 };

    snprintf(image.id, sizeof(image.id), "%s", id);
    snprintf(image.layer, sizeof(image.layer), "%s", layer);
    return image;
}

static bool has(const struct searched *list, const char *id, const char *layer)
{
    const struct image image = image_of(id, layer);

    return searched_has(list, &image);
}

static void add(struct searched *list, const char *id, const char *layer)
{
    const struct image image = image_of(id, layer);

    searched_add(list, &image);
}

static void only_the_same_image_at_the_same_place_is_known(void **state)
{
    struct searched *list = searched_new();

    assert_non_null(list);
    assert_false(has(list, "sha256:1", "/layer/1"));
    add(list, "sha256:1", "/layer/1");
    assert_true(has(list, "sha256:1", "/layer/1"));
    assert_false(has(list, "sha256:2", "/layer/1"));
    assert_false(has(list, "sha256:1", "/layer/2"));
    assert_false(has(list, "sha256:1", "/layer"));
    assert_false(has(list, "sha256:", "1/layer/1"));
}

static void image_whose_place_is_not_told_is_never_known(void **state)
{
    struct searched *list = searched_new();

    add(list, "sha256:1", "");
    add(list, "", "/layer/1");
    assert_false(has(list, "sha256:1", ""));
    assert_false(has(list, "", "/layer/1"));
    assert_false(has(list, "", ""));
}

static void what_one_process_found_every_other_one_knows(void **state)
{
    struct searched *list = searched_new();
    int status = -1;

    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        add(list, "sha256:1", "/layer/1");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(has(list, "sha256:1", "/layer/1"));
}

static void full_list_takes_no_more_and_keeps_what_it_has(void **state)
{
    struct searched *list = searched_new();
    char id[32];

    for (unsigned i = 0; i < 1000; i++) {
        snprintf(id, sizeof(id), "sha256:%u", i);
        add(list, id, "/layer");
        /* Known already, it takes no place. */
        add(list, id, "/layer");
    }
    assert_true(has(list, "sha256:0", "/layer"));
    assert_true(has(list, "sha256:255", "/layer"));
    assert_false(has(list, "sha256:256", "/layer"));
    assert_false(has(list, "sha256:999", "/layer"));
}

static void without_memory_nothing_is_known(void **state)
{
    add(NULL, "sha256:1", "/layer/1");
    assert_false(has(NULL, "sha256:1", "/layer/1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_same_image_at_the_same_place_is_known),
        cmocka_unit_test(image_whose_place_is_not_told_is_never_known),
        cmocka_unit_test(what_one_process_found_every_other_one_knows),
        cmocka_unit_test(full_list_takes_no_more_and_keeps_what_it_has),
        cmocka_unit_test(without_memory_nothing_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
