/* What the control plane says: ids and tokens that can be used, lives, lists, and words for people
 * from JSON, from HTML, and never with the key in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/cleanup.h"
#include "engine/e2b/control-plane.h"
#include "engine/e2b/key.h"

#define KEY "e2b_0123456789abcdef"

static int parse_created(const char *text, struct cloud_sandbox *ret)
{
    return cloud_parse_created(text, strlen(text), ret);
}

static void created_sandbox_is_understood_whatever_else_is_said(void **state)
{
    struct cloud_sandbox sandbox;

    assert_int_equal(
        parse_created("{\"sandboxID\":\"iabc\",\"envdAccessToken\":\"t0\",\"envdVersion\":"
                      "\"0.6.13\",\"domain\":null,\"clientID\":\"x\",\"new\":{\"a\":[1]}}",
                      &sandbox),
        0);
    assert_string_equal(sandbox.id, "iabc");
    assert_string_equal(sandbox.token, "t0");
    assert_string_equal(sandbox.domain, "");
}

static void created_sandbox_without_a_token_is_known_and_refused(void **state)
{
    static const char *const texts[] = {
        "{\"sandboxID\":\"iabc\",\"envdVersion\":\"0.6.13\"}",
        "{\"sandboxID\":\"iabc\",\"envdVersion\":\"0.6.13\",\"envdAccessToken\":null}",
        "{\"sandboxID\":\"iabc\",\"envdVersion\":\"0.6.13\",\"envdAccessToken\":\"\"}",
    };

    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        struct cloud_sandbox sandbox = { 0 };
        assert_int_equal(parse_created(texts[i], &sandbox), -EKEYREJECTED);
        assert_string_equal(sandbox.id, "iabc");
    }
}

static void id_that_would_lead_elsewhere_is_none(void **state)
{
    static const char *const texts[] = {
        "{\"sandboxID\":\"../x\",\"envdAccessToken\":\"t\",\"envdVersion\":\"1\"}",
        "{\"sandboxID\":\"\",\"envdAccessToken\":\"t\",\"envdVersion\":\"1\"}",
        "{\"sandboxID\":\"a\\r\\nb\",\"envdAccessToken\":\"t\",\"envdVersion\":\"1\"}",
        "{\"sandboxID\":\"" KEY "\",\"envdAccessToken\":\"t\",\"envdVersion\":\"1\"}",
        "{\"sandboxID\":7}",
        "[]",
        "<html>",
        "",
    };
    struct cloud_sandbox sandbox;

    for (size_t i = 0; i < ELEMENTS(texts); i++)
        assert_int_equal(parse_created(texts[i], &sandbox), -EBADMSG);
    assert_int_equal(
        parse_created("{\"sandboxID\":\"a\",\"envdAccessToken\":\"t\\r\\nX-Y: z\"}", &sandbox),
        -EKEYREJECTED);
    assert_int_equal(
        parse_created("{\"sandboxID\":\"a\",\"envdAccessToken\":\"t\",\"envdVersion\":\"1\","
                      "\"domain\":\"x/../y\"}",
                      &sandbox),
        -EBADMSG);
}

static void life_is_the_time_between_two_of_the_servers_own(void **state)
{
    static const struct {
        const char *text;
        int64_t life;
    } cases[] = {
        { "{\"startedAt\":\"2026-01-01T00:00:00Z\",\"endAt\":\"2026-01-01T00:05:00.123456Z\"}",
          300 },
        { "{\"startedAt\":\"1990-01-01T23:59:00+00:00\",\"endAt\":\"1990-01-02T00:01:00Z\"}", 120 },
        { "{\"startedAt\":\"2026-01-01T00:00:00Z\"}", -EBADMSG },
        { "{\"startedAt\":\"2026-01-01T00:00:00Z\",\"endAt\":\"2025-01-01T00:00:00Z\"}", -EBADMSG },
        { "{\"startedAt\":\"2026-01-01T00:00:00Z\",\"endAt\":\"2026-01-01T00:00:00+02:00\"}",
          -EBADMSG },
        { "{\"startedAt\":\"soon\",\"endAt\":\"later\"}", -EBADMSG },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++)
        assert_int_equal(cloud_parse_life(cases[i].text, strlen(cases[i].text)), cases[i].life);
}

static int on_listed(const char *id, json_object *labels, void *userdata)
{
    const char *run = json_get_string(labels, CLOUD_LABEL_RUN);
    char *text = userdata;

    snprintf(text + strlen(text), 100, "%s=%s ", id, run ? run : "-");
    return 0;
}

static void list_has_what_can_be_named(void **state)
{
    static const char text[] =
        "[{\"sandboxID\":\"ia\",\"metadata\":{\"sbxctl-run\":\"1\"}},{\"sandboxID\":\"ib\"},"
        "{\"sandboxID\":\"../ic\"},{},3,{\"sandboxID\":\"id\",\"metadata\":[]}]";
    char found[400] = "";

    assert_int_equal(cloud_parse_list(text, strlen(text), on_listed, found), 3);
    assert_string_equal(found, "ia=1 ib=- id=- ");
    assert_int_equal(cloud_parse_list("[]", 2, on_listed, found), 0);
    assert_int_equal(cloud_parse_list("{}", 2, on_listed, found), -EBADMSG);
    assert_int_equal(cloud_parse_list("[{]", 3, on_listed, found), -EBADMSG);
}

static void words_are_plain_whatever_the_server_sends(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "{\"code\":400,\"message\":\"Timeout must be\\u001b[31m greater\"}",
          "Timeout must be [31m greater" },
        { "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<hr>nginx</html>",
          "502 Bad Gateway nginx" },
        { "upstream request timeout", "upstream request timeout" },
        { "", "it says nothing about why" },
        { "{\"message\":5}", "{\"message\":5}" },
        { "{\"message\":\"Invalid API key " KEY "!\"}", "Invalid API key ********************!" },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        const struct http_reply reply = { .text = (char *)cases[i].text,
                                          .size = strlen(cases[i].text) };
        char words[CLOUD_WORDS_MAX];
        cloud_words(&reply, words);
        assert_string_equal(words, cases[i].words);
    }
}

/* Wherever the words are cut, there is no half of the key before it. */
static void cut_words_have_no_piece_of_the_key(void **state)
{
    for (size_t before = CLOUD_WORDS_MAX - 30; before < CLOUD_WORDS_MAX + 2; before++) {
        char text[2 * CLOUD_WORDS_MAX], words[CLOUD_WORDS_MAX];
        int n = snprintf(text, sizeof(text), "%0*d" KEY "!!", (int)before, 0);
        const struct http_reply reply = { .text = text, .size = (size_t)n };
        cloud_words(&reply, words);
        assert_null(strpbrk(words, "e2b_"));
    }
}

static int load_key(void **state)
{
    static char directory[] = "/tmp/test-e2b-reply-XXXXXX";
    char path[64];

    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof(path), "%s/" KEY_CREDENTIAL, directory);
    FILE *file = fopen(path, "we");
    fputs(KEY "\n", file);
    fclose(file);
    setenv("CREDENTIALS_DIRECTORY", directory, 1);
    int r = key_load();
    unlink(path);
    rmdir(directory);
    return r;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(created_sandbox_is_understood_whatever_else_is_said),
        cmocka_unit_test(created_sandbox_without_a_token_is_known_and_refused),
        cmocka_unit_test(id_that_would_lead_elsewhere_is_none),
        cmocka_unit_test(life_is_the_time_between_two_of_the_servers_own),
        cmocka_unit_test(list_has_what_can_be_named),
        cmocka_unit_test(words_are_plain_whatever_the_server_sends),
        cmocka_unit_test(cut_words_have_no_piece_of_the_key),
    };

    return cmocka_run_group_tests(tests, load_key, NULL);
}
