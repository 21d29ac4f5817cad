/* The reader, see tar.h. The format: "Basic Tar Format" and "Storing Sparse Files" (old GNU format)
 * in the manual of GNU tar. */
#include "tar.h"

#include <string.h>

#include "common/cleanup.h"

/* A header's fields: where they begin, and their size. */
#define NAME 0, 100
#define MODE 100, 8
#define SIZE 124, 12
#define CHECKSUM 148, 8
#define TYPE 156
#define TARGET 157, 100
#define MAGIC 257
#define PIECES 386
#define IS_EXTENDED 482
#define REAL_SIZE 483, 12
#define HEADER_PIECES 4
#define BLOCK_PIECES 21
#define BLOCK_IS_EXTENDED 504

void tar_release(struct tar *tar)
{
    free(tar->pieces);
    *tar = (struct tar){ 0 };
}

bool tar_is_complete(const struct tar *tar)
{
    return tar->state == TAR_AT_END;
}

/* Octal digits, or a big-endian number behind a byte 0x80. */
static bool get_number(const char *block, size_t at, size_t size, uint64_t *ret)
{
    const unsigned char *p = (const unsigned char *)block + at, *end = p + size;
    uint64_t n = 0;

    if (*p == 0x80) {
        for (p++; p < end; n = n << 8 | *p++)
            if (n >> 55)
                return false;
        *ret = n;
        return true;
    }
    while (p < end && *p == ' ')
        p++;
    for (; p < end && *p >= '0' && *p <= '7'; n = n << 3 | (uint64_t)(*p++ - '0'))
        if (n >> 60)
            return false;
    *ret = n;
    return p == end || *p == '\0' || *p == ' ';
}

static void get_text(const char *block, size_t at, size_t size, char *ret)
{
    size_t length = strnlen(block + at, size);

    memcpy(ret, block + at, length);
    ret[length] = '\0';
}

/* The sum of all bytes, with spaces in the place of itself. */
static bool checksum_is_right(const char *block)
{
    uint64_t told, sum = 8 * ' ';

    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (i < 148 || i >= 156)
            sum += (unsigned char)block[i];
    return get_number(block, CHECKSUM, &told) && told == sum;
}

static bool is_zero(const char *block)
{
    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (block[i] != '\0')
            return false;
    return true;
}

/* ---- sparse files */

static int add_pieces(struct tar *tar, const char *table, size_t n)
{
    if (tar->n_pieces + n > TAR_PIECES_MAX)
        return -EMSGSIZE;
    struct tar_piece *more = realloc(tar->pieces, (tar->n_pieces + n) * sizeof(*more));
    if (!more)
        return -ENOMEM;
    tar->pieces = more;
    for (size_t i = 0; i < n; i++, table += 24) {
        struct tar_piece piece;
        if (table[0] == '\0')
            break;
        if (!get_number(table, 0, 12, &piece.offset) || !get_number(table, 12, 12, &piece.size) ||
            piece.offset > INT64_MAX || piece.size > INT64_MAX - piece.offset)
            return -EBADMSG;
        tar->pieces[tar->n_pieces++] = piece;
    }
    return 0;
}

/* What is in the archive is what the pieces have. */
static bool pieces_fit(const struct tar *tar)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < tar->n_pieces; i++) {
        if (tar->pieces[i].offset + tar->pieces[i].size > tar->entry.size ||
            tar->pieces[i].size > tar->left - sum)
            return false;
        sum += tar->pieces[i].size;
    }
    return sum == tar->left;
}

static int add_whole(struct tar *tar)
{
    tar->pieces = malloc(sizeof(*tar->pieces));
    if (!tar->pieces)
        return -ENOMEM;
    tar->pieces[0] = (struct tar_piece){ 0, tar->left };
    tar->n_pieces = 1;
    return 0;
}

/* ---- entries */

static int begin_data(struct tar *tar, const struct tar_handler *handler)
{
    int r = 0;

    tar->state = TAR_AT_DATA;
    tar->padding = (TAR_BLOCK - tar->left % TAR_BLOCK) % TAR_BLOCK;
    tar->piece = 0;
    tar->piece_done = 0;
    if (tar->in_file) {
        r = tar->entry.type == TAR_FILE && !pieces_fit(tar) ? -EBADMSG : 0;
        r = r < 0 ? r : handler->entry(&tar->entry, handler->userdata);
    }
    if (r >= 0 && tar->left == 0) {
        tar->state = TAR_AT_HEADER;
        r = tar->in_file ? handler->done(handler->userdata) : 0;
    }
    return r;
}

static enum tar_type entry_type(char c)
{
    switch (c) {
    case '\0':
    case '0':
    case '7':
    case 'S':
        return TAR_FILE;
    case '2':
        return TAR_SYMLINK;
    case '5':
        return TAR_DIRECTORY;
    case '6':
        return TAR_FIFO;
    default:
        return TAR_OTHER;
    }
}

/* A long name stands in front of the entry that has it, as the content of one of its own. */
static int begin_long(struct tar *tar, bool is_name)
{
    if (tar->left > TAR_NAME_MAX)
        return -EMSGSIZE;
    tar->padding = (TAR_BLOCK - tar->left % TAR_BLOCK) % TAR_BLOCK;
    tar->long_size = 0;
    tar->in_file = false;
    tar->have_long = tar->have_long || is_name;
    tar->state = tar->left == 0 ? TAR_AT_HEADER : is_name ? TAR_AT_LONG_NAME : TAR_AT_DATA;
    return 0;
}

static void name_entry(struct tar *tar)
{
    if (tar->have_long)
        strcpy(tar->name, tar->long_name);
    else
        get_text(tar->block, NAME, tar->name);
    get_text(tar->block, TARGET, tar->target);
    tar->have_long = false;
}

static int begin_entry(struct tar *tar, const struct tar_handler *handler)
{
    char type = tar->block[TYPE];
    uint64_t mode, size;

    if (!get_number(tar->block, MODE, &mode) || !get_number(tar->block, SIZE, &size))
        return -EBADMSG;
    tar->left = size;
    if (type == 'L' || type == 'K')
        return begin_long(tar, type == 'L');
    name_entry(tar);
    tar->entry = (struct tar_entry){ entry_type(type), tar->name, tar->target,
                                     (mode_t)(mode & 07777), size };
    tar->in_file = true;
    tar->n_pieces = 0;
    if (tar->entry.type != TAR_FILE && type != 'S' && size > 0)
        return -EBADMSG;
    free(TAKE_PTR(tar->pieces));
    if (type != 'S') {
        int r = add_whole(tar);
        return r < 0 ? r : begin_data(tar, handler);
    }
    if (!get_number(tar->block, REAL_SIZE, &tar->entry.size))
        return -EBADMSG;
    int r = add_pieces(tar, tar->block + PIECES, HEADER_PIECES);
    if (r >= 0 && tar->block[IS_EXTENDED])
        tar->state = TAR_AT_PIECES;
    else if (r >= 0)
        r = begin_data(tar, handler);
    return r;
}

static int handle_block(struct tar *tar, const struct tar_handler *handler)
{
    if (tar->state == TAR_AT_PIECES) {
        int r = add_pieces(tar, tar->block, BLOCK_PIECES);
        return r < 0 || tar->block[BLOCK_IS_EXTENDED] ? r : begin_data(tar, handler);
    }
    /* Two of them end it; whatever follows is padding. */
    if (is_zero(tar->block)) {
        tar->state = TAR_AT_END;
        return 0;
    }
    if (memcmp(tar->block + MAGIC, "ustar", 5) != 0 || !checksum_is_right(tar->block))
        return -EBADMSG;
    return begin_entry(tar, handler);
}

/* ---- bytes */

/* Hands on what there is of the piece that is at hand. Returns how much that was. */
static ssize_t hand_on(struct tar *tar, const char *data, size_t size,
                       const struct tar_handler *handler)
{
    const struct tar_piece *piece = &tar->pieces[tar->piece];
    uint64_t missing = piece->size - tar->piece_done;
    size_t n = missing < size ? (size_t)missing : size;

    int r = n > 0 ? handler->data(data, n, piece->offset + tar->piece_done, handler->userdata) : 0;
    tar->piece_done += n;
    if (tar->piece_done == piece->size) {
        tar->piece++;
        tar->piece_done = 0;
    }
    return r < 0 ? r : (ssize_t)n;
}

/* Takes bytes of content. Returns how many, or a negative errno. */
static ssize_t take_data(struct tar *tar, const char *data, size_t size,
                         const struct tar_handler *handler)
{
    ssize_t n = tar->left < size ? (ssize_t)tar->left : (ssize_t)size;

    if (tar->state == TAR_AT_LONG_NAME) {
        memcpy(tar->long_name + tar->long_size, data, (size_t)n);
        tar->long_size += (size_t)n;
        tar->long_name[tar->long_size] = '\0';
    } else if (tar->in_file) {
        n = hand_on(tar, data, (size_t)n, handler);
        if (n < 0)
            return n;
    }
    tar->left -= (uint64_t)n;
    if (tar->left == 0 && tar->in_file) {
        tar->in_file = false;
        int r = handler->done(handler->userdata);
        return r < 0 ? r : n;
    }
    return n;
}

static size_t take_block(struct tar *tar, const char *data, size_t size)
{
    size_t n = TAR_BLOCK - tar->have < size ? TAR_BLOCK - tar->have : size;

    memcpy(tar->block + tar->have, data, n);
    tar->have += n;
    return n;
}

int tar_feed(struct tar *tar, const char *data, size_t size, const struct tar_handler *handler)
{
    while (size > 0 && tar->state != TAR_AT_END) {
        ssize_t n;
        int r = 0;
        if (tar->state == TAR_AT_HEADER || tar->state == TAR_AT_PIECES) {
            n = (ssize_t)take_block(tar, data, size);
            if (tar->have == TAR_BLOCK) {
                tar->have = 0;
                r = handle_block(tar, handler);
            }
        } else if (tar->left > 0) {
            n = take_data(tar, data, size, handler);
            r = n < 0 ? (int)n : 0;
        } else {
            n = tar->padding < size ? (ssize_t)tar->padding : (ssize_t)size;
            tar->padding -= (size_t)n;
        }
        if (r < 0)
            return r;
        data += n;
        size -= (size_t)n;
        if ((tar->state == TAR_AT_DATA || tar->state == TAR_AT_LONG_NAME) && tar->left == 0 &&
            tar->padding == 0)
            tar->state = TAR_AT_HEADER;
    }
    return 0;
}
