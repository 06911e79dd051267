/* Makes every fsync and fdatasync take SLOWSYNC_US microseconds longer (LD_PRELOAD, Linux), as
 * on a disk that is slower than this one. The real call is made first: what is acknowledged is
 * as durable as without it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int delay(void)
{
    static int microseconds = -1;
    if (microseconds < 0) {
        const char *given = getenv("SLOWSYNC_US");
        microseconds = given ? atoi(given) : 0;
    }
    return microseconds;
}

int fdatasync(int file)
{
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    int result = real(file);
    if (delay())
        usleep(delay());
    return result;
}

int fsync(int file)
{
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    int result = real(file);
    if (delay())
        usleep(delay());
    return result;
}
