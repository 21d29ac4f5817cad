/* The limits of a collection, and workspaces that change while they are collected
 * (helper/broker/store-collect.h). */
#include "store-collector.h"

#include <pthread.h>
#include <stdatomic.h>

static void sparse_file_of_a_terabyte_is_left_out(void **state)
{
    struct fixture *f = *state;

    write_file_at(f->scratch.workspace, "huge", "");
    int fd = openat(f->scratch.workspace, "huge", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 1LL << 40), 0);
    close(fd);
    int files = collect(f);
    assert_reason(f->result, "huge", "larger");
    assert_false(exists_at(files, "huge"));
    close(files);
}

static void number_of_files_is_limited(void **state)
{
    struct fixture *f = *state;
    char name[16];

    for (int i = 0; i < 250; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        write_file_at(f->scratch.workspace, name, "x");
    }
    f->request.files_max = 10;
    close(collect(f));
    assert_int_equal(count_of(f->result, "files"), 10);
    assert_int_equal(count_of(f->result, "skipped"), COLLECT_SKIPPED_MAX + 1);
    assert_non_null(reason_of(f->result, "… and 140 more"));
}

static void number_of_folders_is_limited(void **state)
{
    struct fixture *f = *state;
    char name[16];

    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof(name), "d%d", i);
        make_directory_at(f->scratch.workspace, name);
        strcat(name, "/e");
        make_directory_at(f->scratch.workspace, name);
        strcat(name, "/f");
        write_file_at(f->scratch.workspace, name, "");
    }
    f->request.files_max = 20;
    close(collect(f));
    assert_int_equal(count_of(f->result, "files"), 10); /* each in two folders */
    assert_int_equal(count_of(f->result, "skipped"), 40);
}

static void bytes_are_limited_over_all_files(void **state)
{
    struct fixture *f = *state;

    write_file_at(f->scratch.workspace, "a", "123456");
    write_file_at(f->scratch.workspace, "b", "123456");
    f->request.bytes_max = 10;
    close(collect(f));
    assert_int_equal(count_of(f->result, "files"), 1);
    assert_int_equal(count_of(f->result, "skipped"), 1);
}

static void depth_is_limited_and_the_rest_is_kept(void **state)
{
    struct fixture *f = *state;
    int at = dup(f->scratch.workspace);

    for (int i = 0; i < 150; i++) {
        write_file_at(at, "f", "x");
        make_directory_at(at, "d");
        int next = open_directory_at(at, "d");
        close(at);
        at = next;
    }
    close(at);
    close(collect(f));
    assert_int_equal(count_of(f->result, "files"), COLLECT_DEPTH_MAX + 1);
    assert_int_equal(count_of(f->result, "skipped"), 1);
}

static void names_that_fill_the_result_end_the_list_and_not_the_run(void **state)
{
    struct fixture *f = *state;
    char name[256];

    memset(name, '\x80', 255); /* four bytes each when shown */
    name[255] = '\0';
    for (int i = 0; i < 500; i++) {
        name[0] = (char)('0' + i / 100);
        name[1] = (char)('0' + i / 10 % 10);
        name[2] = (char)('0' + i % 10);
        write_file_at(f->scratch.workspace, name, "x");
    }
    int files = collect(f);
    size_t size, kept = count_of(f->result, "files");
    json_text(f->result, &size);
    assert_true(kept > 300 && kept < 500);
    assert_true(size < MIB);
    int seen = 0;
    DIR *dir = fdopendir(files);
    for (struct dirent *e; (e = readdir(dir));)
        seen += e->d_name[0] != '.';
    closedir(dir);
    assert_int_equal(seen, kept);
}

/* ---- What changes while it is collected ---- */

struct race {
    struct fixture *f;
    void (*step)(struct fixture *);
    atomic_bool stop;
};

static void *race_main(void *userdata)
{
    struct race *race = userdata;

    while (!atomic_load(&race->stop))
        race->step(race->f);
    return NULL;
}

/* Collects @rounds times while @step goes on in another thread. */
static void collect_during(struct fixture *f, int rounds, void (*step)(struct fixture *),
                           void (*check)(struct fixture *, int files))
{
    struct race race = { .f = f, .step = step };
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, race_main, &race), 0);
    int r = 0;
    for (int i = 0; i < rounds && r == 0; i++) {
        r = try_collect(f);
        if (r == 0) {
            int files = open_directory_at(f->staging, "files");
            check(f, files);
            close(files);
        }
    }
    atomic_store(&race.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(r, 0);
}

static void swap_folder_with_link(struct fixture *f)
{
    (void)renameat2(f->scratch.workspace, "folder", f->scratch.workspace, "link", RENAME_EXCHANGE);
}

static void check_nothing_secret(struct fixture *f, int files)
{
    const char *const names[] = { "folder/secret", "link/secret" };

    for (size_t i = 0; i < ELEMENTS(names); i++) {
        const char *text = file_at(files, names[i]);
        assert_true(!text || strcmp(text, "public") == 0);
    }
}

static void fault_35_folder_swapped_for_a_link_gives_nothing_foreign(void **state)
{
    struct fixture *f = *state;

    make_directory_at(f->scratch.workspace, "folder");
    write_file_at(f->scratch.workspace, "folder/secret", "public");
    assert_int_equal(symlinkat("../outside", f->scratch.workspace, "link"), 0);
    collect_during(f, 1000, swap_folder_with_link, check_nothing_secret);
}

static void swap_file_with_link(struct fixture *f)
{
    (void)renameat2(f->scratch.workspace, "file", f->scratch.workspace, "link", RENAME_EXCHANGE);
}

static void check_no_secret_file(struct fixture *f, int files)
{
    const char *const names[] = { "file", "link" };

    for (size_t i = 0; i < ELEMENTS(names); i++) {
        const char *text = file_at(files, names[i]);
        assert_true(!text || strcmp(text, "public") == 0);
    }
}

static void fault_35_file_swapped_for_a_link_gives_nothing_foreign(void **state)
{
    struct fixture *f = *state;

    write_file_at(f->scratch.workspace, "file", "public");
    assert_int_equal(symlinkat("../outside/secret", f->scratch.workspace, "link"), 0);
    collect_during(f, 1000, swap_file_with_link, check_no_secret_file);
}

static void grow_and_cut(struct fixture *f)
{
    static char block[256 * 1024];
    int fd = openat(f->scratch.workspace, "log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

    for (int i = 0; i < 8; i++)
        (void)!write(fd, block, sizeof(block));
    (void)!ftruncate(fd, 100);
    close(fd);
}

static void check_length_is_as_reported(struct fixture *f, int files)
{
    json_object *entry = entry_of(f->result, "files", "log");

    if (!entry)
        return;
    assert_int_equal(stat_at(files, "log").st_size,
                     json_object_get_int64(json_object_object_get(entry, "bytes")));
    assert_true((uint64_t)stat_at(files, "log").st_size <= f->request.bytes_max);
}

static void file_that_grows_and_shrinks_is_copied_as_found(void **state)
{
    struct fixture *f = *state;

    f->request.bytes_max = MIB;
    collect_during(f, 200, grow_and_cut, check_length_is_as_reported);
}

static void collection_stops_when_nobody_wants_it(void **state)
{
    struct fixture *f = *state;

    write_file_at(f->scratch.workspace, "file", "x");
    close(f->job[1]);
    f->job[1] = -1;
    assert_int_equal(try_collect(f), -ECANCELED);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(sparse_file_of_a_terabyte_is_left_out),
        T(number_of_files_is_limited),
        T(number_of_folders_is_limited),
        T(bytes_are_limited_over_all_files),
        T(depth_is_limited_and_the_rest_is_kept),
        T(names_that_fill_the_result_end_the_list_and_not_the_run),
        T(fault_35_folder_swapped_for_a_link_gives_nothing_foreign),
        T(fault_35_file_swapped_for_a_link_gives_nothing_foreign),
        T(file_that_grows_and_shrinks_is_copied_as_found),
        T(collection_stops_when_nobody_wants_it),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
