// A library for LD_PRELOAD that makes the wall clock of programs jump (bench/chaos_faults.py).
//
// Environment variables:
// - JUMPING_CLOCK is a file with one int64 in the machine's byte order: the seconds by which the
//   wall clock is ahead. Writing it makes the clocks of all programs jump at the same time.
// - JUMPING_CLOCK_OF is the name of the only program whose clock jumps; unset: all programs.
//
// The monotonic clock does not jump, as when an administrator sets the time. We do not use
// libfaketime, because Python 3.11 cannot sleep under version 0.9.10.

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

static const volatile int64_t* ahead;  // seconds; null: the clock does not jump

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
