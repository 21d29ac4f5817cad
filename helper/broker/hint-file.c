/* Hints about files, see hint-file.h. */
#include "broker/hint-file.h"
#include "common/cleanup.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_COMPARED 64
#define WORKSPACE "/workspace/"

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* How many letters have to be changed, put in or left out (Levenshtein), without regard to case. */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), row[NAME_MAX_COMPARED + 1];

    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            size_t next = smallest(row[j] + 1, row[j - 1] + 1, diagonal + !same);
            diagonal = row[j];
            row[j] = next;
        }
    }
    return row[m];
}

/* The last component; paths of Windows have other separators, and some programs show them twice. */
static const char *base_name(const char *path)
{
    const char *base = path;

    for (const char *p = path; *p; p++)
        if (*p == '/' || *p == '\\')
            base = p + 1;
    return base;
}

/* The name among the inputs, and the script's, that is nearest to @base; NULL if none is near. */
static const char *nearest_name(const struct facts *facts, const char *base)
{
    size_t length = strlen(base), best = length / 4 + 1;
    const char *nearest = NULL;

    if (length > NAME_MAX_COMPARED)
        return NULL;
    for (size_t i = 0; i < facts->n_inputs; i++) {
        const char *name = facts->inputs[i].name;
        if (strlen(base_name(name)) > NAME_MAX_COMPARED)
            continue;
        size_t d = distance(base, base_name(name));
        if (d < best) {
            best = d;
            nearest = name;
        }
    }
    return nearest;
}

/* Whether a path can stand in a command line, or in a sentence, as it is. */
static bool is_plain(const char *path)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+.,@=~/";

    return *path && path[strspn(path, letters)] == '\0' && *path != '-' && strlen(path) <= 90;
}

/* Where people keep their files, here or where they wrote the script. */
static bool is_of_people(const char *path)
{
    static const char *const places[] = { "/home/", "/Users/",   "/mnt/",    "/media/", "/data/",
                                          "/srv/",  "/content/", "/kaggle/", "~/",      "/root/" };

    for (size_t i = 0; i < ELEMENTS(places); i++)
        if (strncmp(path, places[i], strlen(places[i])) == 0)
            return true;
    return isalpha((unsigned char)path[0]) && path[1] == ':' && strchr("/\\", path[2]);
}

static bool say(char ret[HINT_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool say(char ret[HINT_MAX], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(ret, HINT_MAX, format, args);
    va_end(args);
    return true;
}

bool hint_place(const char *path, char ret[HINT_MAX])
{
    static const char *const writable[] = { WORKSPACE, "/tmp/", "/dev/shm/", "/var/tmp/" };

    if (*path != '/' || !is_plain(path))
        return false;
    for (size_t i = 0; i < ELEMENTS(writable); i++)
        if (strncmp(path, writable[i], strlen(writable[i])) == 0)
            return false;
    return say(ret,
               "'%s' cannot be written: write to /workspace, the directory the program starts in "
               "(such as %s); what lies there is kept.",
               path, is_plain(base_name(path)) ? base_name(path) : "result.txt");
}

static bool missing_output(const char *path, char ret[HINT_MAX])
{
    const char *slash = strrchr(path, '/');

    if (is_of_people(path))
        return say(
            ret,
            "'%s' is no place in the sandbox: write to /workspace, the directory the program "
            "starts in; what lies there is kept.",
            path);
    if (*path == '/')
        return hint_place(path, ret);
    if (!slash)
        return false;
    return say(ret, "There is no directory '%.*s' yet: the program has to make it first.",
               (int)(slash - path), path);
}

bool hint_missing_file(const struct facts *facts, const char *path, bool is_output,
                       char ret[HINT_MAX])
{
    const char *relative = path, *base, *near;

    if (strncmp(relative, WORKSPACE, strlen(WORKSPACE)) == 0)
        relative += strlen(WORKSPACE);
    if (strncmp(relative, "./", 2) == 0)
        relative += 2;
    base = base_name(relative);
    if (!is_plain(base) || strlen(path) > 90 || strpbrk(path, "'\"`$\x1b\n") || strstr(path, "../"))
        return false;
    if (is_output)
        return is_plain(path) && missing_output(path, ret);
    near = nearest_name(facts, base);
    if (near && strcmp(near, relative) != 0 && is_plain(near))
        return say(ret, "There is no '%s' in the sandbox; did you mean '%s'?", path, near);
    if (near && strcmp(near, relative) == 0)
        return say(ret, "'%s' was given; it lies in /workspace, where the program starts.", near);
    if (is_of_people(path))
        return say(
            ret,
            "'%s' is not in the sandbox: --file puts a copy of yours beside the script, where "
            "it is called %s; results go there, too.",
            path, base);
    if (*relative == '/' || !is_plain(relative))
        return false;
    if (base != relative)
        return say(ret,
                   "There is no '%s' in the sandbox: if it is a file of yours, --file %s:%s brings "
                   "it.",
                   relative, relative, relative);
    return say(ret,
               "There is no '%s' in the sandbox: if it is a file of yours, --file %s puts a copy "
               "beside the script.",
               relative, relative);
}
