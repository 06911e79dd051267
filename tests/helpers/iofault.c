/* Makes calls to the disk fail, as a bad disk or a full one would, or kills the process there.
 *
 * LD_PRELOAD this. Which files: FAULT_FILE is the end of a path, FAULT_PART a part of it. What:
 * FAULT is op:n:errno[:s]; n counts from 1, s stands for sticky: all that come after fail too;
 * in place of errno, `kill` ends the process there. Operations: open read write sync trunc unlink
 * lock (fcntl) turn (flock) map stat; `any` counts them all together. FAULT_ARMED: nothing fails until this file
 * exists, and calls are counted from then on.
 *
 * A program that has loaded it may instead call iofault_arm(fault, part), which counts from
 * there, and iofault_counted(op): how many calls there have been since.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define FILES 4096
#define OPERATIONS 11
static const char *operations[OPERATIONS] = {
    "open", "read", "write", "sync", "trunc", "unlink", "lock", "turn", "map", "stat", "any"
};
static char known[FILES];
static char wanted[16], part[256];
static int counts[OPERATIONS], nth, code, sticky, kills, ready, from_outside;

static void read_fault(const char *fault) {
    char what[16] = "", tail[4] = "";
    nth = code = sticky = kills = 0;
    memset(counts, 0, sizeof counts);
    if (!fault || sscanf(fault, "%15[^:]:%d:%15[^:]:%3s", wanted, &nth, what, tail) < 3) return;
    kills = !strcmp(what, "kill");
    code = atoi(what);
    sticky = tail[0] == 's';
}

void iofault_arm(const char *fault, const char *path_part) {
    ready = from_outside = 1;
    snprintf(part, sizeof part, "%s", path_part);
    read_fault(fault);
}

int iofault_counted(const char *op) {
    for (int i = 0; i < OPERATIONS; i++)
        if (!strcmp(op, operations[i])) return counts[i];
    return -1;
}

static int counted(int op) {
    int own = ++counts[op], all = ++counts[OPERATIONS - 1];
    if (!strcmp(wanted, operations[op])) return own;
    return strcmp(wanted, "any") ? 0 : all;
}

static int fails(int op, int is_ours) {
    if (!ready) {
        ready = 1;
        read_fault(getenv("FAULT"));
    }
    if (!is_ours) return 0;
    if (!from_outside && (!nth || access(getenv("FAULT_ARMED"), F_OK))) return 0;
    int count = counted(op);
    if (!nth || !count || (count != nth && !(sticky && count > nth))) return 0;
    if (kills) kill(getpid(), SIGKILL);
    errno = code;
    return 1;
}

static int ours(const char *path) {
    if (from_outside) return part[0] && strstr(path, part) != 0;
    const char *end = getenv("FAULT_FILE"), *inside = getenv("FAULT_PART");
    size_t length = strlen(path), wants = end ? strlen(end) : 0;
    if (inside && strstr(path, inside)) return 1;
    return wants && length >= wants && !strcmp(path + length - wants, end);
}

static int known_file(int file) { return file >= 0 && file < FILES && known[file]; }

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
        if (fails(0, ours(path))) return -1; \
        int file = real(path, flags, mode); \
        if (file >= 0 && file < FILES) known[file] = ours(path); \
        return file; \
    }
OPEN(open)
OPEN(open64)

int close(int file) {
    NEXT(int, close, int);
    if (file >= 0 && file < FILES) known[file] = 0;
    return real(file);
}

#define READ(name, offset) \
    ssize_t name(int file, void *bytes, size_t length, offset at) { \
        NEXT(ssize_t, name, int, void *, size_t, offset); \
        return fails(1, known_file(file)) ? -1 : real(file, bytes, length, at); \
    }
READ(pread, off_t)
READ(pread64, off64_t)

ssize_t read(int file, void *bytes, size_t length) {
    NEXT(ssize_t, read, int, void *, size_t);
    return fails(1, known_file(file)) ? -1 : real(file, bytes, length);
}

/* A disk that is full may have taken the beginning. */
#define WRITE(name, offset) \
    ssize_t name(int file, const void *bytes, size_t length, offset at) { \
        NEXT(ssize_t, name, int, const void *, size_t, offset); \
        if (!fails(2, known_file(file))) return real(file, bytes, length, at); \
        if (code == ENOSPC && length > 512) real(file, bytes, 512, at); \
        errno = code; \
        return -1; \
    }
WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)

ssize_t write(int file, const void *bytes, size_t length) {
    NEXT(ssize_t, write, int, const void *, size_t);
    return fails(2, known_file(file)) ? -1 : real(file, bytes, length);
}

#define SYNC(name) \
    int name(int file) { \
        NEXT(int, name, int); \
        return fails(3, known_file(file)) ? -1 : real(file); \
    }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name, offset) \
    int name(int file, offset size) { \
        NEXT(int, name, int, offset); \
        return fails(4, known_file(file)) ? -1 : real(file, size); \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int unlink(const char *path) {
    NEXT(int, unlink, const char *);
    return fails(5, ours(path)) ? -1 : real(path);
}

#define CONTROL(name) \
    int name(int file, int command, ...) { \
        NEXT(int, name, int, int, ...); \
        va_list rest; \
        va_start(rest, command); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        /* to free a lock cannot fail on a local disk, and SQLite does not expect it */ \
        int locks = command == F_SETLK && ((struct flock *)argument)->l_type != F_UNLCK; \
        if (locks && fails(6, known_file(file))) return -1; \
        return real(file, command, argument); \
    }
CONTROL(fcntl)
CONTROL(fcntl64)

int flock(int file, int operation) {
    NEXT(int, flock, int, int);
    return fails(7, known_file(file)) ? -1 : real(file, operation);
}

#define MAP(name, offset) \
    void *name(void *at, size_t length, int protection, int flags, int file, offset from) { \
        NEXT(void *, name, void *, size_t, int, int, int, offset); \
        if (fails(8, known_file(file))) return (void *)-1; \
        return real(at, length, protection, flags, file, from); \
    }
MAP(mmap, off_t)
MAP(mmap64, off64_t)

#define STAT(name) \
    int name(const char *path, void *found) { \
        NEXT(int, name, const char *, void *); \
        return fails(9, ours(path)) ? -1 : real(path, found); \
    }
#define FSTAT(name) \
    int name(int file, void *found) { \
        NEXT(int, name, int, void *); \
        return fails(9, known_file(file)) ? -1 : real(file, found); \
    }
STAT(stat)
STAT(stat64)
STAT(lstat)
STAT(lstat64)
FSTAT(fstat)
FSTAT(fstat64)
