/* Files that go into a run and files that come out of it: what is read, what is left out, and that
 * no link is followed which somebody else may have planted. */
#include "client-fixture.h"

#include <json-c/json.h>
#include <sys/mman.h>

#include "client/inputs.h"
#include "client/request.h"
#include "client/save.h"
#include "client/say.h"
#include "client/script.h"
#include "common/json.h"

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
    assert_int_equal(inputs_add(&request, "d"), 0);
    assert_int_equal(inputs_add(&request, "d/sub:other"), 0);
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
    assert_int_equal(inputs_add(&request, "d"), 0);
    assert_string_equal(names_of(&request), "d/file ");
}

static void link_on_the_command_line_is_followed(void **state)
{
    _cleanup_request_ struct request request = new_request();

    write_file("file", "text");
    assert_int_equal(symlink("file", "link"), 0);
    assert_int_equal(inputs_add(&request, "link"), 0);
    assert_string_equal(names_of(&request), "link ");
    char text[8] = "";
    assert_int_equal(pread(request.fds[0], text, sizeof(text) - 1, 0), 4);
    assert_string_equal(text, "text");
    assert_true(write(request.fds[0], "x", 1) < 0);
}

static void pipes_and_devices_are_refused_without_opening(void **state)
{
    _cleanup_request_ struct request request = new_request();

    assert_int_equal(mkfifo("pipe", 0644), 0);
    assert_int_equal(inputs_add(&request, "pipe"), 125);
    assert_int_equal(inputs_add(&request, "/dev/null"), 125);
    assert_int_equal(inputs_add(&request, "missing"), 125);
    assert_int_equal(request.n_fds, 0);
}

static void name_that_is_not_utf8_is_refused(void **state)
{
    _cleanup_request_ struct request request = new_request();

    write_file("\xff", "");
    assert_int_equal(inputs_add(&request, "\xff"), 125);
    assert_int_equal(inputs_add(&request, "\xff:name"), 0);
    assert_string_equal(names_of(&request), "name ");
}

static void too_many_files_are_refused(void **state)
{
    _cleanup_request_ struct request request = new_request();
    char path[32];

    assert_int_equal(mkdir("d", 0755), 0);
    for (int i = 0; i < 260; i++) {
        snprintf(path, sizeof(path), "d/%d", i);
        write_file(path, "");
    }
    assert_int_equal(inputs_add(&request, "d"), 125);
}

static void script_is_sealed_and_at_its_beginning(void **state)
{
    _cleanup_(script_release) struct script script = SCRIPT_NULL;
    char text[16] = "";

    assert_int_equal(mkdir("d", 0755), 0);
    write_file("d/x.py", "print(1)\n");
    assert_int_equal(script_open(&(struct run_options){ .script = "d/x.py" }, &script), 0);
    assert_string_equal(script.name, "x.py");
    assert_null(script.language);
    assert_int_equal(read(script.fd, text, sizeof(text) - 1), 9);
    assert_string_equal(text, "print(1)\n");
    assert_int_equal(fcntl(script.fd, F_GET_SEALS),
                     F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
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
        T(too_many_files_are_refused),
        T(script_is_sealed_and_at_its_beginning),
        T(code_is_python_unless_told_otherwise),
        T(endless_or_missing_script_is_refused),
        T(files_are_saved_with_their_folders),
        T(links_at_the_target_are_not_written_through),
        T(links_at_the_source_are_not_read),
        T(directory_of_outputs_that_is_a_link_is_not_entered),
        T(sparse_files_stay_sparse),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
