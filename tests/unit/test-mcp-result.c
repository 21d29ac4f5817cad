/* What a model is told of a run, from the helper's result. */
#include "client-fixture.h"

#include <stdint.h>

#include "client/mcp-image.h"
#include "client/mcp-read-output.h"
#include "client/mcp-result.h"
#include "client/say.h"
#include "common/base64.h"
#include "common/json.h"

#define PNG "\x89PNG\r\n\x1a\n"

static const struct mcp_result_form modern = { .knows_links = true };

static json_object *parse(const char *text)
{
    json_object *object = NULL;

    assert_int_equal(json_parse_guarded(text, strlen(text), &object), 0);
    return object;
}

static json_object *item(json_object *result, size_t i)
{
    return json_object_array_get_idx(json_object_object_get(result, "content"), i);
}

static size_t items(json_object *result)
{
    return json_object_array_length(json_object_object_get(result, "content"));
}

static const char *text_of(json_object *result, size_t i)
{
    return json_get_string(item(result, i), "text");
}

static bool is_error(json_object *result)
{
    return json_object_get_boolean(json_object_object_get(result, "isError"));
}

static void assert_begins(const char *text, const char *with)
{
    assert_int_equal(strncmp(text, with, strlen(with)), 0);
}

/* The first thing in marks is @content. */
static void assert_in_marks(const char *text, const char *content)
{
    char expected[256];
    const char *begin = strstr(text, "----- untrusted ");

    assert_non_null(begin);
    const char *mark = begin + strlen("----- untrusted ");
    snprintf(expected, sizeof(expected), "----- untrusted %.16s -----\n%s----- end %.16s -----",
             mark, content, mark);
    assert_begins(begin, expected);
}

static void summary_tells_how_it_went_and_what_to_try(void **state)
{
    _cleanup_json_ json_object *run =
        parse("{\"id\":\"1a\",\"status\":\"failed\",\"reason\":\"It broke.\",\"exitCode\":3,"
              "\"hint\":\"Use --with x\",\"usage\":{\"wallUSec\":1500000,\"memoryPeakBytes\":1024},"
              "\"outputDirectory\":\"/o\",\"files\":[{\"name\":\"f\",\"bytes\":7}],"
              "\"skippedFiles\":[{\"name\":\"s\",\"reason\":\"a link\"}]}");
    const struct mcp_result_form form = { .note = "left out x" };
    _cleanup_json_ json_object *result = mcp_result_of_run(run, &form);

    assert_true(is_error(result));
    assert_int_equal(items(result), 1);
    assert_begins(text_of(result, 0),
                  "Run 1a: failed. It broke. It took 1.5 s and at most 1 KiB of memory.\n"
                  "What to try: Use --with x (Of run_code, --with is the argument packages.)\n"
                  "left out x\n"
                  "1 file is kept in /o/files, up to the line with the same mark.");
    assert_in_marks(text_of(result, 0), "- f (7 B)\n");
    const char *skipped = strstr(text_of(result, 0), "\nNot kept, up to the line");
    assert_non_null(skipped);
    assert_in_marks(skipped, "- s: a link\n");
    assert_ptr_equal(json_object_object_get(result, "structuredContent"), run);
}

static void only_a_run_that_went_badly_is_an_error(void **state)
{
    static const struct {
        const char *status;
        bool error, error_if_to_be_ended;
    } cases[] = {
        { "succeeded", false, false }, { "running", false, false }, { "queued", false, false },
        { "failed", true, true },      { "timed_out", true, true }, { "out_of_memory", true, true },
        { "cancelled", true, false },  { "lost", true, true },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        const struct mcp_result_form ending = { .asks_for_end = true };
        _cleanup_json_ json_object *run = parse("{\"id\":\"1\",\"reason\":\"r\"}");
        assert_int_equal(json_add_string(run, "status", cases[i].status), 0);
        _cleanup_json_ json_object *one = mcp_result_of_run(run, &modern);
        _cleanup_json_ json_object *two = mcp_result_of_run(run, &ending);
        assert_int_equal(is_error(one), cases[i].error);
        assert_int_equal(is_error(two), cases[i].error_if_to_be_ended);
    }
}

static json_object *run_with_output(const char *text)
{
    json_object *run = parse("{\"id\":\"1\",\"status\":\"succeeded\",\"reason\":\"r\",\"stdout\":{"
                             "\"bytes\":1,\"keptBytes\":1,\"truncated\":false,"
                             "\"textShortened\":false}}");

    json_add_string(json_object_object_get(run, "stdout"), "text", text);
    return run;
}

static void output_stands_in_marks_of_its_own(void **state)
{
    char first[64], last[64];
    _cleanup_json_ json_object *run = run_with_output("no newline");
    _cleanup_json_ json_object *one = mcp_result_of_run(run, &modern);
    _cleanup_json_ json_object *two = mcp_result_of_run(run, &modern);

    const char *mark = strstr(text_of(one, 1), "untrusted ") + strlen("untrusted ");
    snprintf(first, sizeof(first), "----- untrusted %.16s -----\nno newline\n", mark);
    snprintf(last, sizeof(last), "\n----- end %.16s -----", mark);
    assert_non_null(strstr(text_of(one, 1), first));
    assert_non_null(strstr(text_of(one, 1), last));
    assert_string_not_equal(text_of(one, 1), text_of(two, 1));
}

static void long_output_is_cut_in_the_middle_between_characters(void **state)
{
    static char text[3 * 20000 + 1];

    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'a', shift);
        for (size_t i = shift; i + 3 < sizeof(text); i += 3)
            memcpy(text + i, "\xe2\x82\xac", 4);
        _cleanup_json_ json_object *run = run_with_output(text);
        _cleanup_json_ json_object *result = mcp_result_of_run(run, &modern);
        const char *shown = text_of(result, 1);
        _cleanup_json_ json_object *check = NULL;
        assert_true(strlen(shown) < 10000);
        assert_non_null(strstr(shown, "\xe2\x82\xac\n[... "));
        assert_non_null(strstr(shown, " ...]\n\xe2\x82\xac"));
        /* It would not be taken with half a character. */
        const char *line = json_text(result, NULL);
        assert_int_equal(json_parse_guarded(line, strlen(line), &check), 0);
    }
}

/* ---- Files ---- */

/* A run with one file of that content. */
static json_object *run_with_file(const char *name, const char *type, const void *data, size_t size)
{
    _cleanup_free_ char *text = NULL, *directory = get_current_dir_name();
    FILE *file = fopen(name, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    assert_true(asprintf(&text,
                         "{\"id\":\"1\",\"status\":\"succeeded\",\"reason\":\"r\",\"files\":[{"
                         "\"name\":\"%s\",\"path\":\"%s/%s\",\"bytes\":%zu,\"type\":\"%s\"}]}",
                         name, directory, name, size, type) > 0);
    return parse(text);
}

static void image_is_shown_as_what_it_is(void **state)
{
    static const struct {
        const char *data, *type;
    } cases[] = {
        { PNG "x", "image/png" },
        { "\xff\xd8\xff\xe0", "image/jpeg" },
        { "GIF89a", "image/gif" },
        { "RIFFsizeWEBP", "image/webp" },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        size_t size = strlen(cases[i].data);
        _cleanup_json_ json_object *run = run_with_file("a.png", "image/png", cases[i].data, size);
        _cleanup_json_ json_object *result = mcp_result_of_run(run, &modern);
        _cleanup_free_ char *expected = base64_encode(cases[i].data, size, NULL);
        assert_string_equal(json_get_string(item(result, 1), "type"), "image");
        assert_string_equal(json_get_string(item(result, 1), "mimeType"), cases[i].type);
        assert_string_equal(json_get_string(item(result, 1), "data"), expected);
    }
}

/* What is named like an image may be something else, too large, or gone. */
static void what_cannot_be_shown_is_a_link(void **state)
{
    static char large[MCP_IMAGE_MAX + 1] = PNG;
    static const struct {
        const char *data;
        size_t size;
        const char *type;
    } cases[] = {
        { "<svg/>", 6, "image/png" },
        { PNG, 8, "text/csv" },
        { large, sizeof(large), "image/png" },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_json_ json_object *run =
            run_with_file("a b%.png", cases[i].type, cases[i].data, cases[i].size);
        _cleanup_json_ json_object *result = mcp_result_of_run(run, &modern);
        assert_string_equal(json_get_string(item(result, 1), "type"), "resource_link");
        assert_string_equal(json_get_string(item(result, 1), "mimeType"), cases[i].type);
        assert_non_null(strstr(json_get_string(item(result, 1), "uri"), "/a%20b%25.png"));
        const struct mcp_result_form old = {};
        _cleanup_json_ json_object *without = mcp_result_of_run(run, &old);
        assert_int_equal(items(without), 1);
    }
}

static void link_or_pipe_in_place_of_an_image_is_not_read(void **state)
{
    _cleanup_free_ char *data = NULL;
    const char *type;
    size_t size;

    write_file("real.png", PNG);
    assert_int_equal(symlink("real.png", "link.png"), 0);
    assert_int_equal(mkfifo("pipe.png", 0600), 0);
    assert_int_equal(mcp_image_read("link.png", 100, &data, &type, &size), -ELOOP);
    assert_int_equal(mcp_image_read("pipe.png", 100, &data, &type, &size), -EBADMSG);
    assert_int_equal(mcp_image_read("none.png", 100, &data, &type, &size), -ENOENT);
    assert_int_equal(mcp_image_read("real.png", 7, &data, &type, &size), -EFBIG);
    assert_int_equal(mcp_image_read("real.png", 8, &data, &type, &size), 0);
}

static void all_images_together_have_a_limit(void **state)
{
    static char data[MCP_IMAGE_MAX] = PNG;
    _cleanup_json_ json_object *run = run_with_file("i.png", "image/png", data, sizeof(data));
    json_object *files = json_object_object_get(run, "files");

    for (size_t i = 0; i < 5; i++)
        json_append(files, json_object_get(json_object_array_get_idx(files, 0)));
    _cleanup_json_ json_object *result = mcp_result_of_run(run, &modern);
    size_t images = 0;
    for (size_t i = 0; i < items(result); i++)
        images += strcmp(json_get_string(item(result, i), "type"), "image") == 0;
    assert_int_equal(images, 4);
    assert_int_equal(items(result), 7);
}

/* ---- Failures ---- */

static void failure_says_who_could_approve_what(void **state)
{
    static const struct {
        const char *failure, *words;
    } cases[] = {
        { "{\"error\":\"io.sbxctl.Sandbox.ApprovalRequired\",\"action\":\"io.sbxctl.run-network\"}",
          "the user, with their own password, in a dialog of polkit (action "
          "io.sbxctl.run-network)" },
        { "{\"error\":\"io.sbxctl.Sandbox.ApprovalRequired\",\"action\":\"io.sbxctl.run-image\"}",
          "an administrator, in a dialog" },
        { "{\"error\":\"io.sbxctl.Sandbox.SecretsFound\"}", "Only the user can say" },
        { "{\"error\":\"io.sbxctl.Sandbox.QueueFull\"}", "Nothing: said" },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char words[] = "said";
        _cleanup_json_ json_object *failure = parse(cases[i].failure);
        const struct said said = { .text = words, .failure = failure };
        _cleanup_json_ json_object *result = mcp_result_of_failure(&said, "Nothing: ");
        assert_true(is_error(result));
        assert_non_null(strstr(text_of(result, 0), cases[i].words));
        assert_ptr_equal(json_object_object_get(result, "structuredContent"), failure);
    }
}

#define T(test) cmocka_unit_test_setup_teardown(test, enter_scratch, leave_scratch)

/* Or who reads on from where a part ends would never come further. */
static void part_of_output_is_never_empty(void **state)
{
    static const struct {
        const char *data;
        bool is_end;
        size_t size;
    } cases[] = {
        { "ab", false, 2 },           { "a\xc3\xbc", false, 3 },     { "a\xc3", false, 1 },
        { "a\xc3", true, 2 },         { "a\xf0\x9f\x98", false, 1 }, { "\xc3", false, 1 },
        { "\xf0\x9f\x98", false, 3 }, { "\x9f\x98", false, 2 },      { "", true, 0 },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++)
        assert_int_equal(
            mcp_whole_characters(cases[i].data, strlen(cases[i].data), cases[i].is_end),
            cases[i].size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summary_tells_how_it_went_and_what_to_try),
        cmocka_unit_test(only_a_run_that_went_badly_is_an_error),
        cmocka_unit_test(output_stands_in_marks_of_its_own),
        cmocka_unit_test(long_output_is_cut_in_the_middle_between_characters),
        T(image_is_shown_as_what_it_is),
        T(what_cannot_be_shown_is_a_link),
        T(link_or_pipe_in_place_of_an_image_is_not_read),
        T(all_images_together_have_a_limit),
        cmocka_unit_test(part_of_output_is_never_empty),
        cmocka_unit_test(failure_says_who_could_approve_what),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
