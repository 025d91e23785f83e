/* Writes down what a process asks of the files in one directory, in the order in which it asks (PROOF V8).

   Preloaded before the C library. TOLLIVER_DISK is the directory, TOLLIVER_DISK_LOG the file that is appended to. An
   entry is struct entry and then `length` bytes: the data of a write, or the names of a creation, a removal, a
   renaming. A file is known by its inode, since names move. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct entry {
    char kind; /* C created, W written, T truncated, S synced, D directory synced, U unlinked, R renamed */
    char unused[7];
    uint64_t inode, offset, length;
};

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int log_file = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int watched(const char *path) {
    const char *directory = getenv("TOLLIVER_DISK");
    size_t length = directory ? strlen(directory) : 0;
    return length && !strncmp(path, directory, length) && (!path[length] || path[length] == '/') &&
           !strstr(path + length, "-shm") && !strstr(path + length, ".lock");
}

static void tell(char kind, uint64_t inode, uint64_t offset, const void *data, size_t length) {
    struct entry head = {.kind = kind, .inode = inode, .offset = offset, .length = length};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)data, length}};
    if (log_file < 0)
        log_file = REAL(open)(getenv("TOLLIVER_DISK_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (writev(log_file, parts, 2) != (ssize_t)(sizeof head + length))
        abort(); /* half an account is none */
}

/* The file's inode if it is watched, else 0. */
static uint64_t inode_of(int fd, int *directory) {
    char link[64], path[PATH_MAX];
    struct stat about;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    if (!watched(path) || fstat(fd, &about))
        return 0;
    if (directory)
        *directory = S_ISDIR(about.st_mode);
    return about.st_ino;
}

static int opened(int fd, const char *path, int flags, int was_there) {
    struct stat about;
    if (fd >= 0 && (flags & O_CREAT) && !was_there && watched(path) && !fstat(fd, &about))
        tell('C', about.st_ino, 0, path, strlen(path));
    return fd;
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                      \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;                                                      \
        va_end(more);                                                                                                  \
        pthread_mutex_lock(&turn);                                                                                     \
        int was_there = !access(path, F_OK);                                                                           \
        int fd = opened(REAL(name)(path, flags, mode), path, flags, was_there);                                        \
        pthread_mutex_unlock(&turn);                                                                                   \
        return fd;                                                                                                     \
    }
OPEN(open)
OPEN(open64)

/* The call is made and told as one step, so that the account has the order that the system saw. */
#define WHILE_TOLD(type, call, told)                                                                                   \
    pthread_mutex_lock(&turn);                                                                                         \
    int directory = 0;                                                                                                 \
    uint64_t inode = inode_of(fd, &directory);                                                                         \
    type result = call;                                                                                                \
    if (inode && result >= 0) {                                                                                        \
        told;                                                                                                          \
    }                                                                                                                  \
    pthread_mutex_unlock(&turn);                                                                                       \
    return result;

ssize_t write(int fd, const void *data, size_t length) {
    WHILE_TOLD(ssize_t, REAL(write)(fd, data, length),
               tell('W', inode, lseek(fd, 0, SEEK_CUR) - result, data, result))
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    WHILE_TOLD(ssize_t, REAL(pwrite)(fd, data, length, offset), tell('W', inode, offset, data, result))
}
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    WHILE_TOLD(ssize_t, REAL(pwrite64)(fd, data, length, offset), tell('W', inode, offset, data, result))
}
int ftruncate(int fd, off_t size) { WHILE_TOLD(int, REAL(ftruncate)(fd, size), tell('T', inode, size, "", 0)) }
int ftruncate64(int fd, off64_t size) { WHILE_TOLD(int, REAL(ftruncate64)(fd, size), tell('T', inode, size, "", 0)) }
/* While the file TOLLIVER_DISK_FAILS is there, no log of SQLite can be synced. */
static int fails(int fd) {
    char link[64], path[PATH_MAX];
    const char *sign = getenv("TOLLIVER_DISK_FAILS");
    if (!sign || access(sign, F_OK))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    errno = EIO;
    return strstr(path, "-wal") != NULL;
}

int fsync(int fd) { if (fails(fd)) return -1; WHILE_TOLD(int, REAL(fsync)(fd), tell(directory ? 'D' : 'S', inode, 0, "", 0)) }
int fdatasync(int fd) { if (fails(fd)) return -1; WHILE_TOLD(int, REAL(fdatasync)(fd), tell(directory ? 'D' : 'S', inode, 0, "", 0)) }

int unlink(const char *path) {
    pthread_mutex_lock(&turn);
    int result = REAL(unlink)(path);
    if (!result && watched(path))
        tell('U', 0, 0, path, strlen(path));
    pthread_mutex_unlock(&turn);
    return result;
}

int rename(const char *from, const char *to) {
    char both[2 * PATH_MAX];
    pthread_mutex_lock(&turn);
    int result = REAL(rename)(from, to);
    if (!result && watched(to)) {
        int length = snprintf(both, sizeof both, "%s\n%s", from, to);
        tell('R', 0, 0, both, length);
    }
    pthread_mutex_unlock(&turn);
    return result;
}
