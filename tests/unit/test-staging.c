/* The directories for results (helper/broker/staging.h): one that was made before it was needed is
 * like one that was not. */
#include "store-fixture.h"
#include "broker/staging.h"

#define OTHER_ID "0123456789abcdee"

struct fixture {
    struct scratch scratch;
    struct staging staging;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    scratch_make(&f->scratch);
    assert_int_equal(staging_open(f->scratch.path, &f->staging), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    staging_close(&f->staging);
    scratch_remove(&f->scratch);
    free(f);
    return 0;
}

/* Makes one, with something in it. */
static void make(struct fixture *f, const char *id)
{
    int streams[2] = { -1, -1 };
    _cleanup_close_ int fd = -1;

    assert_int_equal(staging_make(&f->staging, id, &fd, streams), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(write(streams[i], "text", 4), 4);
        close(streams[i]);
    }
    assert_string_equal(file_at(fd, "stdout"), "text");
    assert_string_equal(file_at(fd, "stderr"), "text");
    assert_int_equal(stat_at(f->staging.directory, id).st_mode & 07777, 0700);
    assert_int_equal(stat_at(fd, "stdout").st_mode & 07777, 0600);
}

static void each_run_has_its_own(void **state)
{
    struct fixture *f = *state;
    int streams[2] = { -1, -1 }, fd = -1;

    staging_prepare(&f->staging);
    ino_t spare = stat_at(f->staging.spare, "next").st_ino;
    assert_true(exists_at(f->staging.spare, "next/files"));
    make(f, RUN_ID);
    assert_int_equal(stat_at(f->staging.directory, RUN_ID).st_ino, spare);
    assert_false(exists_at(f->staging.spare, "next"));
    make(f, OTHER_ID);
    assert_false(exists_at(f->staging.directory, OTHER_ID "/files"));
    staging_prepare(&f->staging);
    staging_prepare(&f->staging);
    assert_int_equal(staging_make(&f->staging, OTHER_ID, &fd, streams), -EEXIST);
    assert_int_equal(fd, -1);
    assert_string_equal(file_at(f->staging.directory, RUN_ID "/stdout"), "text");
}

static void half_made_one_is_completed(void **state)
{
    struct fixture *f = *state;

    make_directory_at(f->staging.spare, "next");
    assert_int_equal(fchmodat(f->staging.spare, "next", 0700, 0), 0);
    write_file_at(f->staging.spare, "next/stdout", "");
    assert_int_equal(fchmodat(f->staging.spare, "next/stdout", 0600, 0), 0);
    make(f, RUN_ID); /* not known to be whole, so it is not used */
    assert_true(exists_at(f->staging.spare, "next"));
    staging_prepare(&f->staging);
    make(f, OTHER_ID);
    assert_true(exists_at(f->staging.directory, OTHER_ID "/files"));
}

static void one_that_somebody_took_away_is_made(void **state)
{
    struct fixture *f = *state;

    staging_prepare(&f->staging);
    assert_int_equal(renameat(f->staging.spare, "next", f->staging.spare, "away"), 0);
    make(f, RUN_ID);
    staging_prepare(&f->staging);
    make(f, OTHER_ID);
}

static void one_that_cannot_be_completed_is_there_to_be_removed(void **state)
{
    struct fixture *f = *state;
    int streams[2] = { -1, -1 };
    _cleanup_close_ int fd = -1;

    staging_prepare(&f->staging);
    assert_int_equal(unlinkat(f->staging.spare, "next/stderr", 0), 0);
    assert_int_equal(staging_make(&f->staging, RUN_ID, &fd, streams), -ENOENT);
    assert_true(fd >= 0);
    assert_true(exists_at(f->staging.directory, RUN_ID));
    close(streams[0]);
}

static void without_a_place_for_the_spare_one_each_is_made(void **state)
{
    struct fixture *f = *state;

    staging_close(&f->staging);
    assert_int_equal(unlinkat(f->scratch.fd, "spare", AT_REMOVEDIR), 0);
    write_file_at(f->scratch.fd, "spare", "");
    assert_int_equal(staging_open(f->scratch.path, &f->staging), 0);
    staging_prepare(&f->staging);
    assert_false(f->staging.is_spare);
    make(f, RUN_ID);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(each_run_has_its_own),
        T(half_made_one_is_completed),
        T(one_that_somebody_took_away_is_made),
        T(one_that_cannot_be_completed_is_there_to_be_removed),
        T(without_a_place_for_the_spare_one_each_is_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
