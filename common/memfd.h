/* Sealed memfds: bytes that travel as a descriptor and that nobody can change any more. Called by
 * whoever makes one, and by whoever must be sure of one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* An empty, sealable memfd that is not executable where the kernel knows that (Linux 6.3; machines
 * with vm.memfd_noexec=2 insist on it). @name shows up in /proc only. Returns the fd or a negative
 * errno. */
int memfd_new(const char *name);
/* Forbids every further change of its bytes. Returns 0 or a negative errno. */
int memfd_seal(int fd);
/* One that holds @data, sealed, its offset at the start. Returns the fd or a negative errno. */
int memfd_with(const char *name, const void *data, size_t size);
/* Whether @fd is a memfd that was sealed so; anything else may be passed. */
bool memfd_is_sealed(int fd);
