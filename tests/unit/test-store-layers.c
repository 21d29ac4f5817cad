/* Layers of packages in the store (helper/broker/store-layer.h): what becomes of a tree that
 * foreign code wrote, and that a crash leaves no half one. */
#include "store-broker.h"
#include "broker/store-layer.h"

#include <sys/sysmacros.h>
#include <sys/un.h>

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_KEY "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

/* A workspace with an empty folder "packages", which is returned. */
static int make_packages(struct fixture *f)
{
    make_directory_at(f->scratch.workspace, "packages");
    return open_directory_at(f->scratch.workspace, "packages");
}

static struct store_layer layer_of(struct fixture *f, const char *key)
{
    return (struct store_layer){ .uid = f->uid,
                                 .key = key,
                                 .workspace = f->scratch.workspace,
                                 .folder = "packages",
                                 .files_max = 100,
                                 .bytes_max = 1024 * 1024 };
}

/* Installs it with facts, and the result in @ret if that is not NULL. */
static int try_install(struct fixture *f, struct store_layer layer, json_object **ret)
{
    struct outcome o = { 0 };
    json_object *facts = json_object_new_object();
    json_object *resolved = json_object_new_array();

    json_add_string(facts, "imageDigest", "sha256:0");
    json_object_array_add(resolved, json_object_new_string("numpy"));
    json_add(facts, "resolved", resolved);
    layer.facts = facts;
    int r = finish(f, store_layer_install(f->store, &layer, on_done, &o, &f->job), &o);
    if (ret)
        *ret = json_object_get(o.result);
    outcome_release(&o);
    json_object_put(facts);
    return r;
}

static void install(struct fixture *f, const char *key)
{
    assert_int_equal(try_install(f, layer_of(f, key), NULL), 0);
}

static int open_layer(struct fixture *f, const char *key)
{
    char path[128];

    snprintf(path, sizeof(path), "layers/%u/%s", (unsigned)f->uid, key);
    return open_directory_at(f->state, path);
}

static bool has_layer(struct fixture *f, const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "layers/%u/%s", (unsigned)f->uid, name);
    return exists_at(f->state, path);
}

static uint64_t number_of(json_object *object, const char *key)
{
    return json_object_get_uint64(json_object_object_get(object, key));
}

/* The result of a load or a list, to be put. */
static json_object *load(struct fixture *f)
{
    struct outcome o = { 0 };

    assert_int_equal(finish(f, store_layer_load(f->store, on_done, &o, &f->job), &o), 0);
    return o.result;
}

static json_object *list(struct fixture *f, uid_t uid)
{
    struct outcome o = { 0 };

    assert_int_equal(finish(f, store_layer_list(f->store, uid, on_done, &o, &f->job), &o), 0);
    return o.result;
}

static int use(struct fixture *f, uid_t uid, const char *key, json_object **ret)
{
    return layer_use(f->state, uid, key, ret);
}

static int remove_layer(struct fixture *f, uid_t uid, const char *key)
{
    struct outcome o = { 0 };
    int r = finish(f, store_layer_remove(f->store, uid, key, on_done, &o, &f->job), &o);

    outcome_release(&o);
    return r;
}

/* ---- what becomes of the files */

static void layer_can_be_read_by_all_but_reached_by_nobody(void **state)
{
    struct fixture *f = *state;
    int packages = make_packages(f);
    static const struct {
        const char *name;
        mode_t made, kept;
    } files[] = {
        { "plain", 0600, 0644 }, { "tool", 0700, 0755 },   { "setuid", 06755, 0755 },
        { "open", 0666, 0644 },  { "closed", 0000, 0644 },
    };

    make_directory_at(packages, "folder");
    write_file_at(packages, "folder/module.py", "x = 1\n");
    for (size_t i = 0; i < ELEMENTS(files); i++) {
        write_file_at(packages, files[i].name, "x");
        assert_int_equal(fchmodat(packages, files[i].name, files[i].made, 0), 0);
        if (!is_root() && files[i].made == 0)
            assert_int_equal(fchmodat(packages, files[i].name, 0400, 0), 0);
    }
    assert_int_equal(fchmodat(packages, "folder", is_root() ? 03000 : 03700, 0), 0);
    install(f, KEY);

    int layer = open_layer(f, KEY);
    for (size_t i = 0; i < ELEMENTS(files); i++) {
        char path[64];
        snprintf(path, sizeof(path), "tree/%s", files[i].name);
        assert_int_equal(stat_at(layer, path).st_mode & 07777, files[i].kept);
        assert_int_equal(stat_at(layer, path).st_uid, geteuid());
    }
    assert_string_equal(file_at(layer, "tree/folder/module.py"), "x = 1\n");
    assert_int_equal(stat_at(layer, "tree/folder").st_mode & 07777, 0755);
    assert_int_equal(stat_at(layer, "tree").st_mode & 07777, 0755);
    assert_int_equal(stat_at(layer, ".").st_mode & 07777, 0700);
    assert_int_equal(stat_at(layer, "..").st_mode & 07777, 0700);
    assert_int_equal(stat_at(f->state, "layers").st_mode & 07777, 0700);
    close(layer);
    close(packages);
}

static void links_and_what_is_no_file_are_left_out_and_block_nothing(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int packages = make_packages(f), sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    json_object *result;

    write_file_at(packages, "file", "x");
    assert_int_equal(symlinkat("/etc/shadow", packages, "shadow"), 0);
    assert_int_equal(symlinkat("../../outside", packages, "folder"), 0);
    assert_int_equal(symlinkat("loop", packages, "loop"), 0);
    assert_int_equal(mkfifoat(packages, "fifo", 0644), 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/workspace/packages/socket",
             f->scratch.path);
    assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof(address)), 0);
    if (is_root())
        assert_int_equal(mknodat(packages, "disk", S_IFBLK | 0666, makedev(8, 0)), 0);
    assert_int_equal(linkat(packages, "file", packages, "hard", 0), 0);
    assert_int_equal(try_install(f, layer_of(f, KEY), &result), 0);

    int layer = open_layer(f, KEY);
    static const char *const left_out[] = { "tree/shadow", "tree/folder", "tree/loop",
                                            "tree/fifo",   "tree/socket", "tree/disk" };
    for (size_t i = 0; i < ELEMENTS(left_out); i++)
        assert_false(exists_at(layer, left_out[i]));
    assert_int_equal(stat_at(layer, "tree/hard").st_nlink, 1);
    assert_int_equal(number_of(result, "skipped"), is_root() ? 6 : 5);
    assert_int_equal(number_of(result, "files"), 2);
    assert_int_equal(number_of(result, "bytes"), 2);
    json_object_put(result);
    close(layer);
    close(sock);
    close(packages);
}

static void folder_that_is_a_link_is_no_source(void **state)
{
    struct fixture *f = *state;
    struct store_layer layer = layer_of(f, KEY);

    assert_int_equal(try_install(f, layer, NULL), -ENOENT);
    assert_int_equal(symlinkat("../outside", f->scratch.workspace, "packages"), 0);
    int r = try_install(f, layer, NULL);
    assert_true(r == -ELOOP || r == -ENOTDIR);
    static const char *const folders[] = { "..", "../outside", ".", "", "/", "a/b" };
    make_directory_at(f->scratch.workspace, "a");
    make_directory_at(f->scratch.workspace, "a/b");
    for (size_t i = 0; i < ELEMENTS(folders); i++) {
        layer.folder = folders[i];
        if (try_install(f, layer, NULL) != -EINVAL)
            fail_msg("'%s' is taken", folders[i]);
    }
    assert_false(has_layer(f, KEY));
}

static void bytecode_stays_valid_because_times_are_kept(void **state)
{
    struct fixture *f = *state;
    const struct timespec times[2] = { { 1000, 0 }, { 2000, 123456789 } };
    int packages = make_packages(f);

    write_file_at(packages, "module.py", "x");
    assert_int_equal(utimensat(packages, "module.py", times, 0), 0);
    install(f, KEY);
    int layer = open_layer(f, KEY);
    assert_int_equal(stat_at(layer, "tree/module.py").st_mtim.tv_sec, 2000);
    assert_int_equal(stat_at(layer, "tree/module.py").st_mtim.tv_nsec, 123456789);
    close(layer);
    close(packages);
}

static void odd_names_are_kept_by_byte(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = { "-rf", "two\nlines", "\xff\xfe", "back\\slash", "..." };
    int packages = make_packages(f);

    for (size_t i = 0; i < ELEMENTS(names); i++)
        write_file_at(packages, names[i], names[i]);
    install(f, KEY);
    int layer = open_layer(f, KEY), tree = open_directory_at(layer, "tree");
    for (size_t i = 0; i < ELEMENTS(names); i++)
        assert_string_equal(file_at(tree, names[i]), names[i]);
    close(tree);
    close(layer);
    close(packages);
}

/* ---- limits */

static void assert_too_large(struct fixture *f, struct store_layer layer, const char *part)
{
    json_object *result;

    assert_int_equal(try_install(f, layer, &result), -EFBIG);
    const char *reason = json_get_string(result, "reason");
    assert_non_null(reason);
    if (!strstr(reason, part))
        fail_msg("\"%s\" does not say \"%s\"", reason, part);
    json_object_put(result);
    assert_false(has_layer(f, layer.key));
    assert_false(has_layer(f, KEY ".new"));
}

static void what_breaks_a_limit_is_told_and_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct store_layer layer = layer_of(f, KEY);
    int packages = make_packages(f);

    make_directory_at(packages, "folder");
    write_file_at(packages, "folder/a", "12345");
    write_file_at(packages, "b", "12345");
    layer.bytes_max = 9;
    assert_too_large(f, layer, "9 bytes");
    layer.bytes_max = 10;
    layer.files_max = 2;
    assert_too_large(f, layer, "2 files");
    layer.files_max = 3;
    assert_int_equal(try_install(f, layer, NULL), 0);

    /* Holes count: a terabyte of nothing is a terabyte. */
    int fd = openat(packages, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(ftruncate(fd, 1LL << 32), 0);
    close(fd);
    layer = layer_of(f, OTHER_KEY);
    assert_too_large(f, layer, "bytes");
    close(packages);
}

static void tree_that_is_too_deep_is_refused(void **state)
{
    struct fixture *f = *state;
    struct store_layer layer = layer_of(f, KEY);
    int fd = make_packages(f);

    for (int i = 0; i <= LAYER_DEPTH_MAX; i++) {
        make_directory_at(fd, "d");
        int next = open_directory_at(fd, "d");
        close(fd);
        fd = next;
    }
    close(fd);
    layer.files_max = 1000;
    assert_too_large(f, layer, "64 folders");
}

/* ---- layers that are there */

static void used_layer_tells_what_it_is(void **state)
{
    struct fixture *f = *state;
    const struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
    int packages = make_packages(f);
    json_object *facts;

    write_file_at(packages, "file", "abc");
    install(f, KEY);
    int layer = open_layer(f, KEY);
    assert_int_equal(utimensat(layer, "layer.json", old, 0), 0);
    close(layer);
    assert_int_equal(use(f, f->uid, KEY, &facts), 0);
    assert_string_equal(json_get_string(facts, "key"), KEY);
    assert_string_equal(json_get_string(facts, "imageDigest"), "sha256:0");
    assert_int_equal(json_object_array_length(json_object_object_get(facts, "resolved")), 1);
    assert_int_equal(number_of(facts, "bytes"), 3);
    assert_int_equal(number_of(facts, "files"), 1);
    assert_true(number_of(facts, "createdUSec") > 1600000000000000);
    assert_true(number_of(facts, "usedUSec") > 1600000000000000);
    json_object_put(facts);
    close(packages);
}

static void layer_of_somebody_else_is_not_there(void **state)
{
    struct fixture *f = *state;
    json_object *ignored;

    close(make_packages(f));
    install(f, KEY);
    assert_int_equal(use(f, f->uid + 1, KEY, &ignored), -ENOENT);
    assert_int_equal(remove_layer(f, f->uid + 1, KEY), -ENOENT);
    json_object *mine = list(f, f->uid), *theirs = list(f, f->uid + 1);
    assert_int_equal(count_of(mine, "layers"), 1);
    assert_int_equal(count_of(theirs, "layers"), 0);
    json_object *entry = json_object_array_get_idx(json_object_object_get(mine, "layers"), 0);
    assert_string_equal(json_get_string(entry, "imageDigest"), "sha256:0");
    assert_false(json_object_object_get_ex(entry, "resolved", NULL));
    json_object_put(mine);
    json_object_put(theirs);
}

static void keys_that_lead_elsewhere_are_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const keys[] = { "",
                                        ".",
                                        "..",
                                        "../../users",
                                        "0123",
                                        KEY "0",
                                        ("0123456789ABCDEF0123456789abcdef0123456789abcdef012345678"
                                         "9abcdef") };
    json_object *ignored;

    close(make_packages(f));
    install(f, KEY);
    for (size_t i = 0; i < ELEMENTS(keys); i++) {
        assert_int_equal(try_install(f, layer_of(f, keys[i]), NULL), -EINVAL);
        assert_int_equal(use(f, f->uid, keys[i], &ignored), -EINVAL);
        assert_int_equal(remove_layer(f, f->uid, keys[i]), -EINVAL);
    }
    assert_true(has_layer(f, KEY));
}

static void layer_is_made_once_and_gone_when_removed(void **state)
{
    struct fixture *f = *state;
    int packages = make_packages(f);

    write_file_at(packages, "file", "first");
    install(f, KEY);
    write_file_at(packages, "file", "second");
    assert_int_equal(try_install(f, layer_of(f, KEY), NULL), -EEXIST);
    int layer = open_layer(f, KEY);
    assert_string_equal(file_at(layer, "tree/file"), "first");
    close(layer);
    assert_int_equal(remove_layer(f, f->uid, KEY), 0);
    assert_false(has_layer(f, KEY));
    assert_false(has_layer(f, KEY ".old"));
    assert_int_equal(remove_layer(f, f->uid, KEY), -ENOENT);
    install(f, KEY);
    close(packages);
}

/* ---- crashes */

static void what_crashes_left_is_swept_and_layers_stay(void **state)
{
    struct fixture *f = *state;
    static const char *const left[] = { KEY ".new", KEY ".old", OTHER_KEY, "odd" };
    int packages = make_packages(f);
    char path[256];

    write_file_at(packages, "file", "abc");
    install(f, KEY);
    for (size_t i = 0; i < ELEMENTS(left); i++) {
        snprintf(path, sizeof(path), "layers/%u/%s", (unsigned)f->uid, left[i]);
        make_directory_at(f->state, path);
        strcat(path, "/tree");
        make_directory_at(f->state, path);
    }
    write_file_at(f->state, "layers/notes", "x");
    make_directory_at(f->state, "layers/4294967295");
    make_directory_at(f->state, "layers/7x");

    json_object *loaded = load(f);
    assert_int_equal(count_of(loaded, "layers"), 1);
    assert_int_equal(number_of(loaded, "removed"), ELEMENTS(left));
    assert_int_equal(number_of(loaded, "more"), 0);
    json_object *entry = json_object_array_get_idx(json_object_object_get(loaded, "layers"), 0);
    assert_string_equal(json_get_string(entry, "key"), KEY);
    assert_int_equal(number_of(entry, "uid"), f->uid);
    assert_int_equal(number_of(entry, "bytes"), 3);
    assert_false(json_object_object_get_ex(entry, "imageDigest", NULL));
    for (size_t i = 0; i < ELEMENTS(left); i++)
        assert_false(has_layer(f, left[i]));
    json_object_put(loaded);
    close(packages);
}

static void broken_facts_are_no_layer(void **state)
{
    struct fixture *f = *state;
    static const char *const broken[] = { "", "{", "[]", "{}", "{\"key\":\"" OTHER_KEY "\"}" };
    json_object *ignored;

    close(make_packages(f));
    for (size_t i = 0; i < ELEMENTS(broken); i++) {
        install(f, KEY);
        int layer = open_layer(f, KEY);
        write_file_at(layer, "layer.json", broken[i]);
        close(layer);
        if (i < 3)
            assert_int_equal(use(f, f->uid, KEY, &ignored), -EBADMSG);
        json_object *loaded = load(f);
        assert_int_equal(number_of(loaded, "removed"), 1);
        assert_false(has_layer(f, KEY));
        json_object_put(loaded);
    }
}

static void half_made_one_is_made_anew(void **state)
{
    struct fixture *f = *state;
    char path[256];

    close(make_packages(f));
    install(f, OTHER_KEY);
    snprintf(path, sizeof(path), "layers/%u/" KEY ".new", (unsigned)f->uid);
    make_directory_at(f->state, path);
    strcat(path, "/tree");
    make_directory_at(f->state, path);
    strcat(path, "/leftover");
    write_file_at(f->state, path, "x");
    install(f, KEY);
    int layer = open_layer(f, KEY);
    assert_false(exists_at(layer, "tree/leftover"));
    close(layer);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(layer_can_be_read_by_all_but_reached_by_nobody),
        T(links_and_what_is_no_file_are_left_out_and_block_nothing),
        T(folder_that_is_a_link_is_no_source),
        T(bytecode_stays_valid_because_times_are_kept),
        T(odd_names_are_kept_by_byte),
        T(what_breaks_a_limit_is_told_and_leaves_nothing),
        T(tree_that_is_too_deep_is_refused),
        T(used_layer_tells_what_it_is),
        T(layer_of_somebody_else_is_not_there),
        T(keys_that_lead_elsewhere_are_refused),
        T(layer_is_made_once_and_gone_when_removed),
        T(what_crashes_left_is_swept_and_layers_stay),
        T(broken_facts_are_no_layer),
        T(half_made_one_is_made_anew),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
