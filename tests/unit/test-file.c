/* What the programs share for descriptors: whole reads and writes, plain paths, directories, sealed
 * memfds, waiting (common/file.h, directory.h, memfd.h, clock.h). Holes: test-store-collect.c and
 * test-client-files.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "common/clock.h"
#include "common/directory.h"
#include "common/file.h"
#include "common/memfd.h"

static void paths_of_names_are_plain(void **state)
{
    char longest[256];

    memset(longest, 'x', 255);
    longest[255] = '\0';
    assert_true(path_is_plain("a"));
    assert_true(path_is_plain("a/b c/\xff"));
    assert_true(path_is_plain("..."));
    assert_true(path_is_plain("..a/.b/a.."));
    assert_true(path_is_plain(longest));
}

static void paths_that_lead_elsewhere_are_not_plain(void **state)
{
    static const char *const paths[] = { "",   "/",    "/a",   "a/",   "a//b",   ".",
                                         "..", "./a",  "../a", "a/.",  "a/..",   "a/./b",
                                         "//", "a/..", "..//", "/../", "a/../b", "../" };
    char too_long[257];

    for (size_t i = 0; i < ELEMENTS(paths); i++)
        assert_false(path_is_plain(paths[i]));
    memset(too_long, 'x', 256);
    too_long[256] = '\0';
    assert_false(path_is_plain(too_long));
}

static void what_is_written_whole_is_read_whole_and_ends_with_the_file(void **state)
{
    _cleanup_close_ int fd = memfd_new("test");
    char text[8] = "";

    assert_int_equal(write_all(fd, "abc", 3), 0);
    assert_int_equal(pwrite_all(fd, "XY", 2, 1), 0);
    assert_int_equal(write_all(fd, "d", 1), 0);
    assert_int_equal(pread_full(fd, text, sizeof(text), 0), 4);
    assert_string_equal(text, "aXYd");
    assert_int_equal(pread_full(fd, text, 2, 3), 1);
    assert_int_equal(pread_full(fd, text, 2, 4), 0);
    assert_int_equal(pread_full(-1, text, 2, 0), -EBADF);
    assert_int_equal(write_all(-1, "x", 1), -EBADF);
    assert_int_equal(pwrite_all(-1, "x", 1, 0), -EBADF);
}

static void only_a_memfd_with_all_seals_is_sealed(void **state)
{
    _cleanup_close_ int fd = memfd_new("test");
    _cleanup_close_ int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_false(memfd_is_sealed(file));
    assert_false(memfd_is_sealed(-1));
    assert_int_equal(write_all(fd, "x", 1), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_false(memfd_is_sealed(fd));
    assert_int_equal(memfd_seal(fd), 0);
    assert_true(memfd_is_sealed(fd));
    assert_int_equal(write_all(fd, "x", 1), -EPERM);
}

static void directory_shows_its_entries_and_not_itself(void **state)
{
    char path[] = "/tmp/test-file.XXXXXX";
    const struct dirent *entry;

    assert_non_null(mkdtemp(path));
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(fd, "..a", 0700), 0);

    _cleanup_closedir_ DIR *dir = directory_take(TAKE_FD(fd));
    assert_non_null(dir);
    entry = directory_next(dir);
    assert_non_null(entry);
    assert_string_equal(entry->d_name, "..a");
    assert_null(directory_next(dir));
    assert_int_equal(errno, 0);
    assert_int_equal(unlinkat(dirfd(dir), "..a", AT_REMOVEDIR), 0);
    assert_int_equal(rmdir(path), 0);
}

static void descriptor_that_is_no_directory_is_closed(void **state)
{
    int fd = memfd_new("test");

    assert_null(directory_take(fd));
    assert_int_equal(errno, ENOTDIR);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void on_alarm(int signal)
{
}

static void waiting_goes_on_after_a_signal_until_time_is_up(void **state)
{
    const struct itimerval soon = { .it_value.tv_usec = 20000 };
    uint64_t begin = clock_usec(CLOCK_MONOTONIC);
    int pair[2];

    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    struct pollfd p = { .fd = pair[0], .events = POLLIN };
    signal(SIGALRM, on_alarm);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    assert_int_equal(poll_until(&p, 1, begin + 100000), 0);
    assert_true(clock_usec(CLOCK_MONOTONIC) - begin >= 100000);
    assert_int_equal(poll_until(&p, 1, begin), 0);
    close_fd(pair[1]);
    assert_int_equal(poll_until(&p, 1, UINT64_MAX), 1);
    close_fd(pair[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_of_names_are_plain),
        cmocka_unit_test(paths_that_lead_elsewhere_are_not_plain),
        cmocka_unit_test(what_is_written_whole_is_read_whole_and_ends_with_the_file),
        cmocka_unit_test(only_a_memfd_with_all_seals_is_sealed),
        cmocka_unit_test(directory_shows_its_entries_and_not_itself),
        cmocka_unit_test(descriptor_that_is_no_directory_is_closed),
        cmocka_unit_test(waiting_goes_on_after_a_signal_until_time_is_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
