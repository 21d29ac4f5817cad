/* What can be asked for by --with, and what cannot (helper/broker/package.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "broker/package-installer.h"
#include "broker/package.h"
#include "common/cleanup.h"

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

struct expected {
    const char *text, *normal;
};

static void assert_normal(enum ecosystem ecosystem, const struct expected *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char reason[PACKAGE_REASON_MAX] = "";
        struct package p, again;

        if (package_parse(ecosystem, cases[i].text, &p, reason) < 0)
            fail_msg("'%s' is refused: %s", cases[i].text, reason);
        assert_string_equal(p.text, cases[i].normal);
        assert_int_equal(package_parse(ecosystem, p.text, &again, reason), 0);
        assert_string_equal(again.text, p.text);
        assert_string_equal(again.name, p.name);
        package_release(&p);
    }
}

static void assert_refused(enum ecosystem ecosystem, const struct expected *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char reason[PACKAGE_REASON_MAX] = "";
        struct package p;

        if (package_parse(ecosystem, cases[i].text, &p, reason) != -EINVAL)
            fail_msg("'%s' is not refused", cases[i].text);
        if (!strstr(reason, cases[i].normal))
            fail_msg("'%s': \"%s\" does not say \"%s\"", cases[i].text, reason, cases[i].normal);
    }
}

static void python_requirements_have_one_spelling(void **state)
{
    static const struct expected cases[] = {
        { "numpy", "numpy" },
        { "  NumPy\t", "numpy" },
        { "Foo._-Bar", "foo-bar" },
        { "pandas<3", "pandas<3" },
        { "pandas < 3 , >= 2.1", "pandas<3,>=2.1" },
        { "pandas>=2.1,<3,<3", "pandas<3,>=2.1" },
        { "requests [Socks, use_chardet,socks] ~= 2.8", "requests[socks,use-chardet]~=2.8" },
        { "a==1.*", "a==1.*" },
        { "a!=1.0.*,==1!2.0rc1+local.7", "a!=1.0.*,==1!2.0rc1+local.7" },
        { "a>1.0-1", "a>1.0-1" },
    };

    assert_normal(ECOSYSTEM_PYTHON, cases, ELEMENTS(cases));
}

static void what_is_no_python_requirement_is_refused_with_a_reason(void **state)
{
    static const struct expected cases[] = {
        { "", "empty" },
        { "foo.tgz", "not from a path" },
        { "foo==1.zip", "not from a path" },
        { "foo==1.WHL --hash=sha256:" HASH_A, "not written as" },
        { "foo==1.tar.gz,<2", "not written as" },
        { "   ", "empty" },
        { "-r requirements.txt", "option" },
        { "--index-url=http://evil.example/", "option" },
        { "numpy --index-url=http://evil.example/", "address" },
        { "numpy --pre", "NAME" },
        { "numpy --hash=md5:0123", "sha256" },
        { "numpy --hash=sha256:" HASH_A "0", "sha256" },
        { "numpy==1--hash=sha256:" HASH_A, "sha256" },
        { "numpy --hash=sha256:" HASH_A "--hash=sha256:" HASH_B, "sha256" },
        { "https://example.org/x.whl", "address" },
        { "x @ https://example.org/x.whl", "address" },
        { "x @ file:///etc/passwd", "address" },
        { "git+ssh://example.org/x", "address" },
        { "./x.whl", "path" },
        { "/x.whl", "path" },
        { "../x", "path" },
        { "x; python_version < '3'", "markers" },
        { "a b", "NAME" },
        { "a\nb", "NAME" },
        { "a\n--pre", "NAME" },
        { "-", "option" },
        { "a-", "NAME" },
        { "_a", "NAME" },
        { "a[", "NAME" },
        { "a[b", "NAME" },
        { "a[]", "NAME" },
        { "a[b,]", "NAME" },
        { "a==", "NAME" },
        { "a===1", "NAME" },
        { "a=1", "NAME" },
        { "a>=1.*", "NAME" },
        { "a==1*", "NAME" },
        { "a==*", "NAME" },
        { "a==1,", "NAME" },
        { "a==1 2", "NAME" },
        { "a(==1)", "NAME" },
        { "a==$(id)", "NAME" },
        { "gr\xc3\xb6\xc3\x9f"
          "e",
          "NAME" },
    };

    assert_refused(ECOSYSTEM_PYTHON, cases, ELEMENTS(cases));
}

static void hashes_are_sorted_and_each_is_there_once(void **state)
{
    char reason[PACKAGE_REASON_MAX];
    struct package p;

    assert_int_equal(package_parse(ECOSYSTEM_PYTHON,
                                   "a==1 --hash=sha256:" HASH_B "  --hash=sha256:" HASH_A
                                   " --hash=sha256:" HASH_B " ",
                                   &p, reason),
                     0);
    assert_string_equal(p.text, "a==1");
    assert_int_equal(p.n_hashes, 2);
    assert_string_equal(p.hashes[0], HASH_A);
    assert_string_equal(p.hashes[1], HASH_B);
    package_release(&p);
}

static void too_much_is_refused(void **state)
{
    char reason[PACKAGE_REASON_MAX], text[(PACKAGE_HASHES_MAX + 1) * 100] = "a";
    struct package p;

    memset(text, 'a', PACKAGE_NAME_MAX);
    assert_int_equal(package_parse(ECOSYSTEM_PYTHON, text, &p, reason), 0);
    assert_int_equal(package_parse(ECOSYSTEM_NODE, text, &p, reason), 0);
    text[PACKAGE_NAME_MAX] = 'a';
    assert_int_equal(package_parse(ECOSYSTEM_PYTHON, text, &p, reason), -EINVAL);
    assert_int_equal(package_parse(ECOSYSTEM_NODE, text, &p, reason), -EINVAL);

    char *at = stpcpy(text, "a");
    for (int i = 0; i < PACKAGE_HASHES_MAX; i++)
        at = stpcpy(at, " --hash=sha256:" HASH_A);
    assert_int_equal(package_parse(ECOSYSTEM_PYTHON, text, &p, reason), 0);
    package_release(&p);
    stpcpy(at, " --hash=sha256:" HASH_A);
    assert_int_equal(package_parse(ECOSYSTEM_PYTHON, text, &p, reason), -EINVAL);

    at = stpcpy(text, "a");
    for (int i = 0; i < 17; i++)
        at = stpcpy(at, i == 0 ? ">1" : ",>1");
    assert_int_equal(package_parse(ECOSYSTEM_PYTHON, text, &p, reason), -EINVAL);
    at = stpcpy(text, "a>1");
    memset(at, '0', 400);
    strcpy(at + 400, "");
    assert_int_equal(package_parse(ECOSYSTEM_PYTHON, text, &p, reason), -EINVAL);
}

static void node_requirements_have_one_spelling(void **state)
{
    static const struct expected cases[] = {
        { "lodash", "lodash" },
        { " lodash ", "lodash" },
        { "lodash@4", "lodash@4" },
        { "lodash@^4.17.0", "lodash@^4.17.0" },
        { "lodash@>=1.2   <2", "lodash@>=1.2 <2" },
        { "lodash@1||2", "lodash@1 || 2" },
        { "lodash@1  ||  ~2.x", "lodash@1 || ~2.x" },
        { "lodash@1 - 2", "lodash@1 - 2" },
        { "lodash@1.2.3-rc.1+b.2", "lodash@1.2.3-rc.1+b.2" },
        { "lodash@*", "lodash@*" },
        { "lodash@latest", "lodash@latest" },
        { "@types/node@20", "@types/node@20" },
        { "@a.b/c_d~e", "@a.b/c_d~e" },
    };

    assert_normal(ECOSYSTEM_NODE, cases, ELEMENTS(cases));
}

static void what_is_no_node_requirement_is_refused_with_a_reason(void **state)
{
    static const struct expected cases[] = {
        { "", "empty" },
        { "foo.tgz", "not from a path" },
        { "foo.tar.gz@1", "not written as" },
        { "foo@1.0.0-rc.tar", "not from a path" },
        { "--registry=x", "option" },
        { "-g", "option" },
        { "https://example.org/x.tgz", "address" },
        { "./x", "path" },
        { "../x", "path" },
        { "~/x", "path" },
        { "x@file:../y", "address" },
        { "x@git+ssh://h/y", "address" },
        { "x@npm:y@1", "NAME" },
        { "x@user/repo", "NAME" },
        { "user/repo", "NAME" },
        { "x@.", "NAME" },
        { "x@..", "NAME" },
        { "x@1.tgz", "path" },
        { "x@1.2.3-a.tgz", "path" },
        { "x@1.2.3-a.tar.gz", "path" },
        { "x@", "NAME" },
        { "x@1.2.3.4", "NAME" },
        { "x@^", "NAME" },
        { "x@1 ||", "NAME" },
        { "x@|| 1", "NAME" },
        { "x@1 --pre", "NAME" },
        { "x y", "NAME" },
        { "X", "NAME" },
        { "_x", "NAME" },
        { "@x", "NAME" },
        { "@x/", "NAME" },
        { "@/x", "NAME" },
        { "@x/../y", "NAME" },
        { "@../x", "NAME" },
        { "node_modules", "NAME" },
        { "x;id", "NAME" },
    };

    assert_refused(ECOSYSTEM_NODE, cases, ELEMENTS(cases));
}

static void patterns_of_lists_are_names_in_any_spelling(void **state)
{
    assert_true(package_matches(ECOSYSTEM_PYTHON, "*", "a"));
    assert_true(package_matches(ECOSYSTEM_PYTHON, "Foo_Bar", "foo-bar"));
    assert_false(package_matches(ECOSYSTEM_PYTHON, "foo", "foo-bar"));
    assert_false(package_matches(ECOSYSTEM_PYTHON, "f*", "foo"));
    assert_false(package_matches(ECOSYSTEM_PYTHON, "@a/*", "a"));
    assert_true(package_matches(ECOSYSTEM_NODE, "@a/*", "@a/b"));
    assert_false(package_matches(ECOSYSTEM_NODE, "@a/*", "@ab/c"));
    assert_false(package_matches(ECOSYSTEM_NODE, "@a/*", "a"));
    assert_true(package_matches(ECOSYSTEM_NODE, "@a/b", "@a/b"));
    assert_false(package_matches(ECOSYSTEM_NODE, "a_b", "a-b"));
}

static void denied_wins_and_what_is_not_allowed_has_no_rule(void **state)
{
    char any[] = "*", evil[] = "Evil", numpy[] = "numpy";
    char *all[] = { any, NULL }, *none[] = { NULL }, *bad[] = { evil, NULL };
    char *few[] = { numpy, NULL };
    const char *rule;

    assert_true(package_is_allowed(ECOSYSTEM_PYTHON, all, none, "numpy", &rule));
    assert_false(package_is_allowed(ECOSYSTEM_PYTHON, all, bad, "evil", &rule));
    assert_string_equal(rule, "Evil");
    assert_true(package_is_allowed(ECOSYSTEM_PYTHON, few, bad, "numpy", &rule));
    assert_false(package_is_allowed(ECOSYSTEM_PYTHON, few, bad, "pandas", &rule));
    assert_null(rule);
    assert_false(package_is_allowed(ECOSYSTEM_PYTHON, none, none, "numpy", &rule));
}

static void installers_are_embedded_whole(void **state)
{
    static char file[1 << 17];
    char path[256];

    for (enum ecosystem e = ECOSYSTEM_PYTHON; e <= ECOSYSTEM_NODE; e++) {
        const struct package_installer *installer = package_installer(e);

        snprintf(path, sizeof(path), SBXCTL_PACKAGES "/%s", installer->name);
        FILE *f = fopen(path, "re");
        assert_non_null(f);
        size_t n = fread(file, 1, sizeof(file), f);
        fclose(f);
        assert_int_equal(installer->size, n);
        assert_memory_equal(installer->text, file, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_requirements_have_one_spelling),
        cmocka_unit_test(what_is_no_python_requirement_is_refused_with_a_reason),
        cmocka_unit_test(hashes_are_sorted_and_each_is_there_once),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(node_requirements_have_one_spelling),
        cmocka_unit_test(what_is_no_node_requirement_is_refused_with_a_reason),
        cmocka_unit_test(patterns_of_lists_are_names_in_any_spelling),
        cmocka_unit_test(installers_are_embedded_whole),
        cmocka_unit_test(denied_wins_and_what_is_not_allowed_has_no_rule),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
