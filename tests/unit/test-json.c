/* The JSON guard and typed dispatch. What varlink makes of refused messages stands in
 * test-varlink-faults.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/json.h"

/* Sanitizers cost a factor. */
#if defined(__SANITIZE_ADDRESS__)
#define CPU_MSEC_MAX 2000
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CPU_MSEC_MAX 2000
#endif
#endif
#ifndef CPU_MSEC_MAX
#define CPU_MSEC_MAX 200
#endif

static int parse(const char *text)
{
    _cleanup_json_ json_object *o = NULL;

    return json_parse_guarded(text, strlen(text), &o);
}

static json_object *parse_good(const char *text)
{
    json_object *o = NULL;

    assert_int_equal(json_parse_guarded(text, strlen(text), &o), 0);
    assert_non_null(o);
    return o;
}

static void strict_json_is_taken(void **state)
{
    static const char *const texts[] = {
        "{}",
        " \t\r\n{ } \n",
        "{\"\":null}",
        "{\"a\":1,\"b\":[1,2.5,-0.1e+5,true,false,null,\"x\",{}],\"c\":{\"a\":{\"a\":[]}}}",
        "{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":0,\"d\":-1}",
        "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00 é😀\x7f\"}",
        "{\"a\":{\"k\":1},\"b\":{\"k\":1}}",
        "{\"a\":\"it's\"}",
    };

    for (size_t i = 0; i < ELEMENTS(texts); i++)
        assert_int_equal(parse(texts[i]), 0);
}

static void escapes_become_their_characters(void **state)
{
    _cleanup_json_ json_object *o = parse_good("{\"a\":\"\\u0041\\uD83D\\uDE00\\n\"}");

    assert_string_equal(json_object_get_string(json_object_object_get(o, "a")), "A😀\n");
}

static void what_is_not_an_object_is_refused(void **state)
{
    static const char *const texts[] = { "",      " ",    "null", "[]",  "1",
                                         "\"x\"", "true", "{}{}", "{}x", "\xef\xbb\xbf{}",
                                         "x{}",   "{",    "}",    "[{}]" };

    for (size_t i = 0; i < ELEMENTS(texts); i++)
        assert_int_equal(parse(texts[i]), -EBADMSG);
}

static void what_json_c_lets_through_is_refused(void **state)
{
    static const char *const texts[] = {
        "{'a':1}",
        "{\"a\":'x'}",
        "{\"a\":NaN}",
        "{\"a\":nan}",
        "{\"a\":Infinity}",
        "{\"a\":-Infinity}",
        "{\"a\":1e999}",
        "{\"a\":-1e999}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\x1b[0m\"}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\\u0000\"}",
        "{\"a\\u0000b\":1}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\udc00\"}",
        "{\"a\":\"\\ud800\\u0041\"}",
        "{\"a\":\"\\ud800\\ud800\"}",
        "{\"a\":\"\\udc00\\ud800\"}",
        "{\"a\":\"\\ud83d\xf0\x9f\x98\x80\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\U0041\"}",
        "{\"a\":\"\\x41\"}",
        "{\"a\":\"\\'\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\xc0\x80\"}",
        "{\"a\":\"\xed\xa0\x80\"}",
        "{\"a\":\"\xf4\x90\x80\x80\"}",
        "{\"\xff\":1}",
        "{\"a\":9223372036854775808}",
        "{\"a\":18446744073709551616}",
        "{\"a\":-9223372036854775809}",
        "{\"a\":01}",
        "{\"a\":-01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":1e}",
        "{\"a\":1e+}",
        "{\"a\":-}",
        "{\"a\":0x10}",
        "{\"a\":1_000}",
        "{\"a\":True}",
        "{\"a\":TRUE}",
        "{\"a\":NULL}",
        "{\"a\":nul}",
        "{\"a\":truefalse}",
        "{\"a\":undefined}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{\"a\"}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":[1,]}",
        "{\"a\":[,1]}",
        "{\"a\":[1 2]}",
        "{\"a\":[1}",
        "{\"a\":[1}]",
        "{\"a\":1]",
        "{\"a\":\"x}",
        "{\"a\":\"x\\\"}",
        "{/**/}",
        "{}//",
        "{\"a\":1}\f",
        "{\"a\":\u00a01}",
        "{1:1}",
        "{\"a\":1;}",
    };

    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        int r = parse(texts[i]);

        if (r != -EBADMSG)
            print_message("%s\n", texts[i]);
        assert_int_equal(r, -EBADMSG);
    }
}

static void numbers_have_64_characters_at_most(void **state)
{
    char text[128];

    snprintf(text, sizeof(text), "{\"a\":0.%062d}", 1);
    assert_int_equal(parse(text), 0);
    snprintf(text, sizeof(text), "{\"a\":0.%063d}", 1);
    assert_int_equal(parse(text), -EBADMSG);
    snprintf(text, sizeof(text), "{\"a\":1%099d}", 1);
    assert_int_equal(parse(text), -EBADMSG);
}

static void repeated_keys_are_refused_on_every_level(void **state)
{
    static const char *const texts[] = {
        "{\"a\":1,\"a\":1}",
        "{\"a\":1,\"b\":2,\"a\":3}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"x\":{\"a\":1,\"a\":2}}",
        "{\"x\":[[{\"a\":{},\"a\":{}}]]}",
        "{\"\":1,\"\":2}",
        /* The one that is kept brings as many members as were lost. */
        "{\"a\":{\"x\":1},\"a\":{\"y\":1}}",
        "{\"a\":1,\"a\":{\"y\":1}}",
        "{\"\\ud83d\\ude00\":1,\"😀\":2}",
    };

    for (size_t i = 0; i < ELEMENTS(texts); i++)
        assert_int_equal(parse(texts[i]), -EBADMSG);
}

static void a_raw_nul_is_refused_wherever_it_stands(void **state)
{
    static const char text[] = "{\"a\":\"b\"}";
    json_object *o = NULL;

    for (size_t i = 0; i <= sizeof(text) - 1; i++) {
        char data[sizeof(text)];

        memcpy(data, text, i);
        data[i] = '\0';
        memcpy(data + i + 1, text + i, sizeof(text) - 1 - i);
        assert_int_equal(json_parse_guarded(data, sizeof(data), &o), -EBADMSG);
    }
}

static void every_beginning_of_a_document_is_refused(void **state)
{
    static const char text[] = "{\"a\":[1.5e-3,\"\\ud83d\\ude00é\",true,null],\"b\":{}}";
    json_object *o = NULL;

    for (size_t n = 0; n < sizeof(text) - 1; n++) {
        /* At its very end a sanitizer sees each byte too far. */
        _cleanup_free_ char *copy = malloc(n + 1);

        memcpy(copy, text, n);
        assert_int_equal(json_parse_guarded(copy, n, &o), -EBADMSG);
    }
    assert_int_equal(parse(text), 0);
}

/* {"a":{"a":…1…}} or {"a":[[…1…]]}: @depth containers. */
static char *nested(size_t depth, const char *open, char close)
{
    size_t step = strlen(open);
    char *text = malloc(depth * (step + 1) + sizeof("{\"a\":1}")), *p = text;

    p = stpcpy(p, "{\"a\":");
    for (size_t i = 1; i < depth; i++)
        p = stpcpy(p, open);
    *p++ = '1';
    for (size_t i = 1; i < depth; i++)
        *p++ = close;
    strcpy(p, "}");
    return text;
}

static void fault_10_depth_is_bounded_at_32(void **state)
{
    static const struct {
        size_t depth;
        int r;
    } rows[] = { { 31, 0 }, { 32, 0 }, { 33, -EBADMSG }, { 100000, -EBADMSG } };

    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        _cleanup_free_ char *objects = nested(rows[i].depth, "{\"a\":", '}');
        _cleanup_free_ char *arrays = nested(rows[i].depth, "[", ']');

        assert_int_equal(parse(objects), rows[i].r);
        assert_int_equal(parse(arrays), rows[i].r);
    }
}

static double cpu_msec(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* Fills 1 MiB: {"k":[ + @item repeated with commas + ]} or, with @numbered keys, members
 * "kN":@item. */
static char *fill(const char *item, bool numbered, size_t items_max)
{
    enum { SIZE = 1024 * 1024 };
    char *text = malloc(SIZE), *p = text;

    p = stpcpy(p, numbered ? "{" : "{\"k\":[");
    for (size_t i = 0; i < items_max && p < text + SIZE - strlen(item) - 32; i++) {
        if (i > 0)
            *p++ = ',';
        if (numbered)
            p += sprintf(p, "\"k%zx\":", i);
        p = stpcpy(p, item);
    }
    strcpy(p, numbered ? "}" : "]}");
    return text;
}

static void assert_fast(const char *text, int expected)
{
    double start = cpu_msec(), used;

    assert_int_equal(parse(text), expected);
    used = cpu_msec() - start;
    if (used >= CPU_MSEC_MAX)
        print_message("%.0f ms for %.40s\n", used, text);
    assert_true(used < CPU_MSEC_MAX);
}

static void fault_68_a_mebibyte_of_anything_costs_little_time(void **state)
{
    static const struct {
        const char *item;
        bool numbered;
        size_t items_max;
        int r;
    } rows[] = {
        { "1", false, SIZE_MAX, -E2BIG },
        { "{}", false, SIZE_MAX, -E2BIG },
        { "1", true, SIZE_MAX, -E2BIG },
        { "1", true, JSON_ITEMS_MAX, 0 },
        { "{}", true, JSON_ITEMS_MAX, 0 },
        { "[]", false, JSON_ITEMS_MAX - 1, 0 },
        { "{}", false, JSON_ITEMS_MAX - 1, 0 },
        { "{}", false, JSON_ITEMS_MAX, -E2BIG },
        { "\"\\u00e9\\ud83d\\ude00\"", false, JSON_ITEMS_MAX - 1, 0 },
        { "1.7976931348623157e308", false, JSON_ITEMS_MAX - 1, 0 },
        { "{\"a\":1,\"a\":1}", false, 20000, -EBADMSG },
    };
    _cleanup_free_ char *run = malloc(1024 * 1024 + 1);

    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        _cleanup_free_ char *text = fill(rows[i].item, rows[i].numbered, rows[i].items_max);

        assert_fast(text, rows[i].r);
    }
    /* A long run of one byte, alone and as a string, a key, a number. */
    for (const char *c = "[{\" \\0a-'\t"; *c; c++) {
        memset(run, *c, 1024 * 1024);
        run[1024 * 1024] = '\0';
        assert_fast(run, -EBADMSG);
        memcpy(run, "{\"a\":", 5);
        assert_fast(run, -EBADMSG);
        memcpy(run, "{\"a\":\"", 6);
        memcpy(run + 1024 * 1024 - 2, "\"}", 2);
        assert_fast(run, strchr("[{ \\0a-'", *c) ? 0 : -EBADMSG);
    }
    memset(run, '1', 1024 * 1024);
    memcpy(run, "{\"a\":0.", 7);
    run[1024 * 1024 - 1] = '}';
    assert_fast(run, -EBADMSG);
}

struct target {
    const char *string;
    bool boolean;
    uint64_t big;
    int64_t number;
    uint32_t small;
    json_object *object, *array;
};

static const struct json_field fields[] = {
    { "string", JSON_FIELD_STRING, offsetof(struct target, string), .max = 5 },
    { "boolean", JSON_FIELD_BOOL, offsetof(struct target, boolean) },
    { "big", JSON_FIELD_UINT64, offsetof(struct target, big), .min = 2, .max = 1000 },
    { "number", JSON_FIELD_INT64, offsetof(struct target, number), .min = (uint64_t)-5, .max = 5 },
    { "small", JSON_FIELD_UINT32, offsetof(struct target, small), .max = UINT64_MAX },
    { "object", JSON_FIELD_OBJECT, offsetof(struct target, object) },
    { "array", JSON_FIELD_ARRAY, offsetof(struct target, array) },
};

static void members_land_in_their_fields(void **state)
{
    _cleanup_json_ json_object *o =
        parse_good("{\"string\":\"12345\",\"boolean\":true,\"big\":1000,\"number\":-5,"
                   "\"small\":4294967295,\"object\":{},\"array\":[1]}");
    struct target t = { 0 };
    const char *field = NULL;

    assert_int_equal(json_dispatch(o, fields, ELEMENTS(fields), false, &t, &field), 0);
    assert_string_equal(t.string, "12345");
    assert_true(t.boolean);
    assert_int_equal(t.big, 1000);
    assert_int_equal(t.number, -5);
    assert_int_equal(t.small, UINT32_MAX);
    assert_non_null(t.object);
    assert_int_equal(json_object_array_length(t.array), 1);
}

static void absent_and_null_members_leave_the_target(void **state)
{
    _cleanup_json_ json_object *o = parse_good("{\"string\":null,\"big\":null,\"boolean\":null}");
    struct target t = { .string = "kept", .boolean = true, .big = 7, .number = -3 };
    const char *field = NULL;

    assert_int_equal(json_dispatch(o, fields, ELEMENTS(fields), false, &t, &field), 0);
    assert_string_equal(t.string, "kept");
    assert_true(t.boolean);
    assert_int_equal(t.big, 7);
    assert_int_equal(t.number, -3);
}

static void the_offending_member_is_named(void **state)
{
    static const struct {
        const char *text, *field;
    } rows[] = {
        { "{\"string\":1}", "string" },
        { "{\"string\":\"123456\"}", "string" },
        { "{\"string\":[]}", "string" },
        { "{\"boolean\":1}", "boolean" },
        { "{\"boolean\":\"true\"}", "boolean" },
        { "{\"big\":1}", "big" },
        { "{\"big\":1001}", "big" },
        { "{\"big\":-1}", "big" },
        { "{\"big\":2.0}", "big" },
        { "{\"big\":\"2\"}", "big" },
        { "{\"big\":true}", "big" },
        { "{\"number\":-6}", "number" },
        { "{\"number\":6}", "number" },
        { "{\"small\":4294967296}", "small" },
        { "{\"object\":[]}", "object" },
        { "{\"object\":\"{}\"}", "object" },
        { "{\"array\":{}}", "array" },
        { "{\"uid\":0}", "uid" },
        { "{\"string \":\"x\"}", "string " },
        { "{\"String\":\"x\"}", "String" },
    };

    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        _cleanup_json_ json_object *o = parse_good(rows[i].text);
        struct target t = { 0 };
        const char *field = NULL;

        assert_int_equal(json_dispatch(o, fields, ELEMENTS(fields), false, &t, &field), -EINVAL);
        assert_string_equal(field, rows[i].field);
    }
}

static void a_mandatory_member_must_be_there_and_not_null(void **state)
{
    static const struct json_field one[] = { { "a", JSON_FIELD_STRING, 0, .mandatory = true } };
    _cleanup_json_ json_object *none = parse_good("{}"), *null = parse_good("{\"a\":null}"),
                               *other = parse_good("{\"b\":1,\"a\":\"x\"}");
    const char *target = NULL, *field = NULL;

    assert_int_equal(json_dispatch(none, one, 1, false, &target, &field), -EINVAL);
    assert_string_equal(field, "a");
    assert_int_equal(json_dispatch(null, one, 1, false, &target, &field), -EINVAL);
    assert_int_equal(json_dispatch(other, one, 1, false, &target, &field), -EINVAL);
    assert_string_equal(field, "b");
    assert_int_equal(json_dispatch(other, one, 1, true, &target, &field), 0);
    assert_string_equal(target, "x");
    assert_int_equal(json_dispatch(NULL, one, 1, true, &target, &field), -EINVAL);
}

static void a_string_with_a_nul_is_no_string(void **state)
{
    static const struct json_field one[] = { { "a", JSON_FIELD_STRING, 0 } };
    _cleanup_json_ json_object *o = json_object_new_object();
    const char *target = NULL, *field = NULL;

    json_add(o, "a", json_object_new_string_len("x\0y", 3));
    assert_int_equal(json_dispatch(o, one, 1, false, &target, &field), -EINVAL);
    assert_null(target);
}

static void a_document_may_be_an_array_where_that_is_asked_for(void **state)
{
    static const struct {
        const char *data;
        size_t size;
    } bad[] = {
        { "", 0 },
        { "[1", 2 },
        { "[1]x", 4 },
        { "[1]}", 4 },
        { "[1],\"a\":2", 9 },
        { "[1]\0[2]", 7 },
        { "[1],\"items\":[2]", 15 },
    };
    json_object *o;

    assert_int_equal(json_parse_items("[1,{\"a\":2}]xy", 11, &o), 0);
    assert_string_equal(json_text(o, &(size_t){ 0 }), "{\"items\":[1,{\"a\":2}]}");
    json_object_put(o);
    assert_int_equal(json_parse_items("{\"a\":2}", 7, &o), 0);
    assert_string_equal(json_text(o, &(size_t){ 0 }), "{\"a\":2}");
    json_object_put(o);
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        assert_int_equal(json_parse_items(bad[i].data, bad[i].size, &o), -EBADMSG);
}

static void elements_are_added_or_refused(void **state)
{
    _cleanup_json_ json_object *array = json_object_new_array();

    assert_int_equal(json_append(array, json_object_new_int(1)), 0);
    assert_int_equal(json_append(array, NULL), -ENOMEM);
    assert_int_equal(json_append(NULL, json_object_new_int(2)), -ENOMEM);
    assert_string_equal(json_text(array, &(size_t){ 0 }), "[1]");
}

static void members_are_added_or_left_out(void **state)
{
    _cleanup_json_ json_object *o = json_object_new_object();
    size_t size = 0;

    assert_int_equal(json_add_string(o, "path", "/a/b\x1b"), 0);
    assert_int_equal(json_add_string(o, "none", NULL), 0);
    assert_int_equal(json_add_uint64(o, "n", INT64_MAX), 0);
    assert_int_equal(json_add_uint64(o, "unlimited", UINT64_MAX), 0);
    assert_int_equal(json_add_bool(o, "yes", true), 0);
    assert_int_equal(json_add(o, "broken", NULL), -ENOMEM);
    assert_int_equal(json_add_bool(NULL, "yes", true), -ENOMEM);
    assert_string_equal(json_text(o, &size),
                        "{\"path\":\"/a/b\\u001b\",\"n\":9223372036854775807,\"yes\":true}");
    assert_int_equal(size, strlen(json_text(o, &size)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_json_is_taken),
        cmocka_unit_test(escapes_become_their_characters),
        cmocka_unit_test(what_is_not_an_object_is_refused),
        cmocka_unit_test(what_json_c_lets_through_is_refused),
        cmocka_unit_test(numbers_have_64_characters_at_most),
        cmocka_unit_test(repeated_keys_are_refused_on_every_level),
        cmocka_unit_test(a_raw_nul_is_refused_wherever_it_stands),
        cmocka_unit_test(every_beginning_of_a_document_is_refused),
        cmocka_unit_test(fault_10_depth_is_bounded_at_32),
        cmocka_unit_test(fault_68_a_mebibyte_of_anything_costs_little_time),
        cmocka_unit_test(members_land_in_their_fields),
        cmocka_unit_test(absent_and_null_members_leave_the_target),
        cmocka_unit_test(the_offending_member_is_named),
        cmocka_unit_test(a_mandatory_member_must_be_there_and_not_null),
        cmocka_unit_test(a_string_with_a_nul_is_no_string),
        cmocka_unit_test(a_document_may_be_an_array_where_that_is_asked_for),
        cmocka_unit_test(members_are_added_or_left_out),
        cmocka_unit_test(elements_are_added_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
