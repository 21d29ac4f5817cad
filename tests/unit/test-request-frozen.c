/* A frozen request comes back as it went, with its own files (helper/broker/request-frozen.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "broker/request-frozen.h"
#include "common/file.h"
#include "common/memfd.h"

static int sealed(const char *content)
{
    int fd = memfd_new("test");

    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, content, strlen(content)), 0);
    assert_int_equal(memfd_seal(fd), 0);
    return fd;
}

static char **list(const char *a, const char *b)
{
    char **strings = calloc(3, sizeof(char *));

    strings[0] = strdup(a);
    strings[1] = strdup(b);
    return strings;
}

static struct request make_request(void)
{
    struct request request = REQUEST_NULL;

    request.script_name = strdup("job.py");
    request.script = sealed("print(4)");
    request.script_bytes = 8;
    memset(request.script_sha256, 'a', REQUEST_SHA256_TEXT - 1);
    memset(request.sha256, 'b', REQUEST_SHA256_TEXT - 1);
    request.language = strdup("python");
    request.image = strdup("python:3");
    request.arguments = list("one", "two\n\xc3\xa4");
    request.n_arguments = 2;
    request.environment = list("A=1", "B=");
    request.n_environment = 2;
    request.inputs = calloc(3, sizeof(struct request_input));
    request.inputs[0] = (struct request_input){ strdup("a"), sealed("first"), 5 };
    request.inputs[1] = (struct request_input){ strdup("b/c"), sealed("second"), 6 };
    request.n_inputs = 2;
    request.stdin_memfd = sealed("typed");
    request.network = true;
    assert_int_equal(host_list_add(&request.hosts, "example.org"), 0);
    request.packages = list("numpy", "pandas<3");
    request.n_packages = 2;
    request.require_hashes = request.allow_secrets = request.detach = true;
    request.memory_bytes = 1 << 20;
    request.cpu_percent = UINT64_MAX;
    request.timeout_usec = 17;
    return request;
}

/* As the next broker has it: through text. */
static json_object *through_text(json_object *object)
{
    json_object *parsed;
    size_t size;
    const char *text = json_text(object, &size);

    assert_int_equal(json_parse_guarded(text, size, &parsed), 0);
    json_object_put(object);
    return parsed;
}

static void assert_holds(int fd, const char *content)
{
    char buffer[64] = "";

    assert_int_equal(read(fd, buffer, sizeof(buffer) - 1), strlen(content));
    assert_string_equal(buffer, content);
}

static void request_comes_back_as_it_went(void **state)
{
    struct request request = make_request(), back;
    json_object *object = through_text(request_freeze(&request));

    assert_int_equal(request_thaw(object, &back), 0);
    json_object *again = request_freeze(&back);
    /* All but the inodes, which are of no descriptor yet. */
    int fds[VARLINK_FDS_MAX];
    size_t n = request_fds(&request, fds);
    assert_int_equal(n, 4);
    assert_int_equal(request_thaw_fds(object, &back, fds, n), 0);
    json_object_put(again);
    again = request_freeze(&back);
    assert_true(json_object_equal(object, again));
    assert_null(back.arguments[2]);
    assert_true(back.cpu_percent == UINT64_MAX && back.memory_bytes == 1 << 20);
    json_object_put(again);
    json_object_put(object);
    request.script = request.stdin_memfd = request.inputs[0].fd = request.inputs[1].fd = -1;
    request_release(&request);
    request_release(&back);
}

static void files_are_told_in_any_order_and_read_from_their_beginning(void **state)
{
    struct request request = make_request(), back;
    json_object *object = request_freeze(&request);
    int given[] = { request.inputs[1].fd, sealed("print(4)"), request.stdin_memfd,
                    request.inputs[0].fd, request.script };
    char byte;

    /* Somebody has read of it. */
    assert_int_equal(lseek(request.script, 0, SEEK_SET), 0);
    assert_int_equal(read(request.script, &byte, 1), 1);
    assert_int_equal(request_thaw(object, &back), 0);
    assert_int_equal(request_thaw_fds(object, &back, given, 5), 0);
    assert_true(given[1] >= 0 && given[0] == -1 && given[4] == -1);
    assert_holds(back.script, "print(4)");
    assert_holds(back.stdin_memfd, "typed");
    assert_holds(back.inputs[0].fd, "first");
    assert_holds(back.inputs[1].fd, "second");
    close(given[1]);
    json_object_put(object);
    request.script = request.stdin_memfd = request.inputs[0].fd = request.inputs[1].fd = -1;
    request_release(&request);
    request_release(&back);
}

static void missing_file_is_no_request(void **state)
{
    struct request request = make_request(), back;
    json_object *object = request_freeze(&request);
    int fds[VARLINK_FDS_MAX];
    size_t n = request_fds(&request, fds);

    fds[n - 1] = close_fd(fds[n - 1]);
    request.inputs[1].fd = -1;
    assert_int_equal(request_thaw(object, &back), 0);
    assert_int_equal(request_thaw_fds(object, &back, fds, n), -ENOENT);
    json_object_put(object);
    request.script = request.stdin_memfd = request.inputs[0].fd = -1;
    request_release(&request);
    request_release(&back);
}

static void what_was_not_frozen_is_not_believed(void **state)
{
    static const char *const members[] = { "sha256", "inputs", "arguments", "scriptBytes" };
    struct request request = make_request(), back;

    for (size_t i = 0; i < ELEMENTS(members); i++) {
        json_object *object = request_freeze(&request);
        json_object_object_del(object, members[i]);
        assert_int_equal(request_thaw(object, &back), -EBADMSG);
        json_object_object_add(object, members[i], json_object_new_boolean(1));
        assert_int_equal(request_thaw(object, &back), -EBADMSG);
        json_object_put(object);
    }
    json_object *object = request_freeze(&request);
    json_object_object_add(object, "more", NULL);
    assert_int_equal(request_thaw(object, &back), -EBADMSG);
    json_object_put(object);
    request_release(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_comes_back_as_it_went),
        cmocka_unit_test(files_are_told_in_any_order_and_read_from_their_beginning),
        cmocka_unit_test(missing_file_is_no_request),
        cmocka_unit_test(what_was_not_frozen_is_not_believed),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
