/* What runs in the sandbox besides the program: the shell around it, and the one that brings its
 * files home. POSIX sh, with GNU find and tar, which every template on Debian has. */
#pragma once

/* $1 the directory to be in, $2 a folder of our own, $3 the number of names that follow and are to
 * be made executable; then the program with its arguments. Its standard input may lie in the
 * folder.
 *
 * Whatever the program left running ends with it, or its output would never end. A user's kill -1
 * reaches all that is the user's, but not the shell itself; root's would reach envd.
 *
 * The program waits for the next tick of the clock of files, so what it makes is newer than the
 * mark. Each program that the shell would have to start for itself is time of the run: so root is
 * who owns "/", and a folder that came with the upload is not made. A shell cannot tell a status
 * above 128 from a signal, so it is taken for one (run.c); that it would say "Terminated" among
 * what the program says is nobody's wish. */
#define SCRIPT_RUN                                                                                 \
    "cd -- \"$1\" || exit 126\n"                                                                   \
    "m=$2 n=$3; shift 3\n"                                                                         \
    "[ -d \"$m\" ] || mkdir -p -m 700 \"$m\"\n"                                                    \
    "[ ! -e \"$m/oom\" ] || rm -f \"$m/missing\" \"$m/times\" \"$m/status\"\n"                     \
    "while [ \"$n\" -gt 0 ]; do chmod 755 \"./$1\"; shift; n=$((n-1)); done\n"                     \
    "while read -r k v; do [ \"$k\" = oom_kill ] && echo \"$v\"; done </proc/vmstat >\"$m/oom\"\n" \
    "command -v -- \"$1\" >/dev/null || { : >\"$m/missing\"; exit 127; }\n"                        \
    "trap : TERM INT HUP\n"                                                                        \
    ": >\"$m/mark\"; until : >\"$m/tick\"; [ \"$m/tick\" -nt \"$m/mark\" ]; do :; done\n"          \
    "exec 3>&2 2>/dev/null\n"                                                                      \
    "if [ -e \"$m/stdin\" ]; then (exec \"$@\" <\"$m/stdin\" 2>&3 3>&-)\n"                         \
    "else (exec \"$@\" 2>&3 3>&-); fi\n"                                                           \
    "s=$?\n"                                                                                       \
    "[ -O / ] || kill -9 -1 2>/dev/null\n"                                                         \
    "times >\"$m/times\"\n"                                                                        \
    "exit $s\n"

/* $1 and $2 as above. Writes a report, a line each, to standard error, and to standard output an
 * archive of what the program made or changed, small files first: so what does not fit is what
 * comes last. What its owner may not read is made readable; the archive is sorted, so it begins
 * when all of that is done. */
#define SCRIPT_COLLECT                                                                           \
    "[ -r \"$1\" ] && [ -x \"$1\" ] || chmod u+rwx -- \"$1\"\n"                                  \
    "cd -- \"$1\" || exit 1\n"                                                                   \
    "m=$2\n"                                                                                     \
    "[ -O / ] || kill -9 -1 2>/dev/null\n"                                                       \
    "[ -e \"$m/missing\" ] && echo missing >&2\n"                                                \
    "[ -e \"$m/status\" ] && read -r v <\"$m/status\" && echo \"status $v\" >&2\n"               \
    "read -r v <\"$m/oom\" && echo \"before $v\" >&2\n"                                          \
    "while read -r k v; do [ \"$k\" = oom_kill ] && echo \"after $v\" >&2; done </proc/vmstat\n" \
    "if [ -e \"$m/times\" ]; then { read -r v; read -r v; echo \"times $v\" >&2; } "             \
    "<\"$m/times\"; fi\n"                                                                        \
    "n=0; for f in /tmp/*; do [ -f \"$f\" ] && [ \"$f\" -nt \"$m/mark\" ] && n=$((n+1)); done\n" \
    "echo \"scratch $n\" >&2\n"                                                                  \
    "find . -mindepth 1 \\( -type d ! -perm -500 -exec chmod u+rwx {} \\; \\) , "                \
    "\\( -type f ! -perm -400 -exec chmod u+r {} + \\) , "                                       \
    "\\( \\( -type f -o -type d -o -type l -o -type p \\) -cnewer \"$m/mark\" "                  \
    "-printf '%k %p\\0' \\) 2>/dev/null | sort -z -n | cut -z -d ' ' -f 2- | "                   \
    "tar -c -f - --format=gnu --sparse --hard-dereference --no-recursion --null "                \
    "--verbatim-files-from -T - 2>/dev/null\n"

/* Asks everything of the user's to end. */
#define SCRIPT_TERM "[ -O / ] || kill -15 -1 2>/dev/null; exit 0\n"
