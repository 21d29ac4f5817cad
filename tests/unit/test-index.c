/* The index of runs (helper/broker/index.h): what is put is found again by the next process, and
 * what else lies in the directory is not believed. */
#include "store-fixture.h"
#include "broker/index.h"

/* In place of the C library's: so many times something was brought to the disk, and whether it
 * fails. */
static unsigned files_synced, directories_synced;
static bool disk_fails;

static int note_sync(unsigned *count)
{
    if (disk_fails) {
        errno = EIO;
        return -1;
    }
    ++*count;
    return 0;
}

int fdatasync(int fd)
{
    return note_sync(&files_synced);
}

int fsync(int fd)
{
    return note_sync(&directories_synced);
}

struct fixture {
    struct scratch scratch;
    char path[96]; /* of the index */
    struct run_index *index;
    json_object *result;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    scratch_make(&f->scratch);
    snprintf(f->path, sizeof(f->path), "%s/index", f->scratch.path);
    assert_int_equal(index_open(f->path, &f->index), 0);
    f->result = json_object_new_object();
    json_add_string(f->result, "status", "succeeded");
    files_synced = directories_synced = 0;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    json_object_put(f->result);
    index_close(f->index);
    scratch_remove(&f->scratch);
    free(f);
    return 0;
}

static void reopen(struct fixture *f)
{
    f->index = index_close(f->index);
    assert_int_equal(index_open(f->path, &f->index), 0);
}

static int open_index_directory(struct fixture *f)
{
    return open_directory_at(f->scratch.fd, "index");
}

static void entry_outlives_the_process(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(index_put(f->index, RUN_ID, 4242, 17, false, f->result), 0);
    for (int i = 0; i < 2; i++) {
        const struct index_entry *entry = index_get(f->index, RUN_ID);
        assert_non_null(entry);
        assert_string_equal(entry->id, RUN_ID);
        assert_int_equal(entry->uid, 4242);
        assert_int_equal(entry->created_usec, 17);
        assert_false(entry->final);
        json_object *result = index_read_short_result(f->index, RUN_ID);
        assert_string_equal(json_get_string(result, "status"), "succeeded");
        json_object_put(result);
        reopen(f);
    }
}

/* Where the index would write a new version of the entry there is a directory, as if the disk did
 * not take it. */
static void block_writing(struct fixture *f, bool blocked)
{
    _cleanup_close_ int dir = open_index_directory(f);

    /* What is on the disk is not written over. */
    assert_int_equal(index_sync(f->index), 0);
    if (blocked)
        assert_int_equal(mkdirat(dir, RUN_ID ".json.tmp", 0700), 0);
    else
        assert_int_equal(unlinkat(dir, RUN_ID ".json.tmp", AT_REMOVEDIR), 0);
}

static const char *status_of(struct fixture *f)
{
    static char status[32];
    _cleanup_json_ json_object *result = index_read_result(f->index, RUN_ID);

    snprintf(status, sizeof(status), "%s", json_get_string(result, "status"));
    return status;
}

static ino_t inode_of_entry(struct fixture *f)
{
    _cleanup_close_ int dir = open_index_directory(f);
    struct stat st;

    assert_int_equal(fstatat(dir, RUN_ID ".json", &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_ino;
}

static void put_with_text(struct fixture *f, const char *status, size_t length)
{
    _cleanup_json_ json_object *result = json_object_new_object();
    _cleanup_free_ char *text = malloc(length + 1);

    memset(text, 'x', length);
    text[length] = '\0';
    json_add_string(result, "status", status);
    json_add_string(result, "reason", text);
    assert_int_equal(index_put(f->index, RUN_ID, 4242, 17, true, result), 0);
    assert_string_equal(status_of(f), status);
}

static void entry_is_written_over_where_nothing_can_be_lost(void **state)
{
    struct fixture *f = *state;

    put_with_text(f, "running", 10);
    ino_t first = inode_of_entry(f);
    put_with_text(f, "longer", 100);
    assert_int_equal(inode_of_entry(f), first);
    put_with_text(f, "shorter", 50);
    ino_t second = inode_of_entry(f);
    assert_int_not_equal(second, first);
    put_with_text(f, "more than a page", 4096);
    ino_t third = inode_of_entry(f);
    assert_int_not_equal(third, second);
    put_with_text(f, "small", 10);
    ino_t fourth = inode_of_entry(f);
    assert_int_equal(index_sync(f->index), 0);
    put_with_text(f, "on the disk", 100);
    assert_int_not_equal(inode_of_entry(f), fourth);
    reopen(f);
    assert_string_equal(status_of(f), "on the disk");
}

static void end_that_was_not_written_holds_and_is_written_later(void **state)
{
    struct fixture *f = *state;
    _cleanup_json_ json_object *ended = json_object_new_object();

    json_add_string(ended, "status", "failed");
    assert_int_equal(index_put(f->index, RUN_ID, 4242, 17, false, f->result), 0);
    block_writing(f, true);
    assert_true(index_put(f->index, RUN_ID, 4242, 17, true, ended) < 0);
    assert_true(index_get(f->index, RUN_ID)->final);
    assert_string_equal(status_of(f), "failed");
    assert_false(index_retry(f->index));
    block_writing(f, false);
    assert_true(index_retry(f->index));
    reopen(f);
    assert_true(index_get(f->index, RUN_ID)->final);
    assert_string_equal(status_of(f), "failed");
}

static void end_that_was_never_written_is_not_there_later(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(index_put(f->index, RUN_ID, 4242, 17, false, f->result), 0);
    block_writing(f, true);
    assert_true(index_put(f->index, RUN_ID, 4242, 17, true, f->result) < 0);
    reopen(f);
    assert_false(index_get(f->index, RUN_ID)->final);
    block_writing(f, false);
}

static void change_of_an_end_that_was_not_written_does_not_hold(void **state)
{
    struct fixture *f = *state;
    _cleanup_json_ json_object *changed = json_object_new_object();

    json_add_string(changed, "status", "failed");
    assert_int_equal(index_put(f->index, RUN_ID, 4242, 17, true, f->result), 0);
    block_writing(f, true);
    assert_true(index_put(f->index, RUN_ID, 4242, 17, true, changed) < 0);
    assert_string_equal(status_of(f), "succeeded");
    block_writing(f, false);
}

static void later_entry_replaces_the_earlier_one(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(index_put(f->index, RUN_ID, 4242, 17, false, f->result), 0);
    json_object *final = json_object_new_object();
    assert_int_equal(index_put(f->index, RUN_ID, 4242, 17, true, final), 0);
    json_object_put(final);
    assert_true(index_get(f->index, RUN_ID)->final);
    reopen(f);
    assert_true(index_get(f->index, RUN_ID)->final);
}

static void foreign_and_unknown_run_look_the_same(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(index_put(f->index, RUN_ID, 4242, 17, true, f->result), 0);
    assert_non_null(index_get_owned(f->index, RUN_ID, 4242));
    assert_null(index_get_owned(f->index, RUN_ID, 4243));
    assert_null(index_get_owned(f->index, "ffffffffffff", 4242));
}

static void removed_entry_stays_removed(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(index_put(f->index, RUN_ID, 4242, 17, true, f->result), 0);
    assert_int_equal(index_remove(f->index, index_get(f->index, RUN_ID)->id), 0);
    assert_int_equal(index_remove(f->index, RUN_ID), -ENOENT);
    reopen(f);
    assert_null(index_get(f->index, RUN_ID));
}

struct order {
    uint64_t last;
    size_t n, stop_after;
};

static bool check_order(const struct index_entry *entry, void *userdata)
{
    struct order *order = userdata;

    assert_true(entry->created_usec <= order->last);
    order->last = entry->created_usec;
    return ++order->n != order->stop_after;
}

static void entries_are_walked_newest_first_until_told_to_stop(void **state)
{
    struct fixture *f = *state;
    char id[32];

    for (unsigned i = 0; i < 200; i++) {
        snprintf(id, sizeof(id), "%08x", i);
        assert_int_equal(index_put(f->index, id, 1, (i * 7919) % 200, false, f->result), 0);
    }
    struct order all = { .last = UINT64_MAX }, some = { .last = UINT64_MAX, .stop_after = 3 };
    index_foreach(f->index, check_order, &all);
    index_foreach(f->index, check_order, &some);
    assert_int_equal(all.n, 200);
    assert_int_equal(some.n, 3);
    reopen(f);
    all = (struct order){ .last = UINT64_MAX };
    index_foreach(f->index, check_order, &all);
    assert_int_equal(all.n, 200);
}

static void ids_that_are_paths_are_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(index_put(f->index, "../outside/x", 1, 1, false, f->result), -EINVAL);
    assert_int_equal(index_put(f->index, "", 1, 1, false, f->result), -EINVAL);
    assert_int_equal(index_put(f->index, "ABCDEF0123", 1, 1, false, f->result), -EINVAL);
}

static void result_that_could_not_be_loaded_again_is_refused_and_the_older_stands(void **state)
{
    struct fixture *f = *state;
    char *text = malloc(1024 * 1024 + 1);

    memset(text, 'x', 1024 * 1024);
    text[1024 * 1024] = '\0';
    assert_int_equal(index_put(f->index, RUN_ID, 1, 1, false, f->result), 0);
    json_object *large = json_object_new_object();
    json_add_string(large, "reason", text);
    assert_int_equal(index_put(f->index, RUN_ID, 1, 1, true, large), -E2BIG);
    json_object_put(large);
    free(text);
    assert_false(index_get(f->index, RUN_ID)->final);
}

static void failed_write_leaves_the_older_entry(void **state)
{
    struct fixture *f = *state;
    _cleanup_json_ json_object *changed = json_object_new_object();

    json_add_string(changed, "status", "running");
    assert_int_equal(index_put(f->index, RUN_ID, 4242, 17, false, f->result), 0);
    block_writing(f, true);
    assert_true(index_put(f->index, RUN_ID, 4242, 17, false, changed) < 0);
    assert_string_equal(status_of(f), "succeeded");
    block_writing(f, false);
    reopen(f);
    assert_string_equal(status_of(f), "succeeded");
}

/* The members before the id, the id's own, and those after it. */
#define HEAD "{\"version\":1,\"id\":\""
#define TAIL "\",\"uid\":1,\"createdUSec\":1,\"final\":true,\"result\":{}}"
#define GOOD HEAD RUN_ID TAIL

/* Whether a file of that text is loaded as the entry RUN_ID; if not, it must be put aside. */
static bool is_loaded(struct fixture *f, const char *text)
{
    int dir = open_index_directory(f);

    write_file_at(dir, RUN_ID ".json", text);
    assert_int_equal(fchmodat(dir, RUN_ID ".json", 0600, 0), 0);
    reopen(f);
    bool loaded = index_get(f->index, RUN_ID) != NULL;
    assert_int_equal(exists_at(dir, RUN_ID ".json"), loaded);
    assert_int_equal(exists_at(dir, RUN_ID ".json.bad"), !loaded);
    (void)unlinkat(dir, RUN_ID ".json.bad", 0);
    close(dir);
    return loaded;
}

static void fault_53_forged_state_is_put_aside(void **state)
{
    struct fixture *f = *state;
    const char *const bad[] = {
        "",
        "{",
        "[]",
        "{}",
        GOOD GOOD,
        "{\"version\":2,\"id\":\"" RUN_ID
        "\",\"uid\":1,\"createdUSec\":1,\"final\":true,\"result\":{}}",
        "{\"version\":1,\"id\":\"ffffffffffffffff\",\"uid\":1,\"createdUSec\":1,\"final\":true,"
        "\"result\":{}}",
        "{\"version\":1,\"id\":\"" RUN_ID
        "\",\"uid\":-1,\"createdUSec\":1,\"final\":true,\"result\":{}}",
        "{\"version\":1,\"id\":\"" RUN_ID
        "\",\"uid\":4294967295,\"createdUSec\":1,\"final\":true,\"result\":{}}",
        "{\"version\":1,\"id\":\"" RUN_ID
        "\",\"uid\":1,\"uid\":0,\"createdUSec\":1,\"final\":true,\"result\":{}}",
        "{\"version\":1,\"id\":\"" RUN_ID
        "\",\"uid\":1,\"createdUSec\":1,\"final\":true,\"result\":{},\"more\":1}",
        "{\"version\":1,\"id\":\"" RUN_ID "\",\"uid\":1,\"createdUSec\":1,\"final\":true}",
    };

    assert_true(is_loaded(f, GOOD));
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        if (is_loaded(f, bad[i]))
            fail_msg("loaded: %s", bad[i]);
}

static void fault_65_files_that_others_could_write_are_put_aside(void **state)
{
    struct fixture *f = *state;
    int dir = open_index_directory(f);

    write_file_at(dir, "00000001.json", HEAD "00000001" TAIL);
    assert_int_equal(fchmodat(dir, "00000001.json", 0666, 0), 0);
    assert_int_equal(symlinkat("../outside/secret", dir, "00000002.json"), 0);
    assert_int_equal(mkfifoat(dir, "00000003.json", 0600), 0);
    write_file_at(f->scratch.outside, "linked", GOOD);
    assert_int_equal(linkat(f->scratch.outside, "linked", dir, RUN_ID ".json", 0), 0);
    write_file_at(dir, "00000005.json.tmp", "half");
    reopen(f);
    assert_null(index_get(f->index, RUN_ID));
    assert_true(exists_at(dir, "00000001.json.bad"));
    assert_true(exists_at(dir, "00000002.json.bad"));
    assert_true(exists_at(dir, "00000003.json.bad"));
    assert_true(exists_at(dir, RUN_ID ".json.bad"));
    assert_false(exists_at(dir, "00000005.json.tmp"));
    close(dir);
}

static void file_of_another_name_than_its_id_is_put_aside(void **state)
{
    struct fixture *f = *state;
    const char *const names[] = { "00000001.json", RUN_ID ".jso", RUN_ID ".json2", RUN_ID };
    int dir = open_index_directory(f);

    for (size_t i = 0; i < ELEMENTS(names); i++) {
        write_file_at(dir, names[i], GOOD);
        assert_int_equal(fchmodat(dir, names[i], 0600, 0), 0);
    }
    reopen(f);
    assert_null(index_get(f->index, RUN_ID));
    close(dir);
}

static void fault_65_directory_that_others_could_write_is_refused(void **state)
{
    struct fixture *f = *state;
    struct run_index *index = NULL;

    f->index = index_close(f->index);
    assert_int_equal(chmod(f->path, 0770), 0);
    assert_int_equal(index_open(f->path, &index), -EPERM);
    assert_int_equal(chmod(f->path, 0700), 0);
    assert_int_equal(renameat(f->scratch.fd, "index", f->scratch.fd, "other"), 0);
    assert_int_equal(symlinkat("other", f->scratch.fd, "index"), 0);
    assert_true(index_open(f->path, &index) < 0);
    assert_null(index);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void output_stays_on_disk_and_is_read_when_asked_for(void **state)
{
    struct run_index *index = ((struct fixture *)*state)->index;
    json_object *result = json_object_new_object();

    json_add_string(result, "status", "succeeded");
    json_add_string(result, "stdout", "a lot of text");
    assert_int_equal(index_put(index, "00000000000000aa", 1000, 1, true, result), 0);
    json_object_put(result);
    result = index_read_short_result(index, "00000000000000aa");
    assert_string_equal(json_get_string(result, "status"), "succeeded");
    assert_null(json_object_object_get(result, "stdout"));
    json_object_put(result);
    result = index_read_result(index, "00000000000000aa");
    assert_string_equal(json_object_get_string(json_object_object_get(result, "stdout")),
                        "a lot of text");
    json_object_put(result);
    assert_null(index_read_result(index, "00000000000000ab"));
    assert_null(index_read_result(index, "../etc/passwd"));
}

static json_object *result_with_files(void)
{
    static const char text[] =
        "{\"endedUSec\":99,\"outputDirectory\":\"/x\",\"stdout\":{\"keptBytes\":100},\"stderr\":{"
        "\"keptBytes\":20},\"files\":[{\"name\":\"a\",\"bytes\":3},{\"name\":\"b\",\"bytes\":4}]}";
    json_object *result;

    assert_int_equal(json_parse_guarded(text, strlen(text), &result), 0);
    return result;
}

static void size_and_end_are_known_without_reading_the_result(void **state)
{
    struct fixture *f = *state;
    json_object *result = result_with_files();

    assert_int_equal(index_put(f->index, RUN_ID, 1, 1, true, result), 0);
    json_object_put(result);
    for (int i = 0; i < 2; i++) {
        const struct index_entry *entry = index_get(f->index, RUN_ID);
        assert_int_equal(entry->ended_usec, 99);
        assert_int_equal(entry->bytes, 127);
        assert_int_equal(entry->files, 6);
        assert_true(entry->kept);
        reopen(f);
    }
    index_lower_size(f->index, RUN_ID, 50, 100);
    assert_int_equal(index_get(f->index, RUN_ID)->bytes, 50);
    assert_int_equal(index_get(f->index, RUN_ID)->files, 6);
}

static void result_that_is_too_long_goes_in_without_its_output(void **state)
{
    struct fixture *f = *state;
    json_object *result = result_with_files(), *stdout_ = json_object_new_object();
    char *text = calloc(1, 1024 * 1024 + 1);

    memset(text, 'x', 1024 * 1024);
    json_add_string(stdout_, "text", text);
    json_add_uint64(stdout_, "keptBytes", 1024 * 1024);
    json_add(result, "stdout", stdout_);
    assert_int_equal(index_put(f->index, RUN_ID, 1, 1, true, result), 0);
    json_object_put(result);
    free(text);
    reopen(f);
    assert_int_equal(index_get(f->index, RUN_ID)->bytes, 1024 * 1024 + 27);
    result = index_read_result(f->index, RUN_ID);
    assert_null(json_object_object_get(result, "stdout"));
    /* What is noted later has no output either, and the size stays. */
    json_add_string(result, "verdict", "accepted");
    assert_int_equal(index_put(f->index, RUN_ID, 1, 1, true, result), 0);
    json_object_put(result);
    assert_int_equal(index_get(f->index, RUN_ID)->bytes, 1024 * 1024 + 27);
}

static void write_torn(struct fixture *f, size_t cut, bool blank)
{
    int dir = open_index_directory(f);
    int fd = openat(dir, RUN_ID ".json", O_RDWR | O_CLOEXEC);
    struct stat st;
    char zeros[64] = { 0 };

    assert_int_equal(fstat(fd, &st), 0);
    if (blank)
        assert_true(pwrite(fd, zeros, cut, st.st_size - (off_t)cut) == (ssize_t)cut);
    else
        assert_int_equal(ftruncate(fd, st.st_size - (off_t)cut), 0);
    close(fd);
    close(dir);
}

static void torn_file_is_put_aside(void **state)
{
    struct fixture *f = *state;
    int dir = open_index_directory(f);

    for (int blank = 0; blank < 2; blank++) {
        json_object *result = result_with_files();
        assert_int_equal(index_put(f->index, RUN_ID, 1, 1, true, result), 0);
        json_object_put(result);
        write_torn(f, 8, blank);
        reopen(f);
        /* Nothing but its content tells of one that has the right size. */
        assert_int_equal(index_get(f->index, RUN_ID) != NULL, blank);
        assert_null(index_read_result(f->index, RUN_ID));
        assert_null(index_get(f->index, RUN_ID));
        assert_true(exists_at(dir, RUN_ID ".json.bad"));
        assert_false(exists_at(dir, RUN_ID ".json"));
    }
    close(dir);
}

static void file_of_the_first_version_is_read(void **state)
{
    struct fixture *f = *state;
    int dir = open_index_directory(f);

    write_file_at(dir, RUN_ID ".json",
                  HEAD RUN_ID
                  "\",\"uid\":1,\"createdUSec\":7,\"final\":true,\"result\":{\"endedUSec\":9,"
                  "\"outputDirectory\":\"/x\",\"stdout\":{\"keptBytes\":5}}}");
    assert_int_equal(fchmodat(dir, RUN_ID ".json", 0600, 0), 0);
    close(dir);
    reopen(f);
    assert_int_equal(index_get(f->index, RUN_ID)->ended_usec, 9);
    assert_int_equal(index_get(f->index, RUN_ID)->bytes, 5);
    json_object *whole = index_read_result(f->index, RUN_ID);
    json_object *shorter = index_read_short_result(f->index, RUN_ID);
    assert_non_null(json_object_object_get(whole, "stdout"));
    assert_null(json_object_object_get(shorter, "stdout"));
    json_object_put(whole);
    json_object_put(shorter);
}

#define OTHER_ID "00000000000000ab"

static void entries_come_to_the_disk_together(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(index_put(f->index, RUN_ID, 1, 1, false, f->result), 0);
    assert_int_equal(index_put(f->index, RUN_ID, 1, 1, true, f->result), 0);
    assert_int_equal(index_put(f->index, OTHER_ID, 1, 2, false, f->result), 0);
    assert_int_equal(files_synced + directories_synced, 0);
    assert_int_equal(index_sync(f->index), 0);
    assert_int_equal(files_synced, 2);
    assert_int_equal(directories_synced, 1);
    assert_int_equal(index_sync(f->index), 0);
    assert_int_equal(directories_synced, 1);
}

static void loop_brings_entries_to_the_disk(void **state)
{
    struct fixture *f = *state;
    sd_event *event = NULL;

    assert_int_equal(sd_event_new(&event), 0);
    index_attach(f->index, event);
    for (unsigned i = 1; i <= 2; i++) {
        assert_int_equal(index_put(f->index, RUN_ID, 1, 1, i == 2, f->result), 0);
        while (directories_synced < i)
            assert_true(sd_event_run(event, 10 * 1000 * 1000) > 0);
        assert_int_equal(files_synced, i);
    }
    sd_event_unref(event);
}

static void end_of_the_process_brings_entries_to_the_disk(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(index_put(f->index, RUN_ID, 1, 1, true, f->result), 0);
    reopen(f);
    assert_int_equal(files_synced, 1);
    assert_int_equal(directories_synced, 1);
}

static void what_did_not_come_to_the_disk_is_tried_again(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(index_put(f->index, RUN_ID, 1, 1, false, f->result), 0);
    disk_fails = true;
    assert_int_equal(index_sync(f->index), -EIO);
    disk_fails = false;
    assert_int_equal(index_sync(f->index), 0);
    assert_int_equal(files_synced, 1);
}

static void removed_entry_is_not_waited_for(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(index_put(f->index, RUN_ID, 1, 1, false, f->result), 0);
    assert_int_equal(index_put(f->index, OTHER_ID, 1, 2, false, f->result), 0);
    assert_int_equal(index_remove(f->index, RUN_ID), 0);
    assert_int_equal(index_sync(f->index), 0);
    assert_int_equal(files_synced, 1);
}

static void assert_use(struct fixture *f, uid_t uid, uint64_t runs, uint64_t bytes, uint64_t files)
{
    struct retention_use use = index_use(f->index, uid);

    assert_int_equal(use.runs, runs);
    assert_int_equal(use.bytes, bytes);
    assert_int_equal(use.files, files);
}

static void what_a_users_runs_take_is_that_of_all_that_ended(void **state)
{
    struct fixture *f = *state;
    json_object *result = result_with_files();

    assert_int_equal(index_put(f->index, RUN_ID, 1, 1, false, f->result), 0);
    assert_use(f, 1, 0, 0, 0);
    for (int i = 0; i < 2; i++) { /* noted anew */
        assert_int_equal(index_put(f->index, RUN_ID, 1, 1, true, result), 0);
        assert_use(f, 1, 1, 127, 6);
    }
    assert_int_equal(index_put(f->index, OTHER_ID, 1, 2, true, result), 0);
    assert_int_equal(index_put(f->index, "00000000000000cd", 2, 3, true, result), 0);
    for (int i = 0; i < 2; i++) {
        assert_use(f, 1, 2, 254, 12);
        assert_use(f, 2, 1, 127, 6);
        assert_use(f, 3, 0, 0, 0);
        reopen(f);
    }
    index_lower_size(f->index, OTHER_ID, 27, 1);
    assert_use(f, 1, 2, 154, 7);
    assert_int_equal(index_remove(f->index, RUN_ID), 0);
    assert_use(f, 1, 1, 27, 1);
    assert_int_equal(index_remove(f->index, OTHER_ID), 0);
    assert_use(f, 1, 0, 0, 0);
    json_object_put(result);
}

/* Else the next detached run could not be noted, and all that follow. */
static void entry_that_somebody_took_away_holds_up_no_other(void **state)
{
    struct fixture *f = *state;
    _cleanup_close_ int dir = open_index_directory(f);

    assert_int_equal(index_put(f->index, OTHER_ID, 1, 1, false, f->result), 0);
    assert_int_equal(index_put(f->index, RUN_ID, 1, 2, false, f->result), 0);
    assert_int_equal(unlinkat(dir, RUN_ID ".json", 0), 0);
    assert_int_equal(index_sync(f->index), 0);
    assert_int_equal(files_synced, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(entry_outlives_the_process),
        T(entry_is_written_over_where_nothing_can_be_lost),
        T(end_that_was_not_written_holds_and_is_written_later),
        T(end_that_was_never_written_is_not_there_later),
        T(change_of_an_end_that_was_not_written_does_not_hold),
        T(later_entry_replaces_the_earlier_one),
        T(foreign_and_unknown_run_look_the_same),
        T(removed_entry_stays_removed),
        T(entries_are_walked_newest_first_until_told_to_stop),
        T(ids_that_are_paths_are_refused),
        T(result_that_could_not_be_loaded_again_is_refused_and_the_older_stands),
        T(failed_write_leaves_the_older_entry),
        T(fault_53_forged_state_is_put_aside),
        T(fault_65_files_that_others_could_write_are_put_aside),
        T(file_of_another_name_than_its_id_is_put_aside),
        T(fault_65_directory_that_others_could_write_is_refused),
        T(size_and_end_are_known_without_reading_the_result),
        T(result_that_is_too_long_goes_in_without_its_output),
        T(torn_file_is_put_aside),
        T(file_of_the_first_version_is_read),
        T(output_stays_on_disk_and_is_read_when_asked_for),
        T(what_a_users_runs_take_is_that_of_all_that_ended),
        T(entries_come_to_the_disk_together),
        T(loop_brings_entries_to_the_disk),
        T(end_of_the_process_brings_entries_to_the_disk),
        T(what_did_not_come_to_the_disk_is_tried_again),
        T(removed_entry_is_not_waited_for),
        T(entry_that_somebody_took_away_holds_up_no_other),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
