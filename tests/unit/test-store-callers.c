/* Removing and opening what was published (helper/broker/store.h): its owner may have planted
 * anything in it, and may change it at the same time. */
#include "store-broker.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- Removing ---- */

static void removed_run_is_gone_and_the_second_time_unknown(void **state)
{
    struct fixture *f = *state;

    publish_run_of(f, RUN_ID);
    publish_run_of(f, OTHER_ID);
    assert_int_equal(remove_run(f, f->uid, RUN_ID), 0);
    assert_int_equal(remove_run(f, f->uid, RUN_ID), -ENOENT);
    assert_int_equal(remove_run(f, f->uid + 1, OTHER_ID), -ENOENT);
    close(open_run(f, OTHER_ID));
}

static void fault_33_cleanup_follows_no_planted_link(void **state)
{
    struct fixture *f = *state;
    char outside[128];

    publish_run_of(f, RUN_ID);
    snprintf(outside, sizeof(outside), "%s/outside", f->scratch.path);
    int run = open_run(f, RUN_ID);
    assert_int_equal(symlinkat(outside, run, "files/folder"), 0);
    assert_int_equal(symlinkat("../../../../../outside/secret", run, "files/file"), 0);
    assert_int_equal(unlinkat(run, "stdout", 0), 0);
    assert_int_equal(symlinkat("/", run, "stdout"), 0);
    assert_int_equal(linkat(f->scratch.outside, "secret", run, "files/hard", 0), 0);
    assert_int_equal(mkfifoat(run, "files/fifo", 0600), 0);
    close(run);
    assert_int_equal(remove_run(f, f->uid, RUN_ID), 0);
    assert_string_equal(file_at(f->scratch.outside, "secret"), "SECRET");
}

static void fault_33_run_replaced_by_a_link_removes_the_link_alone(void **state)
{
    struct fixture *f = *state;
    char path[128];

    publish_run_of(f, RUN_ID);
    snprintf(path, sizeof(path), "users/%u/" OTHER_ID, (unsigned)f->uid);
    assert_int_equal(symlinkat("../../../outside", f->state, path), 0);
    assert_int_equal(remove_run(f, f->uid, OTHER_ID), 0);
    assert_false(exists_at(f->state, path));
    assert_string_equal(file_at(f->scratch.outside, "secret"), "SECRET");
}

struct swap {
    int dirfd;
    atomic_bool stop;
};

static void *swap_main(void *userdata)
{
    struct swap *swap = userdata;

    while (!atomic_load(&swap->stop))
        (void)renameat2(swap->dirfd, "a", swap->dirfd, "b", RENAME_EXCHANGE);
    return NULL;
}

static void fault_35_removal_while_a_folder_is_swapped_for_a_link(void **state)
{
    struct fixture *f = *state;
    char outside[128];

    snprintf(outside, sizeof(outside), "%s/outside", f->scratch.path);
    for (int i = 0; i < 200; i++) {
        struct swap swap = { 0 };
        pthread_t thread;

        publish_run_of(f, RUN_ID);
        swap.dirfd = open_run(f, RUN_ID);
        make_directory_at(swap.dirfd, "a");
        write_file_at(swap.dirfd, "a/secret", "mine");
        assert_int_equal(symlinkat(outside, swap.dirfd, "b"), 0);
        if (is_root())
            assert_int_equal(fchownat(swap.dirfd, "a", f->uid, 4343, 0), 0);
        assert_int_equal(pthread_create(&thread, NULL, swap_main, &swap), 0);
        (void)remove_run(f, f->uid, RUN_ID); /* the swaps may win; the second time nobody swaps */
        atomic_store(&swap.stop, true);
        pthread_join(thread, NULL);
        int r = remove_run(f, f->uid, RUN_ID);
        assert_true(r == 0 || r == -ENOENT);
        close(swap.dirfd);
        assert_string_equal(file_at(f->scratch.outside, "secret"), "SECRET");
    }
}

/* A caller may move a folder of somebody else into their own, where its parent is writable by all.
 */
static void folder_of_somebody_else_is_not_emptied_and_is_named(void **state)
{
    struct fixture *f = *state;
    struct outcome o = { 0 };

    if (!is_root())
        skip();
    publish_run_of(f, RUN_ID);
    int run = open_run(f, RUN_ID);
    make_directory_at(run, "foreign");
    write_file_at(run, "foreign/file", "x");
    assert_int_equal(finish(f, store_remove(f->store, f->uid, RUN_ID, on_done, &o, &f->job), &o),
                     -EPERM);
    assert_string_equal(file_at(run, "foreign/file"), "x");
    assert_false(exists_at(run, "stdout")); /* the rest is removed */
    assert_string_equal(json_object_get_string(json_object_object_get(o.result, "name")),
                        "foreign");
    assert_non_null(json_object_object_get(o.result, "reason"));
    outcome_release(&o);
    close(run);
}

/* Makes folders below each other, the caller's. */
static void make_deep(struct fixture *f, int at, int depth)
{
    for (int i = 0; i < depth; i++) {
        make_directory_at(at, "d");
        int next = open_directory_at(at, "d");
        if (is_root())
            assert_int_equal(fchown(next, f->uid, 4343), 0);
        close(at);
        at = next;
    }
    close(at);
}

static void deep_tree_is_removed_and_a_deeper_one_is_an_error(void **state)
{
    struct fixture *f = *state;

    publish_run_of(f, RUN_ID);
    make_deep(f, open_run(f, RUN_ID), REMOVE_DEPTH_MAX - 10);
    assert_int_equal(remove_run(f, f->uid, RUN_ID), 0);

    publish_run_of(f, OTHER_ID);
    make_deep(f, open_run(f, OTHER_ID), 2 * REMOVE_DEPTH_MAX);
    assert_int_equal(remove_run(f, f->uid, OTHER_ID), -ENAMETOOLONG);
    /* What is too deep for once is brought down by hand, here level by level. */
    int run = open_run(f, OTHER_ID);
    for (int i = 0; i < 2 * REMOVE_DEPTH_MAX - 10; i++) {
        assert_int_equal(renameat(run, "d/d", run, "e"), 0);
        assert_int_equal(unlinkat(run, "d", AT_REMOVEDIR), 0);
        assert_int_equal(renameat(run, "e", run, "d"), 0);
    }
    close(run);
}

/* ---- Opening ---- */

static void kept_files_are_opened_by_their_shown_names(void **state)
{
    struct fixture *f = *state;

    make_directory_at(f->scratch.workspace, "a folder");
    write_file_at(f->scratch.workspace, "a folder/\xff\n", "odd");
    publish_run_of(f, RUN_ID);

    int fd = open_kept(f, f->uid, "files/a folder/\\xff\\x0a");
    char text[8] = "";
    assert_true(fd >= 0);
    assert_int_equal(read(fd, text, sizeof(text)), 3);
    assert_string_equal(text, "odd");
    assert_int_equal(fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK), O_RDONLY);
    close(fd);
    fd = open_kept(f, f->uid, "stdout");
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(open_kept(f, f->uid, "stderr"), -ENOENT);
    assert_int_equal(open_kept(f, f->uid + 1, "stdout"), -ENOENT);
}

static void names_that_lead_elsewhere_are_refused(void **state)
{
    struct fixture *f = *state;
    const char *const names[] = { "",
                                  "/etc/passwd",
                                  "../" RUN_ID "/stdout",
                                  "files",
                                  "files/",
                                  "files/.",
                                  "files/../stdout",
                                  "files/a/../../stdout",
                                  "files//etc/passwd",
                                  "files/\\x2e./stdout",
                                  "files/\\x00",
                                  "files/\\xzz",
                                  "stdout/",
                                  "other" };

    publish_run_of(f, RUN_ID);
    for (size_t i = 0; i < ELEMENTS(names); i++)
        assert_int_equal(open_kept(f, f->uid, names[i]), -EINVAL);
}

/* Makes an entry the caller's own, as if they had planted it. */
static void give_to_caller(struct fixture *f, int dirfd, const char *name)
{
    if (is_root())
        assert_int_equal(fchownat(dirfd, name, f->uid, 4343, AT_SYMLINK_NOFOLLOW), 0);
}

static void fault_32_planted_entries_are_not_opened_and_block_nothing(void **state)
{
    struct fixture *f = *state;

    publish_run_of(f, RUN_ID);
    int run = open_run(f, RUN_ID);
    /* What the links lead to is the caller's as well: it is the link that is refused. */
    give_to_caller(f, f->scratch.outside, "secret");
    assert_int_equal(symlinkat("../../../../../outside", run, "files/folder"), 0);
    assert_int_equal(symlinkat("../../../../../outside/secret", run, "files/link"), 0);
    assert_int_equal(symlinkat(".", run, "files/here"), 0);
    write_file_at(run, "files/file", "x");
    assert_int_equal(mkfifoat(run, "files/fifo", 0600), 0);
    assert_int_equal(mkfifoat(run, "stderr", 0600), 0);
    make_directory_at(run, "script");
    assert_int_equal(unlinkat(run, "stdout", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", run, "stdout"), 0);
    const char *const planted[] = { "files/file", "files/fifo", "stderr", "script" };
    for (size_t i = 0; i < ELEMENTS(planted); i++)
        give_to_caller(f, run, planted[i]);
    close(run);

    int fd = open_kept(f, f->uid, "files/file");
    assert_true(fd >= 0);
    close(fd);
    const char *const names[] = { "files/folder/secret",
                                  "files/link",
                                  "files/here/file",
                                  "files/fifo",
                                  "stderr",
                                  "stdout",
                                  "script" };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (open_kept(f, f->uid, names[i]) != -EPERM)
            fail_msg("%s", names[i]);
}

static void file_of_somebody_else_is_not_opened(void **state)
{
    struct fixture *f = *state;

    if (!is_root())
        skip();
    publish_run_of(f, RUN_ID);
    int run = open_run(f, RUN_ID);
    assert_int_equal(linkat(f->scratch.outside, "secret", run, "script", 0), 0);
    close(run);
    assert_int_equal(open_kept(f, f->uid, "script"), -EPERM);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(removed_run_is_gone_and_the_second_time_unknown),
        T(fault_33_cleanup_follows_no_planted_link),
        T(fault_33_run_replaced_by_a_link_removes_the_link_alone),
        T(fault_35_removal_while_a_folder_is_swapped_for_a_link),
        T(folder_of_somebody_else_is_not_emptied_and_is_named),
        T(deep_tree_is_removed_and_a_deeper_one_is_an_error),
        T(kept_files_are_opened_by_their_shown_names),
        T(names_that_lead_elsewhere_are_refused),
        T(fault_32_planted_entries_are_not_opened_and_block_nothing),
        T(file_of_somebody_else_is_not_opened),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
