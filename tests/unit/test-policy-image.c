/* Which image a run gets, and which needs an approval. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "broker/policy-image.h"
#include "common/image-reference.h"

/* The tests fill structs that own their strings with literals that nobody frees. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wincompatible-pointer-types-discards-qualifiers"
#else
#pragma GCC diagnostic ignored "-Wdiscarded-qualifiers"
#endif

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define HEX "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define OTHER_DIGEST "sha256:" HEX

static struct config config;
static struct plan plan;
static struct refusal refusal;

static int set_up(void **state)
{
    config = (struct config){ .engine = "docker", .image = "debian:13", .n_languages = 1 };
    config.image_engines[0] = "docker";
    config.images[0] = "example.org/tools:2";
    config.images[1] = "pinned:1@" DIGEST;
    config.languages[0] = (struct language){ .name = "python", .image = "python:3.12-slim" };
    plan = (struct plan){ .engine = "docker", .language = &config.languages[0] };
    refusal = (struct refusal){ 0 };
    return 0;
}

static int decide(const char *wanted)
{
    plan.approvals = 0;
    plan.image = NULL;
    return policy_image(&config, wanted, &plan, &refusal);
}

static void assert_allowed(const char *wanted, const char *image)
{
    assert_int_equal(decide(wanted), 0);
    assert_int_equal(plan.approvals, 0);
    assert_string_equal(plan.image, image);
}

static void assert_approval(const char *wanted)
{
    assert_int_equal(decide(wanted), 0);
    assert_int_equal(plan.approvals, APPROVAL_IMAGE);
    assert_string_equal(plan.image, wanted);
}

static void default_is_the_languages_or_that_of_all(void **state)
{
    assert_allowed(NULL, "python:3.12-slim");
    config.languages[0].image = NULL;
    assert_allowed(NULL, "debian:13");
    config.image = NULL;
    assert_int_equal(decide(NULL), -EPERM);
    assert_string_equal(refusal.field, "image");
}

static void what_is_on_the_list_needs_no_approval(void **state)
{
    assert_allowed("example.org/tools:2", "example.org/tools:2");
    assert_allowed("docker.io/library/python:3.12-slim", "python:3.12-slim");
    assert_allowed("debian:13", "debian:13");
}

static void everything_else_needs_one(void **state)
{
    assert_approval("example.org/tools:3");
    assert_approval("example.org/tools");
    assert_approval("tools:2");
    assert_approval("python:3.12-slim-x");
    assert_approval("evil.example/python:3.12-slim");
    assert_approval("debian");
}

static void digest_pins_the_name_and_admits_no_other_digest(void **state)
{
    assert_allowed("pinned:1", "pinned:1@" DIGEST);
    assert_allowed("pinned:1@" DIGEST, "pinned:1@" DIGEST);
    assert_approval("pinned:1@" OTHER_DIGEST);
    /* A tag on the list is not any image that ever had it. */
    assert_approval("debian:13@" DIGEST);
}

static void engine_without_images_takes_none(void **state)
{
    plan.engine = "systemd";
    assert_int_equal(decide(NULL), 0);
    assert_null(plan.image);
    assert_int_equal(decide("debian:13"), -EPERM);
    assert_non_null(strstr(refusal.hint, "--engine docker"));
}

static void what_is_no_reference_is_refused(void **state)
{
    static const char *const bad[] = { "",   "../etc", "a b",  "a?b=c", "a//b", "-x", ":1",  "@x",
                                       "/x", "a%2f",   "a\nb", "ä",     "a#b",  ".x", "a..b" };
    char longer[IMAGE_REFERENCE_MAX + 2];

    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        assert_false(image_reference_is_valid(bad[i]));
        assert_int_equal(decide(bad[i]), -EPERM);
    }
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_false(image_reference_is_valid(longer));
    longer[IMAGE_REFERENCE_MAX] = '\0';
    assert_true(image_reference_is_valid(longer));
}

/* Fault catalogue, rows 37 and 38: a name means the same to us, to whoever approves it, and to the
 * daemon. */
static void fault_38_what_a_daemon_would_read_otherwise_is_refused(void **state)
{
    static const char *const bad[] = {
        /* ids */
        HEX,
        "sha256:cafe",
        OTHER_DIGEST,
        "sha256",
        "sha256@" DIGEST,
        /* segments that an address would lose */
        "a/.",
        "a/./b",
        "a/../b",
        "a/b/",
        "a/..:1",
        "a:.",
        "a:..",
        /* digests that pin nothing */
        "a@",
        "a@sha256:",
        "a@sha256:ff",
        "a@md5:0123456789abcdef0123456789abcdef",
        "a@" DIGEST "0",
        "a@" DIGEST "@" DIGEST,
        "a@" DIGEST ":1",
        "a@" DIGEST "/b",
        "a@SHA256:" HEX,
        /* and the rest of the grammar */
        "A",
        "a/B",
        "a:",
        "a:1:2",
        "a:b/c",
        "a:1/",
        "a:123456/b",
        "a:/b",
        "a__b___c",
        "a-",
        "a_",
        "-a",
        "a._b",
        "a:-1",
        "_a",
        "a@b:c",
        "\xc3\xa4",
        "a\xe2\x80\xae",
        "a&b=c",
        "a%00",
        "a+b",
        "a~b",
        "[::1]:5000/a",
        "a\\b",
        "a'b",
        "a;b",
        "$(a)",
        "user@host/a",
        "http://a/b",
        "unix:///a",
    };
    static const char *const good[] = {
        "a",
        "a:1",
        "a/b",
        "localhost:5000/a",
        "127.0.0.1:5000/a/b:1",
        "a--b",
        "a__b",
        "a.b/c-d_e:V1._-",
        "ghcr.io/a/b@" DIGEST,
        "a:1@" DIGEST,
        "a:" HEX,
        "cafe",
        "sha256x:1",
        "a/sha256:1",
    };
    char text[IMAGE_REFERENCE_MAX];

    for (size_t i = 0; i < ELEMENTS(bad); i++)
        if (image_reference_is_valid(bad[i]))
            fail_msg("taken: %s", bad[i]);
    for (size_t i = 0; i < ELEMENTS(good); i++)
        if (!image_reference_is_valid(good[i]))
            fail_msg("refused: %s", good[i]);
    memset(text, 'a', sizeof(text));
    memcpy(text, "a:", 2);
    text[2 + 129] = '\0';
    assert_false(image_reference_is_valid(text));
    text[2 + 128] = '\0';
    assert_true(image_reference_is_valid(text));
}

static void names_end_where_tags_begin(void **state)
{
    assert_int_equal(image_reference_name_length("localhost:5000/a/b:1"), 18);
    assert_int_equal(image_reference_name_length("localhost:5000/a"), 16);
    assert_int_equal(image_reference_name_length("a@" DIGEST), 1);
    assert_int_equal(image_reference_name_length("a"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(default_is_the_languages_or_that_of_all, set_up),
        cmocka_unit_test_setup(what_is_on_the_list_needs_no_approval, set_up),
        cmocka_unit_test_setup(everything_else_needs_one, set_up),
        cmocka_unit_test_setup(digest_pins_the_name_and_admits_no_other_digest, set_up),
        cmocka_unit_test_setup(engine_without_images_takes_none, set_up),
        cmocka_unit_test_setup(what_is_no_reference_is_refused, set_up),
        cmocka_unit_test(fault_38_what_a_daemon_would_read_otherwise_is_refused),
        cmocka_unit_test(names_end_where_tags_begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
