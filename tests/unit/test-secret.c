/* What is taken for a credential, and what is not. The keys are put together here so that nobody's
 * search for credentials finds them in this file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "broker/secret.h"
#include "common/cleanup.h"

#define R20 "aB3dE5gH7jK9mN1pQ3rS"
#define R40 R20 "tU5vW7xY9zA1bC3dE5fG"
#define R80 R40 R40
#define HEX40 "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"

static const struct {
    const char *what, *prefix, *rest;
} keys[] = {
    { "an AWS access key", "AKIA", "QWERTY0123456789" },
    { "an AWS access key", "ASIA", "QWERTY0123456789" },
    { "an Anthropic key", "sk-ant-", "api03-" R40 },
    { "an Azure storage key", "AccountKey=", R80 "==" },
    { "a DigitalOcean token", "dop_v1_", HEX40 "0a1b2c3d4e5f60718293a4b5" },
    { "an E2B key", "e2b_", HEX40 },
    { "a GitHub token", "ghp_", R40 },
    { "a GitHub token", "gho_", R40 },
    { "a GitHub token", "ghs_", R40 },
    { "a GitHub token", "ghu_", R40 },
    { "a GitHub token", "ghr_", R40 },
    { "a GitHub token", "github_pat_", R80 },
    { "a GitLab token", "glpat-", R20 },
    { "a Google key", "AIza", R20 "tU5vW7xY9zA1bC3" },
    { "a Hugging Face token", "hf_", R40 },
    { "an npm token", "npm_", R20 "tU5vW7xY9zA1bC3d" },
    { "an OpenAI key", "sk-proj-", R40 },
    { "an OpenAI key", "sk-svcacct-", R40 },
    { "an OpenAI key", "sk-", R40 "aB3dE5gH" },
    { "a PyPI token", "pypi-AgEI", R40 R20 },
    { "a SendGrid key", "SG.", R20 "aB." R40 "aB3" },
    { "a Slack token", "xoxa-", R20 },
    { "a Slack token", "xoxb-", "123456789012-" R20 },
    { "a Slack token", "xoxp-", R20 },
    { "a Slack token", "xoxs-", R20 },
    { "a Slack token", "xapp-", R20 },
    { "a Stripe key", "sk_live_", R20 "aB3d" },
    { "a Stripe key", "rk_live_", R20 "aB3d" },
    { "a JSON Web Token", "eyJ", "hbGciOiJIUzI1NiJ9.eyJuYW1lIjoiYWxpY2UiLCJhZG1pbiI6dHJ1ZX0." R40 },
    { "a private key", "-----BEGIN ", "RSA PRIVATE KEY-----\nMIIE" R80 "\n" },
    { "a private key", "-----BEGIN ", "OPENSSH PRIVATE KEY-----\\nb3Bl" R80 "\\n" },
};

static void each_format_is_found_in_its_line_and_masked(void **state)
{
    for (size_t i = 0; i < ELEMENTS(keys); i++) {
        char key[400], text[500];
        struct secret secret;

        snprintf(key, sizeof(key), "%s%s", keys[i].prefix, keys[i].rest);
        snprintf(text, sizeof(text), "import x\n\nkey = '%s'\nx.use(key)\n", key);
        if (!secret_find(text, strlen(text), &secret) || strcmp(secret.what, keys[i].what) != 0)
            fail_msg("not found: %s", text);
        assert_int_equal(secret.line, 3);
        _cleanup_free_ char *masked = secret_mask(text);
        assert_non_null(strstr(masked, "[...]"));
        assert_null(strstr(masked, "aB3d"));
        assert_null(strstr(masked, "QWERTY"));
        assert_null(strstr(masked, "0a1b2c3d4e5f"));
        assert_non_null(strstr(masked, "x.use(key)"));
    }
}

static void what_stands_in_the_place_of_a_key_is_none(void **state)
{
    static const char *const texts[] = {
        "",
        "key = os.environ['OPENAI_API_KEY']",
        "key = 'sk-"
        "your-key-goes-here-your-key-goes-here-your-key'",
        "key = 'sk-"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'",
        "key = 'ghp_"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
        "key = 'AKIA"
        "IOSFODNN7EXAMPLE'",
        "key = 'AKIA"
        "QWERTY0123456789A'", /* one letter too many */
        "name = 'desk-" R40 "aB3dE5gH'",
        "if text.startswith('-----BEGIN "
        "PRIVATE KEY-----'): pass",
        "token = 'eyJ"
        "hbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6."
        "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c'",
        "digest = '" HEX40 "'",
        "npm_"
        "config_proxy",
        "risk-"
        "aversion",
    };

    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        struct secret secret;
        if (secret_find(texts[i], strlen(texts[i]), &secret))
            fail_msg("taken for %s: %s", secret.what, texts[i]);
        _cleanup_free_ char *same = secret_mask(texts[i]);
        assert_string_equal(same, texts[i]);
    }
}

static void first_of_several_is_told_and_all_are_masked(void **state)
{
    static const char text[] = "a ghp_" R40 "\nb AKIA"
                               "QWERTY0123456789\nc ghp_" R40 "\n";
    struct secret secret;

    assert_true(secret_find(text, sizeof(text) - 1, &secret));
    assert_string_equal(secret.what, "a GitHub token");
    assert_int_equal(secret.line, 1);
    _cleanup_free_ char *masked = secret_mask(text);
    assert_string_equal(masked, "a [...]\nb [...]\nc [...]\n");

    _cleanup_free_ char *together = secret_mask("AKIA"
                                                "QWERTY0123456789ghp_" R40);
    assert_string_equal(together, "[...][...]");
}

/* A megabyte of the beginnings of keys takes as long as any other; in square time it would be
 * hours. */
static void hostile_text_takes_linear_time(void **state)
{
    static const char *const parts[] = { "eyJ.", "sk-", "xoxb-", "-----BEGIN PRIVATE KEY", "SG." };
    enum { SIZE = 1 << 20 };
    _cleanup_free_ char *text = malloc(SIZE);

    for (size_t i = 0; i < ELEMENTS(parts); i++) {
        size_t n = strlen(parts[i]);
        for (size_t at = 0; at < SIZE; at++)
            text[at] = parts[i][at % n];
        struct secret secret;
        time_t began = time(NULL);
        assert_false(secret_find(text, SIZE, &secret));
        assert_true(time(NULL) - began < 10);
    }
}

static void masking_many_takes_linear_time(void **state)
{
    static const char key[] = "AKIA"
                              "QWERTY0123456789 ";
    enum { N = 50000 };
    size_t size = sizeof(key) - 1;
    _cleanup_free_ char *text = malloc(N * size + 1);
    time_t began = time(NULL);

    for (size_t i = 0; i < N; i++)
        strcpy(text + i * size, key);
    _cleanup_free_ char *masked = secret_mask(text);
    assert_int_equal(strlen(masked), N * strlen("[...] "));
    assert_true(time(NULL) - began < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_format_is_found_in_its_line_and_masked),
        cmocka_unit_test(what_stands_in_the_place_of_a_key_is_none),
        cmocka_unit_test(first_of_several_is_told_and_all_are_masked),
        cmocka_unit_test(hostile_text_takes_linear_time),
        cmocka_unit_test(masking_many_takes_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
