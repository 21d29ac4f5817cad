/* What is collected from a hostile workspace and what is not (helper/broker/store-collect.h). */
#include "store-collector.h"
#include "common/escape.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

static void files_and_folders_are_copied_with_their_times(void **state)
{
    struct fixture *f = *state;
    const struct timespec times[2] = { { 1000, 0 }, { 2000, 123456789 } };

    make_directory_at(f->scratch.workspace, "plots");
    make_directory_at(f->scratch.workspace, "empty");
    write_file_at(f->scratch.workspace, "plots/b.txt", "bee");
    write_file_at(f->scratch.workspace, "a.txt", "a");
    assert_int_equal(utimensat(f->scratch.workspace, "plots/b.txt", times, 0), 0);
    assert_int_equal(utimensat(f->scratch.workspace, "plots", times, 0), 0);

    int files = collect(f);
    assert_string_equal(file_at(files, "plots/b.txt"), "bee");
    assert_string_equal(file_at(files, "a.txt"), "a");
    assert_int_equal(stat_at(files, "plots/b.txt").st_mtim.tv_nsec, 123456789);
    assert_int_equal(stat_at(files, "plots").st_mtim.tv_sec, 2000);
    assert_true(exists_at(files, "empty"));
    assert_int_equal(count_of(f->result, "files"), 2);
    assert_int_equal(count_of(f->result, "skipped"), 0);
    assert_non_null(entry_of(f->result, "files", "plots/b.txt"));
    assert_int_equal(json_object_get_int(json_object_object_get(f->result, "bytes")), 4);
    close(files);
}

static void modes_lose_set_id_bits_and_other_people(void **state)
{
    struct fixture *f = *state;

    write_file_at(f->scratch.workspace, "program", "x");
    write_file_at(f->scratch.workspace, "data", "x");
    make_directory_at(f->scratch.workspace, "folder");
    assert_int_equal(fchmodat(f->scratch.workspace, "program", 06755, 0), 0);
    assert_int_equal(fchmodat(f->scratch.workspace, "data", 0666, 0), 0);
    assert_int_equal(fchmodat(f->scratch.workspace, "folder", 03777, 0), 0);

    int files = collect(f);
    assert_int_equal(stat_at(files, "program").st_mode & 07777, 0700);
    assert_int_equal(stat_at(files, "data").st_mode & 07777, 0600);
    assert_int_equal(stat_at(files, "folder").st_mode & 07777, 0700);
    close(files);
}

static void files_are_the_callers_and_folders_still_ours(void **state)
{
    struct fixture *f = *state;

    f->request.uid = 1234;
    f->request.gid = 5678;
    make_directory_at(f->scratch.workspace, "folder");
    write_file_at(f->scratch.workspace, "folder/file", "x");

    int files = collect(f);
    assert_int_equal(stat_at(files, "folder/file").st_uid, 1234);
    assert_int_equal(stat_at(files, "folder/file").st_gid, 5678);
    assert_int_equal(stat_at(files, "folder").st_uid, geteuid());
    close(files);
}

static void links_are_left_out_and_never_read(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(symlinkat("/etc/shadow", f->scratch.workspace, "shadow"), 0);
    assert_int_equal(symlinkat("../outside/secret", f->scratch.workspace, "near"), 0);
    assert_int_equal(symlinkat("../outside", f->scratch.workspace, "folder"), 0);
    assert_int_equal(symlinkat("nowhere", f->scratch.workspace, "dangling"), 0);
    assert_int_equal(symlinkat("loop", f->scratch.workspace, "loop"), 0);

    int files = collect(f);
    assert_int_equal(count_of(f->result, "files"), 0);
    assert_int_equal(count_of(f->result, "skipped"), 5);
    assert_reason(f->result, "shadow", "symbolic link");
    assert_reason(f->result, "folder", "symbolic link");
    assert_reason(f->result, "loop", "symbolic link");
    assert_false(exists_at(files, "near"));
    close(files);
}

static void fault_32_fifo_socket_and_device_are_named_and_block_nothing(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/workspace/socket", f->scratch.path);
    assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(mkfifoat(f->scratch.workspace, "fifo", 0644), 0);
    if (is_root())
        assert_int_equal(mknodat(f->scratch.workspace, "tty", S_IFCHR | 0666, makedev(5, 0)), 0);

    close(collect(f));
    assert_reason(f->result, "fifo", "named pipe");
    assert_reason(f->result, "socket", "socket");
    if (is_root())
        assert_reason(f->result, "tty", "device");
    assert_int_equal(count_of(f->result, "files"), 0);
    close(sock);
}

static void fault_32_a_lease_on_a_file_blocks_nothing(void **state)
{
    struct fixture *f = *state;

    write_file_at(f->scratch.workspace, "leased", "x");
    int fd = openat(f->scratch.workspace, "leased", O_RDWR | O_CLOEXEC);
    signal(SIGIO, SIG_IGN);
    if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
        skip();
    close(collect(f));
    assert_reason(f->result, "leased", "lease");
    close(fd);
}

static void hard_links_are_copied_one_by_one(void **state)
{
    struct fixture *f = *state;

    write_file_at(f->scratch.workspace, "one", "same");
    assert_int_equal(linkat(f->scratch.workspace, "one", f->scratch.workspace, "two", 0), 0);
    int files = collect(f);
    assert_string_equal(file_at(files, "one"), "same");
    assert_string_equal(file_at(files, "two"), "same");
    assert_int_equal(stat_at(files, "two").st_nlink, 1);
    close(files);
}

static void sparse_file_stays_sparse(void **state)
{
    struct fixture *f = *state;
    int fd = openat(f->scratch.workspace, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    assert_int_equal(pwrite(fd, "x", 1, 8 * MIB), 1);
    assert_int_equal(ftruncate(fd, 32 * MIB), 0);
    close(fd);
    int files = collect(f);
    struct stat st = stat_at(files, "sparse");
    assert_int_equal(st.st_size, 32 * MIB);
    assert_true(st.st_blocks * 512 < (blkcnt_t)MIB);
    fd = openat(files, "sparse", O_RDONLY | O_CLOEXEC);
    char byte = 0;
    assert_int_equal(pread(fd, &byte, 1, 8 * MIB), 1);
    assert_int_equal(byte, 'x');
    close(fd);
    close(files);
}

static void fault_13_odd_names_are_kept_by_byte_and_shown_escaped(void **state)
{
    struct fixture *f = *state;
    char longest[256];
    const char *names[] = { "-rf",
                            "two\nlines",
                            "\033[31mred\033[0m",
                            "back\\slash",
                            "\xff\xfe",
                            "with space ",
                            "größe",
                            "\xe2\x80\xae"
                            "txt",
                            "%s%n",
                            longest };

    memset(longest, 0x80, 255);
    longest[255] = '\0';
    for (size_t i = 0; i < ELEMENTS(names); i++)
        write_file_at(f->scratch.workspace, names[i], names[i]);

    int files = collect(f);
    assert_int_equal(count_of(f->result, "files"), ELEMENTS(names));
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        assert_string_equal(file_at(files, names[i]), names[i]);
        char *shown = escape_text(names[i], strlen(names[i]), 0);
        assert_non_null(entry_of(f->result, "files", shown));
        for (const char *p = shown; *p; p++)
            assert_true((unsigned char)*p >= ' ' && *p != 0x7f);
        size_t size;
        char *back = unescape_text(shown, &size);
        assert_string_equal(back, names[i]);
        free(back);
        free(shown);
    }
    close(files);
}

/* An input as the launcher leaves it: with a modification time in the past. */
static struct store_input put_input(struct fixture *f, const char *name, const char *text)
{
    const struct timespec times[2] = { { 1000000, 0 }, { 1000000, 0 } };

    write_file_at(f->scratch.workspace, name, text);
    assert_int_equal(utimensat(f->scratch.workspace, name, times, 0), 0);
    struct stat st = stat_at(f->scratch.workspace, name);
    return (struct store_input){ .name = name,
                                 .inode = st.st_ino,
                                 .size = (uint64_t)st.st_size,
                                 .ctime_sec = st.st_ctim.tv_sec,
                                 .ctime_nsec = st.st_ctim.tv_nsec,
                                 .mtime_sec = st.st_mtim.tv_sec,
                                 .mtime_nsec = st.st_mtim.tv_nsec };
}

static void unchanged_input_is_no_output_and_its_folder_neither(void **state)
{
    struct fixture *f = *state;

    make_directory_at(f->scratch.workspace, "in");
    const struct store_input inputs[] = { put_input(f, "in/data.csv", "1,2\n"),
                                          put_input(f, "notes", "n") };
    f->request.inputs = inputs;
    f->request.n_inputs = 2;
    write_file_at(f->scratch.workspace, "out", "o");

    int files = collect(f);
    assert_int_equal(count_of(f->result, "files"), 1);
    assert_int_equal(count_of(f->result, "skipped"), 0);
    assert_false(exists_at(files, "in"));
    close(files);
}

/* Collects with that one input and returns whether it is an output. */
static bool is_output(struct fixture *f, const struct store_input *input)
{
    f->request.inputs = input;
    f->request.n_inputs = 1;
    close(collect(f));
    return entry_of(f->result, "files", input->name) != NULL;
}

static void input_rewritten_at_once_with_the_same_size_is_an_output(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 100; i++) {
        struct store_input input = put_input(f, "data.csv", "1,2\n");
        write_file_at(f->scratch.workspace, "data.csv", "3,4\n");
        assert_true(is_output(f, &input));
        /* Within one tick of the kernel's clock the change time may be the same. */
        struct stat st = stat_at(f->scratch.workspace, "data.csv");
        input.ctime_sec = st.st_ctim.tv_sec;
        input.ctime_nsec = st.st_ctim.tv_nsec;
        assert_true(is_output(f, &input));
    }
}

static void input_whose_modification_time_was_set_back_is_an_output(void **state)
{
    struct fixture *f = *state;
    struct store_input input = put_input(f, "data.csv", "1,2\n");

    usleep(20 * 1000);
    (void)put_input(f, "data.csv", "3,4\n");
    assert_int_equal(input.inode, stat_at(f->scratch.workspace, "data.csv").st_ino);
    assert_true(is_output(f, &input));
}

static void input_that_was_renamed_is_an_output(void **state)
{
    struct fixture *f = *state;
    const struct store_input inputs[] = { put_input(f, "data.csv", "1,2\n") };

    f->request.inputs = inputs;
    f->request.n_inputs = 1;
    assert_int_equal(renameat(f->scratch.workspace, "data.csv", f->scratch.workspace, "new.csv"),
                     0);
    close(collect(f));
    assert_non_null(entry_of(f->result, "files", "new.csv"));
}

static void unreadable_folder_is_collected_by_root(void **state)
{
    struct fixture *f = *state;

    if (!is_root())
        skip();
    make_directory_at(f->scratch.workspace, "closed");
    write_file_at(f->scratch.workspace, "closed/file", "x");
    assert_int_equal(fchmodat(f->scratch.workspace, "closed/file", 0, 0), 0);
    assert_int_equal(fchmodat(f->scratch.workspace, "closed", 0, 0), 0);
    int files = collect(f);
    assert_string_equal(file_at(files, "closed/file"), "x");
    close(files);
}

static void mount_in_the_workspace_is_not_entered(void **state)
{
    struct fixture *f = *state;
    char path[128];
    int status;

    make_directory_at(f->scratch.workspace, "mounted");
    snprintf(path, sizeof(path), "%s/workspace/mounted", f->scratch.path);
    pid_t pid = fork();
    if (pid == 0) {
        /* The mount dies with this process's namespace. */
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            _exit(77);
        int workspace = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (mount("tmpfs", path, "tmpfs", 0, NULL) < 0)
            _exit(77);
        close(workspace);
        *strrchr(path, '/') = '\0';
        f->request.workspace = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (try_collect(f) < 0)
            _exit(1);
        const char *reason = reason_of(f->result, "mounted");
        _exit(reason && strstr(reason, "outside") ? 0 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(files_and_folders_are_copied_with_their_times),
        T(modes_lose_set_id_bits_and_other_people),
        T(files_are_the_callers_and_folders_still_ours),
        T(links_are_left_out_and_never_read),
        T(fault_32_fifo_socket_and_device_are_named_and_block_nothing),
        T(fault_32_a_lease_on_a_file_blocks_nothing),
        T(hard_links_are_copied_one_by_one),
        T(sparse_file_stays_sparse),
        T(fault_13_odd_names_are_kept_by_byte_and_shown_escaped),
        T(unchanged_input_is_no_output_and_its_folder_neither),
        T(input_rewritten_at_once_with_the_same_size_is_an_output),
        T(input_whose_modification_time_was_set_back_is_an_output),
        T(input_that_was_renamed_is_an_output),
        T(unreadable_folder_is_collected_by_root),
        T(mount_in_the_workspace_is_not_entered),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
