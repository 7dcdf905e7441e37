/* A disk that fails, and a process that dies, at a chosen moment: for LD_PRELOAD on Linux.

Every operation that changes a file below one folder is counted and written to a log, one line each:
"write /folder/scores.csv". At the operation of a given number the fault happens. `arm` says which:

- kill     the process ends as if by `kill -9`; of a write, half is done
- short    a write does half of what it was asked for, as it may
- EIO      this one operation fails with EIO
- EACCES   this one operation fails with EACCES, if it names a file (open, rename, ...)
- ENOSPC   the disk is full from here on: a write does half, and whatever needs room fails
- nothing  all is only counted

A process that another one starts is armed by its environment: DISK_FOLDER, DISK_FAULT, DISK_NUMBER
and DISK_LOG, a file that all of them append to. Each process counts for itself.
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum needs { NAME = 1, ROOM = 2 }; /* what an operation needs: a name it may use, room on the disk */
enum verdict { GO, HALF, FAIL };

static char folder[PATH_MAX], fault[16];
static long number, count;
static int log_descriptor = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void arm(const char *of_folder, const char *with_fault, long at, int log) {
    snprintf(folder, sizeof folder, "%s/", of_folder);
    snprintf(fault, sizeof fault, "%s", with_fault);
    number = at;
    count = 0;
    log_descriptor = log;
}

__attribute__((constructor)) static void arm_by_environment(void) {
    const char *of_folder = getenv("DISK_FOLDER");
    if (!of_folder) return;
    int log = syscall(SYS_openat, AT_FDCWD, getenv("DISK_LOG"), O_CREAT | O_WRONLY | O_APPEND, 0600);
    arm(of_folder, getenv("DISK_FAULT"), atol(getenv("DISK_NUMBER")), log);
}

static int is(const char *name) { return strcmp(fault, name) == 0; }

static void die(void) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;) pause();
}

/* Count an operation, and say what becomes of it. */
static enum verdict decide(const char *operation, const char *path, int needs, int divisible) {
    char line[PATH_MAX + 32];
    enum verdict verdict = GO;
    if (log_descriptor < 0 || strncmp(path, folder, strlen(folder)) != 0) return GO;
    pthread_mutex_lock(&lock);
    long now = ++count;
    int length = snprintf(line, sizeof line, "%s %s\n", operation, path);
    syscall(SYS_write, log_descriptor, line, length);
    if (now == number && is("kill") && !divisible) die();
    if (now == number && (is("kill") || is("short"))) verdict = divisible ? HALF : GO;
    if (now == number && is("EIO")) verdict = FAIL, errno = EIO;
    if (now == number && is("EACCES") && (needs & NAME)) verdict = FAIL, errno = EACCES;
    if (now >= number && is("ENOSPC") && (needs & ROOM)) {
        verdict = now == number && divisible ? HALF : FAIL;
        errno = ENOSPC;
    }
    pthread_mutex_unlock(&lock);
    return verdict;
}

/* Return the full path of a name in a folder that is open, or in the working directory. */
static const char *full(int directory, const char *path, char *place) {
    char link[64];
    ssize_t length = 0;
    if (path[0] == '/') return path;
    if (directory == AT_FDCWD) {
        if (syscall(SYS_getcwd, place, PATH_MAX) > 0) length = strlen(place);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        length = syscall(SYS_readlinkat, AT_FDCWD, link, place, PATH_MAX - 1);
    }
    if (length < 0) length = 0;
    snprintf(place + length, PATH_MAX - length, "%s%s", path[0] ? "/" : "", path);
    return place;
}

static enum verdict decide_named(const char *operation, int directory, const char *path, int needs) {
    char place[PATH_MAX];
    int before = errno;
    const char *whole = full(directory, path, place);
    errno = before;
    return decide(operation, whole, needs | NAME, 0);
}

static enum verdict decide_open(const char *operation, int descriptor, int needs, int divisible) {
    char place[PATH_MAX];
    int before = errno;
    const char *whole = full(descriptor, "", place);
    errno = before;
    return decide(operation, whole, needs, divisible);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPENAT(name)                                                                               \
    int name(int directory, const char *path, int flags, ...) {                                    \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0;                  \
        va_end(more);                                                                              \
        int needs = (flags & O_CREAT) ? ROOM : 0;                                                  \
        if ((flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) &&                                   \
            decide_named("open", directory, path, needs) == FAIL)                                  \
            return -1;                                                                             \
        return syscall(SYS_openat, directory, path, flags, mode);                                  \
    }
OPENAT(openat)
OPENAT(openat64)

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0;                  \
        va_end(more);                                                                              \
        return openat(AT_FDCWD, path, flags, mode);                                                \
    }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                                                \
    FILE *name(const char *path, const char *mode) {                                               \
        if (strpbrk(mode, "wa+") && decide_named("open", AT_FDCWD, path, ROOM) == FAIL)            \
            return NULL;                                                                           \
        return NEXT(name)(path, mode);                                                             \
    }
FOPEN(fopen)
FOPEN(fopen64)

/* After half a write, a process that is to be killed is. */
static ssize_t half_done(ssize_t done) {
    if (is("kill")) die();
    return done;
}

ssize_t write(int file, const void *bytes, size_t length) {
    enum verdict verdict = decide_open("write", file, ROOM, length > 1);
    if (verdict == FAIL) return -1;
    if (verdict == GO) return syscall(SYS_write, file, bytes, length);
    return half_done(syscall(SYS_write, file, bytes, length / 2));
}

#define PWRITE(name)                                                                               \
    ssize_t name(int file, const void *bytes, size_t length, off_t place) {                        \
        enum verdict verdict = decide_open("write", file, ROOM, length > 1);                       \
        if (verdict == FAIL) return -1;                                                            \
        if (verdict == GO) return syscall(SYS_pwrite64, file, bytes, length, place);               \
        return half_done(syscall(SYS_pwrite64, file, bytes, length / 2, place));                   \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t writev(int file, const struct iovec *parts, int n) {
    enum verdict verdict = decide_open("write", file, ROOM, n > 0 && parts[0].iov_len > 1);
    if (verdict == FAIL) return -1;
    if (verdict == GO) return syscall(SYS_writev, file, parts, n);
    return half_done(syscall(SYS_write, file, parts[0].iov_base, parts[0].iov_len / 2));
}

#define COPIED(name, parameters, arguments)                                                        \
    ssize_t name parameters {                                                                      \
        if (decide_open("write", to, ROOM, 0) == FAIL) return -1;                                  \
        return NEXT(name) arguments;                                                               \
    }
COPIED(sendfile, (int to, int from, off_t *place, size_t length), (to, from, place, length))
COPIED(sendfile64, (int to, int from, off_t *place, size_t length), (to, from, place, length))
COPIED(copy_file_range,
       (int from, off_t *a, int to, off_t *b, size_t length, unsigned flags),
       (from, a, to, b, length, flags))

#define ON_DESCRIPTOR(name, needs, parameters, arguments)                                          \
    int name parameters {                                                                          \
        if (decide_open(#name, file, needs, 0) == FAIL) return -1;                                 \
        return NEXT(name) arguments;                                                               \
    }
ON_DESCRIPTOR(fsync, ROOM, (int file), (file))
ON_DESCRIPTOR(fdatasync, ROOM, (int file), (file))
ON_DESCRIPTOR(ftruncate, 0, (int file, off_t length), (file, length))
ON_DESCRIPTOR(ftruncate64, 0, (int file, off_t length), (file, length))

#define ON_NAME(name, needs, directory, path, parameters, arguments)                               \
    int name parameters {                                                                          \
        if (decide_named(#name, directory, path, needs) == FAIL) return -1;                        \
        return NEXT(name) arguments;                                                               \
    }
ON_NAME(mkdir, ROOM, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_NAME(mkdirat, ROOM, at, path, (int at, const char *path, mode_t mode), (at, path, mode))
ON_NAME(rmdir, 0, AT_FDCWD, path, (const char *path), (path))
ON_NAME(unlink, 0, AT_FDCWD, path, (const char *path), (path))
ON_NAME(unlinkat, 0, at, path, (int at, const char *path, int flags), (at, path, flags))
ON_NAME(symlink, ROOM, AT_FDCWD, path, (const char *of, const char *path), (of, path))
ON_NAME(link, ROOM, AT_FDCWD, path, (const char *of, const char *path), (of, path))
ON_NAME(rename, 0, AT_FDCWD, path, (const char *from, const char *path), (from, path))
ON_NAME(renameat, 0, at, path,
        (int from_at, const char *from, int at, const char *path), (from_at, from, at, path))
ON_NAME(renameat2, 0, at, path,
        (int from_at, const char *from, int at, const char *path, unsigned flags),
        (from_at, from, at, path, flags))
