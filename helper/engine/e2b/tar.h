/* A tar archive as GNU tar writes it with --format=gnu --sparse, read as it comes in. Pure: it
 * opens nothing, and a name is only a string here. Called by transfer.c and its fuzzer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TAR_BLOCK 512
#define TAR_NAME_MAX 4096
/* Pieces of one sparse file at most. */
#define TAR_PIECES_MAX 65536

enum tar_type { TAR_FILE, TAR_DIRECTORY, TAR_SYMLINK, TAR_FIFO, TAR_OTHER };

struct tar_entry {
    enum tar_type type;
    const char *name, *target; /* borrowed; @target of a symbolic link */
    mode_t mode;               /* at most 07777 */
    uint64_t size;             /* of the file, with its holes */
};

struct tar_handler {
    /* Returns 0, or a negative errno that ends it all. */
    int (*entry)(const struct tar_entry *entry, void *userdata);
    /* Bytes of the last entry, a file, at an offset in it. */
    int (*data)(const char *data, size_t size, uint64_t offset, void *userdata);
    /* The last entry is whole. */
    int (*done)(void *userdata);
    void *userdata;
};

struct tar_piece {
    uint64_t offset, size;
};

struct tar {
    char block[TAR_BLOCK];
    size_t have;
    enum { TAR_AT_HEADER, TAR_AT_LONG_NAME, TAR_AT_PIECES, TAR_AT_DATA, TAR_AT_END } state;
    char long_name[TAR_NAME_MAX + 1];
    size_t long_size;
    bool have_long;
    bool in_file;  /* the data belong to an entry that was told of */
    uint64_t left; /* bytes of data, then as many of padding as fill the block */
    size_t padding;
    struct tar_piece *pieces;
    size_t n_pieces, piece;
    uint64_t piece_done;
    struct tar_entry entry;
    char name[TAR_NAME_MAX + 1], target[101];
};

/* Takes the next @size bytes. Returns 0; -EBADMSG for what is no such archive; -EMSGSIZE above a
 * limit; -ENOMEM; or what the handler returned. After an error nothing more may be fed. */
int tar_feed(struct tar *tar, const char *data, size_t size, const struct tar_handler *handler);
/* Whether the archive's end was there. */
bool tar_is_complete(const struct tar *tar);
void tar_release(struct tar *tar);
