/* Files that go into a run and files that come out of it: what is read, what is left out, what is
 * too much, and that no link is followed which somebody else may have planted. */
#include "client-fixture.h"

#include <json-c/json.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "client/inputs.h"
#include "client/request.h"
#include "client/save.h"
#include "client/say.h"
#include "client/script.h"
#include "common/json.h"
#include "common/memfd.h"

static int setup(void **state)
{
    say_mode = (struct say_mode){ .quiet = true };
    return enter_scratch(state);
}

static struct request new_request(void)
{
    struct request request = { .parameters = json_object_new_object(),
                               .inputs = json_object_new_array() };

    assert_int_equal(json_add(request.parameters, "inputs", request.inputs), 0);
    return request;
}

#define _cleanup_request_ _cleanup_(request_release)

/* The names of the inputs, each followed by a space. */
static const char *names_of(const struct request *request)
{
    static char names[1024];

    names[0] = '\0';
    for (size_t i = 0; i < json_object_array_length(request->inputs); i++) {
        json_object *input = json_object_array_get_idx(request->inputs, i);
        strcat(names, json_object_get_string(json_object_object_get(input, "name")));
        strcat(names, " ");
    }
    return names;
}

/* @input's text in a static buffer, after a look at what all inputs must be: sealed, and at their
 * beginning. */
static const char *text_of(const struct request *request, size_t input)
{
    static char text[64 * 1024];
    int fd = request->fds[input];

    assert_true(memfd_is_sealed(fd));
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    return text;
}

#define MIB (1024 * 1024)

static int add_within(struct request *request, uint64_t bytes_max, uint64_t inputs_max,
                      const char *text)
{
    const struct input_limits limits = { bytes_max, inputs_max };
    const struct input_wishes wishes = { .paths = &text, .n_paths = 1 };
    return inputs_add(request, &wishes, &limits);
}

static int add(struct request *request, const char *text)
{
    return add_within(request, 16 * MIB, 300, text);
}

static void path_and_name_are_split_at_the_last_colon(void **state)
{
    static const struct {
        const char *text, *path, *name;
    } table[] = {
        { "data.csv", "data.csv", "data.csv" },
        { "/a/b/data.csv", "/a/b/data.csv", "data.csv" },
        { "data.csv:x/y.csv", "data.csv", "x/y.csv" },
        { "a:b:c", "a:b", "c" },
        { "with:colon", "with:colon", "with:colon" },
        { "with:colon:name", "with:colon", "name" },
        { "data.csv:", "data.csv:", "data.csv:" },
        { "sub/", "sub/", "sub" },
        { "sub//", "sub//", "sub" },
        { "sub/.", "sub/.", "sub" },
    };

    write_file("with:colon", "");
    assert_int_equal(mkdir("sub", 0755), 0);
    for (size_t i = 0; i < ELEMENTS(table); i++) {
        _cleanup_free_ char *path = NULL, *name = NULL;
        assert_int_equal(input_split(table[i].text, &path, &name), 0);
        assert_string_equal(path, table[i].path);
        assert_string_equal(name, table[i].name);
    }
}

static void root_directory_needs_a_name(void **state)
{
    char *path, *name;

    assert_int_equal(input_split("/", &path, &name), -EINVAL);
}

static void directory_gives_its_files_in_order(void **state)
{
    _cleanup_request_ struct request request = new_request();

    assert_int_equal(mkdir("d", 0755), 0);
    assert_int_equal(mkdir("d/sub", 0755), 0);
    write_file("d/b", "");
    write_file("d/a", "");
    write_file("d/sub/c", "");
    assert_int_equal(add(&request, "d"), 0);
    assert_int_equal(add(&request, "d/sub:other"), 0);
    assert_string_equal(names_of(&request), "d/a d/b d/sub/c other/c ");
    assert_int_equal(request.n_fds, 4);
}

static void case_24_links_in_a_directory_are_left_out(void **state)
{
    _cleanup_request_ struct request request = new_request();

    assert_int_equal(mkdir("d", 0755), 0);
    write_file("secret", "secret");
    write_file("d/file", "");
    assert_int_equal(symlink("../secret", "d/x"), 0);
    assert_int_equal(symlink("..", "d/up"), 0);
    assert_int_equal(symlink("nowhere", "d/dangling"), 0);
    assert_int_equal(mkfifo("d/pipe", 0644), 0);
    assert_int_equal(add(&request, "d"), 0);
    assert_string_equal(names_of(&request), "d/file ");
}

static void link_on_the_command_line_is_followed(void **state)
{
    _cleanup_request_ struct request request = new_request();

    write_file("file", "text");
    assert_int_equal(symlink("file", "link"), 0);
    assert_int_equal(add(&request, "link"), 0);
    assert_string_equal(names_of(&request), "link ");
    assert_string_equal(text_of(&request, 0), "text");
}

static void pipes_and_devices_are_refused_without_opening(void **state)
{
    _cleanup_request_ struct request request = new_request();

    assert_int_equal(mkfifo("pipe", 0644), 0);
    assert_int_equal(add(&request, "pipe"), 125);
    assert_int_equal(add(&request, "/dev/null"), 125);
    assert_int_equal(add(&request, "missing"), 125);
    assert_int_equal(request.n_fds, 0);
}

static void name_that_is_not_utf8_is_refused(void **state)
{
    _cleanup_request_ struct request request = new_request();

    write_file("\xff", "");
    assert_int_equal(add(&request, "\xff"), 125);
    assert_int_equal(add(&request, "\xff:name"), 0);
    assert_string_equal(names_of(&request), "name ");
}

static void input_is_a_sealed_copy(void **state)
{
    _cleanup_request_ struct request request = new_request();
    struct stat st;

    write_file("empty", "");
    write_file("one", "1");
    assert_int_equal(add(&request, "empty"), 0);
    assert_int_equal(add(&request, "one"), 0);
    write_file("one", "changed");
    assert_string_equal(text_of(&request, 0), "");
    assert_string_equal(text_of(&request, 1), "1");
    assert_int_equal(fstat(request.fds[1], &st), 0);
    assert_int_equal(st.st_size, 1);
}

static void holes_are_copied_as_holes(void **state)
{
    _cleanup_request_ struct request request = new_request();
    struct stat st;
    char text[4];

    write_file("f", "begin");
    _cleanup_close_ int fd = open("f", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "mid", 3, 3 * MIB), 3);
    assert_int_equal(ftruncate(fd, 5 * MIB), 0);
    assert_int_equal(add(&request, "f"), 0);
    assert_string_equal(text_of(&request, 0), "begin");
    assert_int_equal(pread(request.fds[0], text, 4, 3 * MIB), 4);
    assert_memory_equal(text, "mid", 4);
    assert_int_equal(fstat(request.fds[0], &st), 0);
    assert_int_equal(st.st_size, 5 * MIB);
    assert_true(st.st_blocks * 512 < MIB);
}

static void every_byte_of_a_large_file_is_copied(void **state)
{
    _cleanup_request_ struct request request = new_request();
    static unsigned char written[5 * MIB + 1], copied[5 * MIB + 2];

    for (size_t i = 0; i < sizeof(written); i++)
        written[i] = (unsigned char)(i * 2654435761U >> 24);
    _cleanup_close_ int fd = open("f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, written, sizeof(written)), sizeof(written));
    assert_int_equal(add(&request, "f"), 0);
    assert_int_equal(pread(request.fds[0], copied, sizeof(copied), 0), sizeof(written));
    assert_memory_equal(copied, written, sizeof(written));
}

/* A file in /proc has more bytes than it says, as one that grew meanwhile. */
static void file_that_grows_is_copied_up_to_the_limit(void **state)
{
    _cleanup_request_ struct request request = new_request();

    assert_int_equal(add(&request, "/proc/self/status"), 0);
    assert_non_null(strstr(text_of(&request, 0), "\nPid:"));
    assert_int_equal(add_within(&request, 100, 1, "/proc/self/status"), 125);
    assert_int_equal(request.n_fds, 1);

    write_file("f", "12345");
    assert_int_equal(add_within(&request, 5, 1, "f"), 0);
    assert_int_equal(add_within(&request, 4, 1, "f"), 125);
}

/* A file in /sys has fewer bytes than it says, as one that shrank meanwhile. */
static void file_that_shrinks_is_what_was_read(void **state)
{
    const char path[] = "/sys/devices/system/cpu/online";
    _cleanup_request_ struct request request = new_request();

    if (access(path, R_OK) < 0)
        skip();
    assert_int_equal(add(&request, path), 0);
    assert_string_equal(text_of(&request, 0), read_file(path));
    assert_int_equal(lseek(request.fds[0], 0, SEEK_END), strlen(read_file(path)));
}

static void bytes_are_copied_up_to_the_first_end(void **state)
{
    _cleanup_close_ int to = memfd_new("test"), zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    int pair[2];

    assert_int_equal(copy_bytes(zero, to, MIB + 1), MIB + 1);
    assert_int_equal(lseek(to, 0, SEEK_END), MIB + 1);

    /* A second read of it would give "more", as a terminal does. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(send(pair[0], "text", 4, 0), 4);
    assert_int_equal(send(pair[0], "", 0, 0), 0);
    assert_int_equal(send(pair[0], "more", 4, 0), 4);
    assert_int_equal(copy_bytes(pair[1], to, MIB), 4);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(copy_bytes(-1, to, MIB), -EBADF);
}

static void what_cannot_be_read_is_told(void **state)
{
    _cleanup_request_ struct request request = new_request();

    say_mode.quiet = false;
    /* Nothing lies at address 0. */
    const char *said = SAID(assert_int_equal(add(&request, "/proc/self/mem"), 125));
    assert_string_equal(said, "sbxctl: cannot read /proc/self/mem: Input/output error\n");

    write_file("f", "secret");
    assert_int_equal(chmod("f", 0), 0);
    assert_int_equal(chmod(".", 0755), 0);
    uid_t own = geteuid();
    if (own == 0)
        assert_int_equal(seteuid(65534), 0);
    int r = add(&request, "f");
    assert_int_equal(seteuid(own), 0);
    assert_int_equal(r, 125);
    assert_int_equal(request.n_fds, 0);
}

static void too_many_files_are_refused(void **state)
{
    _cleanup_request_ struct request request = new_request();
    char path[32];

    assert_int_equal(mkdir("d", 0755), 0);
    for (int i = 0; i < 260; i++) {
        snprintf(path, sizeof(path), "d/%03d", i);
        write_file(path, "");
    }
    assert_int_equal(add(&request, "d"), 125);
    say_mode.quiet = false;
    const char *said = SAID(assert_int_equal(add_within(&request, MIB, 100, "d"), 125));
    assert_non_null(strstr(said, "at most 100 are allowed, and d/100 is one more\n"));
    assert_int_equal(request.n_fds, 0);
}

static void too_large_sum_is_refused_before_anything_is_read(void **state)
{
    /* The first cannot be read, which nobody finds out. */
    const char *const texts[] = { "/proc/self/mem", "a", "d", "z" };
    const struct input_wishes wishes = { .paths = texts, .n_paths = ELEMENTS(texts) };
    const struct input_limits limits = { 256 * MIB, 100 };
    _cleanup_request_ struct request request = new_request();

    assert_int_equal(mkdir("d", 0755), 0);
    write_file("a", "");
    write_file("d/b", "");
    write_file("d/c", "");
    write_file("z", "");
    assert_int_equal(truncate("a", 100 * MIB), 0);
    assert_int_equal(truncate("d/b", 156 * MIB), 0);
    assert_int_equal(truncate("d/c", 44 * MIB), 0);
    say_mode.quiet = false;
    const char *said = SAID(assert_int_equal(inputs_add(&request, &wishes, &limits), 125));
    assert_string_equal(said, "sbxctl: the sum of the input files, up to d/c, is 300 MiB, and at "
                              "most 256 MiB is allowed\n"
                              "sbxctl: give the run less data, or ask the administrator to raise "
                              "InputSize=\n");
    assert_int_equal(request.n_fds, 0);
}

/* ---- whom the limits come from ---- */

struct helper {
    int listener;
    const char *answer;
    char call[1024];
    pthread_t thread;
};

static void *answer_once(void *userdata)
{
    struct helper *helper = userdata;
    _cleanup_close_ int fd = accept4(helper->listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd >= 0 && read(fd, helper->call, sizeof(helper->call) - 1) > 0)
        (void)!send(fd, helper->answer, strlen(helper->answer) + 1, MSG_NOSIGNAL);
    return NULL;
}

/* Makes a request of @file, which may be NULL, while a helper listens that answers one call. */
static int make_request(struct helper *helper, const char *answer, const char *file,
                        struct request *ret)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
    const struct run_options options = { .code = "1", .files = &file, .n_files = file ? 1 : 0 };

    *helper = (struct helper){ .answer = answer };
    helper->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink("socket");
    assert_int_equal(bind(helper->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(helper->listener, 1), 0);
    assert_int_equal(pthread_create(&helper->thread, NULL, answer_once, helper), 0);
    assert_int_equal(setenv("SBXCTL_SOCKET", "socket", 1), 0);
    int r = request_make(&options, ret);
    shutdown(helper->listener, SHUT_RDWR);
    pthread_join(helper->thread, NULL);
    close(helper->listener);
    return r;
}

static void limits_are_the_helpers(void **state)
{
    _cleanup_request_ struct request request = {}, other = {};
    struct helper helper;

    write_file("f", "12345");
    assert_int_equal(make_request(&helper, "{\"parameters\":{\"inputBytesMax\":5,\"inputsMax\":1}}",
                                  "f", &request),
                     0);
    assert_non_null(strstr(helper.call, "\"io.sbxctl.Sandbox.GetPolicy\""));
    assert_non_null(strstr(helper.call, "\"approvals\":false"));
    assert_int_equal(request.n_fds, 2);
    assert_string_equal(text_of(&request, 1), "12345");
    assert_int_equal(make_request(&helper, "{\"parameters\":{\"inputBytesMax\":4,\"inputsMax\":1}}",
                                  "f", &other),
                     125);
    assert_int_equal(make_request(&helper, "{\"parameters\":{\"inputBytesMax\":5,\"inputsMax\":0}}",
                                  "f", &other),
                     125);
    assert_int_equal(make_request(&helper, "{\"parameters\":{\"inputsMax\":1}}", "f", &other), 125);
}

static void helper_is_not_asked_without_files(void **state)
{
    _cleanup_request_ struct request request = {};
    struct helper helper;

    assert_int_equal(make_request(&helper, "", NULL, &request), 0);
    assert_string_equal(helper.call, "");
}

static void script_is_sealed_and_at_its_beginning(void **state)
{
    const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    _cleanup_(script_release) struct script script = SCRIPT_NULL;
    char text[16] = "";

    assert_int_equal(mkdir("d", 0755), 0);
    write_file("d/x.py", "print(1)\n");
    assert_int_equal(script_open(&(struct run_options){ .script = "d/x.py" }, &script), 0);
    assert_string_equal(script.name, "x.py");
    assert_null(script.language);
    assert_int_equal(read(script.fd, text, sizeof(text) - 1), 9);
    assert_string_equal(text, "print(1)\n");
    /* Newer kernels add a seal against execution. */
    assert_int_equal(fcntl(script.fd, F_GET_SEALS) & seals, seals);
    assert_true(pwrite(script.fd, "x", 1, 0) < 0);
    assert_true(ftruncate(script.fd, 0) < 0);
}

static void code_is_python_unless_told_otherwise(void **state)
{
    _cleanup_(script_release) struct script python = SCRIPT_NULL, shell = SCRIPT_NULL;

    assert_int_equal(script_open(&(struct run_options){ .code = "1" }, &python), 0);
    assert_string_equal(python.name, "script");
    assert_string_equal(python.language, "python");
    assert_int_equal(script_open(&(struct run_options){ .code = ":", .language = "shell" }, &shell),
                     0);
    assert_string_equal(shell.language, "shell");
}

static void endless_or_missing_script_is_refused(void **state)
{
    _cleanup_(script_release) struct script script = SCRIPT_NULL;

    assert_int_equal(script_open(&(struct run_options){ .script = "/dev/zero" }, &script), 125);
    assert_int_equal(script_open(&(struct run_options){ .script = "missing" }, &script), 125);
    assert_int_equal(script_open(&(struct run_options){ .script = "/tmp" }, &script), 125);
}

static void host_taken_for_the_script_is_noticed(void **state)
{
    _cleanup_(script_release) struct script script = SCRIPT_NULL;
    char argument[] = "x.py", *arguments[] = { argument };
    struct run_options options = {
        .script = "pypi.org", .arguments = arguments, .n_arguments = 1, .network = true
    };

    say_mode.quiet = false;
    assert_null(strstr(SAID(assert_int_equal(script_open(&options, &script), 125)), "--network"));
    write_file("x.py", "1");
    assert_non_null(strstr(SAID(assert_int_equal(script_open(&options, &script), 125)),
                           "sbxctl: if it is a host to be reached: --network=pypi.org\n"));
    options.network = false;
    assert_null(strstr(SAID(assert_int_equal(script_open(&options, &script), 125)), "--network"));
    say_mode.quiet = true;
}

static void make_outputs(void)
{
    assert_int_equal(mkdir("out", 0755), 0);
    assert_int_equal(mkdir("out/files", 0755), 0);
    assert_int_equal(mkdir("out/files/sub", 0755), 0);
    write_file("out/files/a.txt", "new");
    write_file("out/files/sub/b.txt", "deep");
}

static void files_are_saved_with_their_folders(void **state)
{
    _cleanup_json_ json_object *written = json_object_new_array();

    make_outputs();
    assert_int_equal(mkdir("to", 0755), 0);
    write_file("to/a.txt", "something that is old");
    assert_int_equal(save_outputs("out", "to", written), 0);
    assert_string_equal(read_file("to/a.txt"), "new");
    assert_string_equal(read_file("to/sub/b.txt"), "deep");
    assert_int_equal(json_object_array_length(written), 2);
}

static void links_at_the_target_are_not_written_through(void **state)
{
    make_outputs();
    write_file("precious", "precious");
    assert_int_equal(mkdir("elsewhere", 0755), 0);
    assert_int_equal(mkdir("to", 0755), 0);
    assert_int_equal(symlink("../precious", "to/a.txt"), 0);
    assert_int_equal(symlink("../elsewhere", "to/sub"), 0);
    assert_int_equal(save_outputs("out", "to", NULL), 125);
    assert_string_equal(read_file("precious"), "precious");
    assert_int_equal(access("elsewhere/b.txt", F_OK), -1);
}

static void links_at_the_source_are_not_read(void **state)
{
    make_outputs();
    write_file("secret", "secret");
    assert_int_equal(symlink("../../secret", "out/files/x"), 0);
    assert_int_equal(symlink("../..", "out/files/up"), 0);
    assert_int_equal(mkfifo("out/files/pipe", 0644), 0);
    assert_int_equal(save_outputs("out", "to", NULL), 125);
    assert_string_equal(read_file("to/a.txt"), "new");
    assert_int_equal(access("to/x", F_OK), -1);
    assert_int_equal(access("to/up", F_OK), -1);
    assert_int_equal(access("to/pipe", F_OK), -1);
}

static void directory_of_outputs_that_is_a_link_is_not_entered(void **state)
{
    make_outputs();
    assert_int_equal(symlink("out", "link"), 0);
    assert_int_equal(save_outputs("link", "to", NULL), 125);
    assert_int_equal(rename("out/files", "out/moved"), 0);
    assert_int_equal(symlink("moved", "out/files"), 0);
    assert_int_equal(save_outputs("out", "to", NULL), 125);
}

static void sparse_files_stay_sparse(void **state)
{
    struct stat st;

    make_outputs();
    assert_int_equal(truncate("out/files/a.txt", 1 << 30), 0);
    assert_int_equal(save_outputs("out", "to", NULL), 0);
    assert_int_equal(stat("to/a.txt", &st), 0);
    assert_int_equal(st.st_size, 1 << 30);
    assert_true(st.st_blocks < 1024);
    assert_string_equal(read_file("to/a.txt"), "new");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, leave_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(path_and_name_are_split_at_the_last_colon),
        T(root_directory_needs_a_name),
        T(directory_gives_its_files_in_order),
        T(case_24_links_in_a_directory_are_left_out),
        T(link_on_the_command_line_is_followed),
        T(pipes_and_devices_are_refused_without_opening),
        T(name_that_is_not_utf8_is_refused),
        T(input_is_a_sealed_copy),
        T(holes_are_copied_as_holes),
        T(every_byte_of_a_large_file_is_copied),
        T(file_that_grows_is_copied_up_to_the_limit),
        T(file_that_shrinks_is_what_was_read),
        T(bytes_are_copied_up_to_the_first_end),
        T(what_cannot_be_read_is_told),
        T(too_many_files_are_refused),
        T(too_large_sum_is_refused_before_anything_is_read),
        T(limits_are_the_helpers),
        T(helper_is_not_asked_without_files),
        T(script_is_sealed_and_at_its_beginning),
        T(code_is_python_unless_told_otherwise),
        T(endless_or_missing_script_is_refused),
        T(host_taken_for_the_script_is_noticed),
        T(files_are_saved_with_their_folders),
        T(links_at_the_target_are_not_written_through),
        T(links_at_the_source_are_not_read),
        T(directory_of_outputs_that_is_a_link_is_not_entered),
        T(sparse_files_stay_sparse),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
