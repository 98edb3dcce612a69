/* Lets calls that change a folder fail from the n-th on, or only the n-th; preloaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096];
static int number, left, goes_on, n_failed;

/* Fail with an error; 0 of `error` ends it. Returns how many calls have failed. */
int tierscope_fail(const char *path, int error, int nth, int and_later) {
  int failed = n_failed;
  strncpy(folder, path, sizeof folder - 1);
  number = error, left = nth, goes_on = and_later, n_failed = 0;
  return failed;
}

static int fails(const char *path) {
  if (!number || !path || strncmp(path, folder, strlen(folder)))
    return 0;
  left--;
  if (left > 0 || (left < 0 && !goes_on))
    return 0;
  n_failed++;
  errno = number;
  return 1;
}

static int fails_at(int dir, const char *path) {
  char link[64], whole[4096], real[8192];
  ssize_t n;
  if (!number)
    return 0;
  if (path && (*path == '/' || dir == AT_FDCWD))
    return fails(path);
  snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
  if ((n = readlink(link, whole, sizeof whole - 1)) < 0)
    return 0;
  whole[n] = 0;
  snprintf(real, sizeof real, "%s/%s", whole, path ? path : "");
  return fails(real);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MADE(flags) ((flags) & (O_CREAT | O_WRONLY | O_RDWR))
#define OF_PATH(name, test, given, named)                                              \
  int name given { return test ? -1 : REAL(name) named; }
#define OF_FILE(type, name, given, named)                                              \
  type name given { return fails_at(fd, 0) ? -1 : REAL(name) named; }
#define OPENS(name, given, test, named)                                                \
  int name given {                                                                     \
    mode_t mode = 0;                                                                   \
    va_list rest;                                                                      \
    va_start(rest, flags);                                                             \
    mode = va_arg(rest, mode_t);                                                       \
    va_end(rest);                                                                      \
    return MADE(flags) && test ? -1 : REAL(name) named;                                \
  }

OPENS(open, (const char *p, int flags, ...), fails(p), (p, flags, mode))
OPENS(open64, (const char *p, int flags, ...), fails(p), (p, flags, mode))
OPENS(openat, (int d, const char *p, int flags, ...), fails_at(d, p),
      (d, p, flags, mode))
OPENS(openat64, (int d, const char *p, int flags, ...), fails_at(d, p),
      (d, p, flags, mode))
OF_PATH(rename, fails(b), (const char *a, const char *b), (a, b))
OF_PATH(renameat, fails_at(e, b), (int d, const char *a, int e, const char *b),
        (d, a, e, b))
OF_PATH(link, fails(b), (const char *a, const char *b), (a, b))
OF_PATH(symlink, fails(b), (const char *a, const char *b), (a, b))
OF_PATH(symlinkat, fails_at(d, b), (const char *a, int d, const char *b), (a, d, b))
OF_PATH(mkdir, fails(p), (const char *p, mode_t m), (p, m))
OF_PATH(mkdirat, fails_at(d, p), (int d, const char *p, mode_t m), (d, p, m))
OF_FILE(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n))
OF_FILE(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
OF_FILE(ssize_t, pwrite64, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
OF_FILE(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
OF_FILE(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t o),
        (fd, v, n, o))
OF_FILE(int, ftruncate, (int fd, off_t n), (fd, n))
OF_FILE(int, ftruncate64, (int fd, off_t n), (fd, n))
OF_FILE(int, fsync, (int fd), (fd))
OF_FILE(int, fdatasync, (int fd), (fd))
OF_FILE(int, syncfs, (int fd), (fd))

int posix_fallocate(int fd, off_t at, off_t n) {
  return fails_at(fd, 0) ? number : REAL(posix_fallocate)(fd, at, n);
}
int posix_fallocate64(int fd, off_t at, off_t n) {
  return fails_at(fd, 0) ? number : REAL(posix_fallocate64)(fd, at, n);
}
