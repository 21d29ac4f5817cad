/* Tables and lists: what fits on 80 columns, and names that try to do something to the terminal. */
#include "client-fixture.h"

#include <json-c/json.h>

#include "client/file-list.h"
#include "client/ps.h"
#include "client/say.h"
#include "client/table.h"
#include "client/text.h"
#include "common/json.h"

#define NOW (1800000000ULL * 1000000)

static json_object *parsed(const char *text)
{
    json_object *object = json_tokener_parse(text);
    assert_non_null(object);
    return object;
}

/* Every line of @text is at most @width columns wide. */
static void assert_fits(const char *text, size_t width)
{
    while (*text) {
        size_t size = strcspn(text, "\n");
        _cleanup_free_ char *line = strndup(text, size);
        assert_true(text_width(line) <= width);
        text += size + (text[size] == '\n');
    }
}

static void width_is_that_of_a_terminal(void **state)
{
    assert_int_equal(text_width(""), 0);
    assert_int_equal(text_width("abc"), 3);
    assert_int_equal(text_width("müsli"), 5);
    assert_int_equal(text_width("日本語"), 6);
    assert_int_equal(text_width("e\xcc\x81"), 1);
    assert_int_equal(text_width("\xff\xff"), 2);
}

static void long_text_is_cut_between_characters(void **state)
{
    static const struct {
        const char *text, *cut;
        size_t width;
    } table[] = {
        { "short", "short", 5 },  { "longer", "long…", 5 }, { "müsli!", "müsl…", 5 },
        { "日本語", "日本…", 5 }, { "日本語", "日…", 4 },   { "ab", "…", 1 },
    };

    for (size_t i = 0; i < ELEMENTS(table); i++) {
        _cleanup_free_ char *cut = text_cut(table[i].text, table[i].width);
        assert_string_equal(cut, table[i].cut);
    }
}

static void sentences_hang_behind_their_name_and_no_word_is_cut(void **state)
{
    _cleanup_free_ char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    text_print_hanging(to, "a sentence in 漢字 and a wordthatistoolong", 12, 2);
    assert_int_equal(fclose(to), 0);
    assert_string_equal(text, "a sentence\n  in 漢字 and\n  a\n  wordthatistoolong\n");
}

static void ages_are_short(void **state)
{
    static const struct {
        uint64_t seconds;
        const char *text;
    } table[] = {
        { 0, "just now" },        { 59, "59 s ago" },           { 60, "1 min ago" },
        { 3599, "59 min ago" },   { 3600, "1 h ago" },          { 47 * 3600, "47 h ago" },
        { 48 * 3600, "2 d ago" }, { 400 * 86400, "400 d ago" },
    };
    char buffer[TEXT_AGE];

    for (size_t i = 0; i < ELEMENTS(table); i++)
        assert_string_equal(text_age(NOW - table[i].seconds * 1000000, NOW, buffer), table[i].text);
    /* A clock that was set back. */
    assert_string_equal(text_age(NOW + 5000000, NOW, buffer), "just now");
}

static json_object *run(const char *id, const char *rest)
{
    char text[1024];

    snprintf(text, sizeof(text), "{\"id\":\"%s\",\"reason\":\"\",%s}", id, rest);
    return parsed(text);
}

static void runs_fit_on_80_columns(void **state)
{
    _cleanup_json_ json_object *list = json_object_new_array();

    json_object_array_add(list,
                          run("0123456789abcdef0123456789abcdef",
                              "\"status\":\"out_of_memory\",\"startedUSec\":1799996700000000,"
                              "\"usage\":{\"wallUSec\":299000000},"
                              "\"engine\":\"an-engine-with-a-very-long-name\","
                              "\"scriptName\":\"日本語日本語日本語日本語日本語日本語日本語.py\""));
    json_object_array_add(list, run("fedcba98", "\"status\":\"queued\""));
    const char *text = PRINTED(to, assert_int_equal(ps_print(to, list, NOW, 80), 0));
    assert_fits(text, 80);
    assert_non_null(strstr(text, "0123456789ab  out of memory  55 min ago  4 min 59 s"));
    assert_non_null(strstr(text, "…"));
    assert_non_null(strstr(text, "fedcba98 "));
}

static void ids_that_begin_alike_are_shown_longer(void **state)
{
    _cleanup_json_ json_object *list = json_object_new_array();

    json_object_array_add(list, run("aaaaaaaaaaaaaaaa1", "\"status\":\"queued\""));
    json_object_array_add(list, run("aaaaaaaaaaaaaaaa2", "\"status\":\"queued\""));
    const char *text = PRINTED(to, assert_int_equal(ps_print(to, list, NOW, 80), 0));
    assert_non_null(strstr(text, "aaaaaaaaaaaaaaaa1 "));
    assert_non_null(strstr(text, "aaaaaaaaaaaaaaaa2 "));
}

static void a_run_that_is_not_understood_hides_no_other(void **state)
{
    _cleanup_json_ json_object *list = json_object_new_array();

    json_object_array_add(list, run("aaaa", "\"status\":\"failed\",\"exitCode\":-1"));
    json_object_array_add(list, run("bbbb", "\"status\":\"queued\""));
    const char *text = PRINTED(to, assert_int_equal(ps_print(to, list, NOW, 80), 0));
    assert_null(strstr(text, "aaaa"));
    assert_non_null(strstr(text, "bbbb "));
}

static void what_expires_soon_and_what_was_thought_of_it_have_columns(void **state)
{
    _cleanup_json_ json_object *list = json_object_new_array();

    /* In three days, and in three hundred. */
    json_object_array_add(list, run("aaaa", "\"status\":\"out_of_memory\",\"engine\":\"systemd\","
                                            "\"startedUSec\":1799996700000000,"
                                            "\"usage\":{\"wallUSec\":299000000},"
                                            "\"expiresUSec\":1800259300000000,"
                                            "\"verdict\":\"accepted\",\"scriptName\":\"a.py\""));
    json_object_array_add(list, run("bbbb", "\"status\":\"lost\",\"engine\":\"systemd\","
                                            "\"expiresUSec\":1825920000000000"));
    const char *text = PRINTED(to, assert_int_equal(ps_print(to, list, NOW, 80), 0));
    assert_fits(text, 80);
    assert_non_null(strstr(text, "DURATION    ENGINE   EXPIRES  VERDICT   SCRIPT\n"));
    assert_non_null(strstr(text, "4 min 59 s  systemd  in 3 d   accepted  a.py\n"));
    assert_null(strstr(text, "in 300 d"));
}

static void times_to_come_are_short(void **state)
{
    char buffer[TEXT_AGE];

    assert_string_equal(text_until(NOW + 59000000, NOW, buffer), "in 59 s");
    assert_string_equal(text_until(NOW + 47ULL * 3600 * 1000000, NOW, buffer), "in 47 h");
    assert_string_equal(text_until(NOW + 30ULL * 86400 * 1000000, NOW, buffer), "in 30 d");
    assert_string_equal(text_until(NOW - 1, NOW, buffer), "now");
}

static void fault_13_names_cannot_reach_the_terminal(void **state)
{
    _cleanup_json_ json_object *files =
        parsed("[{\"name\":\"plain.txt\",\"bytes\":1024},"
               "{\"name\":\"esc\\u001b[31m\\nnext\\u202e\\u009b\",\"bytes\":1},"
               "{\"name\":\"escaped\\\\x0aalready\",\"bytes\":2},"
               "{\"name\":\"日本.csv\",\"bytes\":3}]");
    const char *text = PRINTED(to, file_list_print(to, files, 20));
    size_t lines = 0;

    for (const char *p = text; *p; p++) {
        assert_true((unsigned char)*p >= 0x20 || *p == '\n');
        lines += *p == '\n';
    }
    assert_int_equal(lines, 4);
    assert_non_null(strstr(text, "esc\\x1b[31m\\x0anext"));
    assert_null(strstr(text, "\xe2\x80\xae"));
    assert_null(strstr(text, "\xc2\x9b"));
    assert_non_null(strstr(text, "escaped\\x0aalready"));
    assert_null(strstr(text, "\\x5c"));
    assert_non_null(strstr(text, "日本.csv"));
}

static void long_lists_are_counted(void **state)
{
    _cleanup_json_ json_object *files = json_object_new_array();

    for (int i = 0; i < 25; i++)
        json_object_array_add(files, parsed("{\"name\":\"f\",\"bytes\":1}"));
    const char *text = PRINTED(to, file_list_print(to, files, 20));
    assert_non_null(strstr(text, "… and 5 more\n"));
}

static void table_without_last_cell_has_no_trailing_spaces(void **state)
{
    struct table table = { .n_columns = 3 };

    assert_int_equal(table_add(&table, (const char *[]){ "A", "B", "C" }), 0);
    assert_int_equal(table_add(&table, (const char *[]){ "long cell", "x", "" }), 0);
    const char *text = PRINTED(to, table_print(to, &table, 80));
    table_release(&table);
    assert_string_equal(text, "A          B  C\nlong cell  x\n");
}

#define LONG "files.pythonhosted.org:443 (refused by AllowedNames=)"

static void what_does_not_fit_stands_whole_below_its_row(void **state)
{
    static const char whole[] =
        "WHEN   HOST\n"
        "today  short.example\n"
        "today\n    files.pythonhosted.org:443 (refused\n    by AllowedNames=)\n"
        "today\n";
    struct table table = { .n_columns = 2 };

    assert_int_equal(table_add(&table, (const char *[]){ "WHEN", "HOST" }), 0);
    assert_int_equal(table_add(&table, (const char *[]){ "today", "short.example" }), 0);
    assert_int_equal(table_add(&table, (const char *[]){ "today", LONG }), 0);
    assert_int_equal(table_add(&table, (const char *[]){ "today", "" }), 0);
    const char *text = PRINTED(to, table_print_whole(to, &table, 40));
    assert_string_equal(text, whole);
    text = PRINTED(to, table_print_whole(to, &table, SIZE_MAX));
    assert_non_null(strstr(text, "\ntoday  " LONG "\n"));
    table_release(&table);
}

#define T(name) cmocka_unit_test_setup_teardown(name, enter_scratch, leave_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(width_is_that_of_a_terminal),
        T(long_text_is_cut_between_characters),
        T(sentences_hang_behind_their_name_and_no_word_is_cut),
        T(ages_are_short),
        T(runs_fit_on_80_columns),
        T(ids_that_begin_alike_are_shown_longer),
        T(a_run_that_is_not_understood_hides_no_other),
        T(what_expires_soon_and_what_was_thought_of_it_have_columns),
        T(times_to_come_are_short),
        T(fault_13_names_cannot_reach_the_terminal),
        T(long_lists_are_counted),
        T(table_without_last_cell_has_no_trailing_spaces),
        T(what_does_not_fit_stands_whole_below_its_row),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
