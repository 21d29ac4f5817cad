/* Archives of the real tar, with everything that names and files may be, read in pieces of any
 * size; and what is no archive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/cleanup.h"
#include "engine/e2b/tar.h"

#define TAR "tar -c -f - --format=gnu --sparse --hard-dereference --no-recursion --sort=name "

/* What was read, as a line per entry. */
struct heard {
    char text[8192];
    uint64_t bytes;
    bool done;
};

static void note(struct heard *heard, const char *text, const char *more)
{
    size_t used = strlen(heard->text);

    snprintf(heard->text + used, sizeof(heard->text) - used, "%s%s", text, more);
}

static int on_entry(const struct tar_entry *entry, void *userdata)
{
    static const char *const types[] = { "file ", "directory ", "link ", "fifo ", "other " };
    struct heard *heard = userdata;
    char size[64];

    note(heard, types[entry->type], entry->name);
    if (entry->type == TAR_SYMLINK)
        note(heard, " to ", entry->target);
    if (entry->type == TAR_FILE) {
        snprintf(size, sizeof(size), "%o %llu", entry->mode, (unsigned long long)entry->size);
        note(heard, " ", size);
    }
    heard->bytes = 0;
    return 0;
}

static int on_data(const char *data, size_t size, uint64_t offset, void *userdata)
{
    struct heard *heard = userdata;
    char piece[64];

    if (heard->bytes == 0) {
        snprintf(piece, sizeof(piece), "@%llu:%.1s", (unsigned long long)offset, data);
        note(heard, " ", piece);
    }
    heard->bytes += size;
    return 0;
}

static int on_done(void *userdata)
{
    struct heard *heard = userdata;
    char size[64];

    snprintf(size, sizeof(size), " %llu\n", (unsigned long long)heard->bytes);
    note(heard, size, "");
    return 0;
}

static int feed(struct tar *tar, const char *data, size_t size, size_t piece, struct heard *heard)
{
    const struct tar_handler handler = { on_entry, on_data, on_done, heard };
    int r = 0;

    for (size_t at = 0; r >= 0 && at < size; at += piece)
        r = tar_feed(tar, data + at, size - at < piece ? size - at : piece, &handler);
    return r;
}

/* What a shell's commands write to standard output, in a directory of their own. */
static char *made_by(const char *commands, size_t *ret_size)
{
    char line[2048], *data = malloc(1 << 20);

    snprintf(line, sizeof(line), "set -e; d=$(mktemp -d); cd \"$d\"; %s; rm -rf \"$d\"", commands);
    FILE *pipe = popen(line, "re");
    assert_non_null(pipe);
    *ret_size = fread(data, 1, 1 << 20, pipe);
    assert_int_equal(pclose(pipe), 0);
    return data;
}

static void check(const char *commands, const char *expected)
{
    static const size_t pieces[] = { 1, 7, 512, 1000, 1 << 20 };
    size_t size;
    _cleanup_free_ char *data = made_by(commands, &size);

    for (size_t i = 0; i < ELEMENTS(pieces); i++) {
        struct tar tar = { 0 };
        struct heard heard = { 0 };
        assert_int_equal(feed(&tar, data, size, pieces[i], &heard), 0);
        assert_string_equal(heard.text, expected);
        assert_true(tar_is_complete(&tar));
        tar_release(&tar);
    }
}

static void entries_of_every_kind_are_told(void **state)
{
    check("umask 022; mkdir d; printf hello >a; : >b; chmod 4755 b; ln -s /etc/shadow l; mkfifo p; "
          "ln a h; " TAR "./a ./b ./d ./h ./l ./p",
          "file ./a 644 5 @0:h 5\n"
          "file ./b 4755 0 0\n"
          "directory ./d/ 0\n"
          "file ./h 644 5 @0:h 5\n"
          "link ./l to /etc/shadow 0\n"
          "fifo ./p 0\n");
}

static void long_names_are_whole(void **state)
{
    char name[201], expected[512];

    memset(name, 'n', 200);
    name[200] = '\0';
    snprintf(expected, sizeof(expected), "file ./%s 644 1 @0:x 1\nfile ./z 644 1 @0:y 1\n", name);
    check("umask 022; n=$(printf 'n%.0s' $(seq 200)); printf x >$n; printf y >z; " TAR "./$n ./z",
          expected);
}

static void holes_of_sparse_files_are_no_data(void **state)
{
    check(
        "truncate -s 1T s; printf end | dd of=s bs=1 seek=1000000000000 conv=notrunc status=none; "
        "chmod 644 s; printf x >t; chmod 644 t; " TAR "./s ./t | head -c 200000",
        "file ./s 644 1099511627776 @1000000000000:e 4096\nfile ./t 644 1 @0:x 1\n");
}

static void many_pieces_of_a_sparse_file_are_found(void **state)
{
    size_t size;
    _cleanup_free_ char *data =
        made_by("for i in $(seq 0 39); do printf x | dd of=s bs=1 seek=$((i*65536)) conv=notrunc "
                "status=none; done; truncate -s 3M s; " TAR "./s",
                &size);
    struct tar tar = { 0 };
    struct heard heard = { 0 };

    assert_int_equal(feed(&tar, data, size, 100, &heard), 0);
    assert_int_equal(tar.n_pieces >= 40, true);
    assert_true(tar_is_complete(&tar));
    tar_release(&tar);
}

static void archive_that_is_cut_is_not_complete(void **state)
{
    size_t size;
    _cleanup_free_ char *data = made_by("printf hello >a; " TAR "./a", &size);

    for (size_t cut = 0; cut <= 1024; cut += 128) {
        struct tar tar = { 0 };
        struct heard heard = { 0 };
        assert_int_equal(feed(&tar, data, cut, 512, &heard), 0);
        assert_false(tar_is_complete(&tar));
        tar_release(&tar);
    }
}

static void what_is_no_archive_is_refused(void **state)
{
    size_t size;
    _cleanup_free_ char *data = made_by("printf hello >a; " TAR "./a", &size);
    static const size_t places[] = { 0, 100, 124, 156, 257 };

    for (size_t i = 0; i < ELEMENTS(places); i++) {
        struct tar tar = { 0 };
        struct heard heard = { 0 };
        data[places[i]] ^= 1;
        assert_int_equal(feed(&tar, data, size, 512, &heard), -EBADMSG);
        data[places[i]] ^= 1;
        tar_release(&tar);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_of_every_kind_are_told),
        cmocka_unit_test(long_names_are_whole),
        cmocka_unit_test(holes_of_sparse_files_are_no_data),
        cmocka_unit_test(many_pieces_of_a_sparse_file_are_found),
        cmocka_unit_test(archive_that_is_cut_is_not_complete),
        cmocka_unit_test(what_is_no_archive_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
