/* LD_PRELOAD this: the wall clock can be set, and the machine can be suspended.
 *
 * clockshim_jump(seconds) moves CLOCK_REALTIME and nothing else. clockshim_suspend(seconds) lets
 * time pass for CLOCK_REALTIME and CLOCK_BOOTTIME while CLOCK_MONOTONIC stands still, as Linux
 * does. Python reads them all with clock_gettime.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static long wall, asleep;

void clockshim_jump(long seconds) { wall += seconds; }
void clockshim_suspend(long seconds) { asleep += seconds; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, now);
    if (!code && clock == CLOCK_REALTIME) now->tv_sec += wall + asleep;
    if (!code && clock == CLOCK_BOOTTIME) now->tv_sec += asleep;
    return code;
}
