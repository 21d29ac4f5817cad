/* The E2B engine's configuration: what the key is sent to can only be a host by TLS; and the key
 * itself, which is one line that can stand in a header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/cleanup.h"
#include "engine/e2b/config.h"
#include "engine/e2b/key.h"

static char directory[] = "/tmp/test-e2b-config-XXXXXX";

static const char *write_file(const char *name, const char *text)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, 0600);
    return path;
}

static int load(const char *lines, struct config *ret)
{
    _cleanup_free_ char *error = NULL;
    char text[512];

    snprintf(text, sizeof(text), "[E2B]\n%s\n", lines);
    const char *path = write_file("engine-e2b.conf", text);
    int r = config_load(path, ret, &error);
    /* Whoever made a mistake is told where. */
    assert_true(r == 0 || (error && strstr(error, "engine-e2b.conf")));
    unlink(path);
    return r;
}

static void without_a_file_it_is_e2bs_own_cloud(void **state)
{
    _cleanup_(config_release) struct config config = { 0 };
    char *error;

    assert_int_equal(config_load("/nowhere/at/all", &config, &error), 0);
    assert_string_equal(config.api_url, "https://api.e2b.app");
    assert_string_equal(config.template_id, "code-interpreter-v1");
    assert_null(config.sandbox_url);
    assert_null(config.proxy);
    assert_int_equal(config.max_sandboxes, 8);
}

static void domain_of_ones_own_leads_to_its_api(void **state)
{
    _cleanup_(config_release) struct config config = { 0 };

    assert_int_equal(load("Domain=e2b.example.org", &config), 0);
    assert_string_equal(config.api_url, "https://api.e2b.example.org");
}

static void url_loses_its_last_slash(void **state)
{
    _cleanup_(config_release) struct config config = { 0 };

    assert_int_equal(load("ApiUrl=https://localhost:3443//\nInterpreters=", &config), 0);
    assert_string_equal(config.api_url, "https://localhost:3443");
    assert_string_equal(config.interpreters, "");
}

static void what_cannot_be_meant_is_refused(void **state)
{
    static const char *const lines[] = {
        "ApiUrl=http://api.e2b.app",
        "ApiUrl=https://",
        "ApiUrl=https://user:password@host",
        "SandboxUrl=http://localhost:3000",
        "SandboxUrl=https://host/?a=b",
        "Domain=e2b.app/path",
        "Domain=",
        "Template=../x",
        "Template=a b",
        "CAFile=ca.pem",
        "User=a:b",
        "MaxSandboxes=0",
        "MaxSandboxes=201",
        "ApiKey=e2b_0000",
        /* Nothing makes it trace. */
        "Verbose=yes",
        "Debug=yes",
        "Trace=/tmp/trace",
        "KeyLogFile=/tmp/keys",
    };

    for (size_t i = 0; i < ELEMENTS(lines); i++) {
        struct config config = { 0 };
        assert_true(load(lines[i], &config) < 0);
        assert_null(config.api_url);
    }
}

static int load_key(const char *text)
{
    const char *path = write_file(KEY_CREDENTIAL, text);

    setenv("CREDENTIALS_DIRECTORY", directory, 1);
    int r = key_load();
    unlink(path);
    return r;
}

static void key_is_one_line_without_its_end(void **state)
{
    char header[KEY_HEADER_MAX], text[] = "told e2b_secret0 and e2b_secret0";

    assert_int_equal(load_key("e2b_secret0\r\n"), 0);
    key_header(header);
    assert_string_equal(header, "X-API-Key: e2b_secret0");
    key_scrub(text, strlen(text));
    assert_string_equal(text, "told *********** and ***********");
    key_forget();
    assert_false(key_is_known());
    key_header(header);
    assert_string_equal(header, "X-API-Key: ");
}

static void what_would_break_a_header_is_no_key(void **state)
{
    static const char *const texts[] = { "", "short", "e2b_secret\nX-Other: y", "e2b secret00",
                                         "e2b_secret\x80\x81" };
    char large[KEY_MAX + 2];

    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        assert_int_equal(load_key(texts[i]), -EBADMSG);
        assert_false(key_is_known());
    }
    memset(large, 'a', sizeof(large));
    large[sizeof(large) - 1] = '\0';
    assert_int_equal(load_key(large), -EBADMSG);
}

static void no_credential_is_no_key(void **state)
{
    setenv("CREDENTIALS_DIRECTORY", directory, 1);
    assert_int_equal(key_load(), -ENOENT);
    unsetenv("CREDENTIALS_DIRECTORY");
    assert_int_equal(key_load(), -ENOENT);
    assert_false(key_is_known());
}

static int make_directory(void **state)
{
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_file_it_is_e2bs_own_cloud),
        cmocka_unit_test(domain_of_ones_own_leads_to_its_api),
        cmocka_unit_test(url_loses_its_last_slash),
        cmocka_unit_test(what_cannot_be_meant_is_refused),
        cmocka_unit_test(key_is_one_line_without_its_end),
        cmocka_unit_test(what_would_break_a_header_is_no_key),
        cmocka_unit_test(no_credential_is_no_key),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
