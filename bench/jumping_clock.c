// A clock that jumps, for programs that are started with LD_PRELOAD (bench/chaos_faults.py).
//
// The file that JUMPING_CLOCK names holds the seconds by which the clock of the wall is ahead, as
// one int64; whoever writes it makes all clocks jump at once. JUMPING_CLOCK_OF names the one program
// that obeys; unset, all do. The monotonic clock stays as it is, as when an administrator sets the
// time. (libfaketime 0.9.10 does more, and Python 3.11 cannot sleep under it.)

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* ahead;  // seconds; null: the clock is right

__attribute__((constructor)) static void open_clock(void) {
    const char* path = getenv("JUMPING_CLOCK");
    const char* only = getenv("JUMPING_CLOCK_OF");
    if (!path || (only && strcmp(only, program_invocation_short_name))) return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void* page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED) ahead = page;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
    if (syscall(SYS_clock_gettime, clock, now)) return -1;
    if (ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
    return 0;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
    (void)zone;
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t* now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
