/* Makes the nth write, sync or truncation of a file fail, as a bad disk or a full one would.
 *
 * LD_PRELOAD this. FAULT_FILE: the end of the file's name. FAULT: op:n:errno[:s], where op is
 * write, sync or trunc, n counts from 1, and s stands for sticky: all that come after fail too.
 * FAULT_ARMED: nothing fails until this file exists, and calls are counted from then on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define FILES 4096
static char known[FILES];

static int fails(const char *op, int file) {
    static int count, ready, nth, code, sticky;
    static char wanted[16];
    if (!ready) {
        char tail[4] = "";
        const char *fault = getenv("FAULT");
        ready = 1;
        if (fault) sscanf(fault, "%15[^:]:%d:%d:%3s", wanted, &nth, &code, tail);
        sticky = tail[0] == 's';
    }
    if (!nth || strcmp(op, wanted) || file < 0 || file >= FILES || !known[file]) return 0;
    if (access(getenv("FAULT_ARMED"), F_OK)) return 0;
    count++;
    if (count != nth && !(sticky && count > nth)) return 0;
    errno = code;
    return 1;
}

static void note(int file, const char *path) {
    const char *end = getenv("FAULT_FILE");
    size_t length = strlen(path), wanted = end ? strlen(end) : 0;
    if (file < 0 || file >= FILES) return;
    known[file] = wanted && length >= wanted && !strcmp(path + length - wanted, end);
}

#define NEXT(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        NEXT(int, name, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        int mode = va_arg(rest, int); \
        va_end(rest); \
        int file = real(path, flags, mode); \
        note(file, path); \
        return file; \
    }
OPEN(open)
OPEN(open64)

#define WRITE(name, offset) \
    ssize_t name(int file, const void *bytes, size_t length, offset at) { \
        NEXT(ssize_t, name, int, const void *, size_t, offset); \
        return fails("write", file) ? -1 : real(file, bytes, length, at); \
    }
WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)

#define SYNC(name) \
    int name(int file) { \
        NEXT(int, name, int); \
        return fails("sync", file) ? -1 : real(file); \
    }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name, offset) \
    int name(int file, offset size) { \
        NEXT(int, name, int, offset); \
        return fails("trunc", file) ? -1 : real(file, size); \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)
