/* Messages of one JSON object each, with members "type" and "version": what the engine protocol and
 * the egress protocol have in common. Called by their protocol.c only; never interprets what a
 * message says. */
#pragma once

#include <stddef.h>

#include "common/json.h"

/* Rows of a table of struct json_field: the member @member of struct @in is read from @key. What
 * follows, if anything, is MANDATORY. */
#define MANDATORY .mandatory = true
#define FIELD_TEXT(in, key, member, limit, ...)                                        \
    {                                                                                  \
        .name = key, .type = JSON_FIELD_STRING, .offset = offsetof(struct in, member), \
        .max = (limit), __VA_ARGS__                                                    \
    }
#define FIELD_ARRAY(in, key, member)                                                 \
    {                                                                                \
        .name = key, .type = JSON_FIELD_ARRAY, .offset = offsetof(struct in, member) \
    }
#define FIELD_UINT32(in, key, member, least, most, ...)                        \
    {                                                                          \
        .name = key, .type = JSON_FIELD_UINT32, .min = (least), .max = (most), \
        .offset = offsetof(struct in, member), __VA_ARGS__                     \
    }
#define FIELD_UINT64(in, key, member, least, ...)                                 \
    {                                                                             \
        .name = key, .type = JSON_FIELD_UINT64, .min = (least), .max = INT64_MAX, \
        .offset = offsetof(struct in, member), __VA_ARGS__                        \
    }
#define FIELD_BOOL(in, key, member, ...)                                                         \
    {                                                                                            \
        .name = key, .type = JSON_FIELD_BOOL, .offset = offsetof(struct in, member), __VA_ARGS__ \
    }

struct message_type {
    const char *name;
    const struct json_field *fields;
    size_t n_fields;
};

struct message_protocol {
    unsigned version;
    size_t packet_max; /* bytes of a message */
    const struct message_type *types;
    size_t n_types;
};

/* Parses the bytes of a packet as far as the type, an index of the protocol's types. Returns 0;
 * -EBADMSG for what is not strict JSON or lacks its head; -EPROTONOSUPPORT for a type or a version
 * that the protocol does not have; -ENOMEM. */
int message_open(const struct message_protocol *protocol, const char *data, size_t size,
                 json_object **ret, int *ret_type);
/* Dispatches the members that are of the type, into @target. Returns 0 or -EBADMSG. */
int message_dispatch(const struct message_protocol *protocol, int type, json_object *object,
                     void *target);

/* Makes an object with the head. Returns 0 or -ENOMEM. */
int message_new(const struct message_protocol *protocol, int type, json_object **ret);
/* Writes it. Returns 0 with an allocated, NUL-terminated string in @ret and its length in
 * @ret_size, or -ENOMEM, or -EMSGSIZE. */
int message_write(const struct message_protocol *protocol, json_object *object, char **ret,
                  size_t *ret_size);

/* Index of @name in @names, or -1. */
int message_find_name(const char *const *names, size_t n, const char *name);
/* Copies a text whose length message_dispatch() has compared with the room in @target; an absent
 * one is empty. */
void message_copy_text(char *target, const char *text);
