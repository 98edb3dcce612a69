/* Wrappers of calls that ask for, change or list names. */
#include "redirect.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

/* ---- Attributes of a file ----------------------------------------------------------
 */

#define OF_AT(flags) ((flags) & AT_SYMLINK_NOFOLLOW ? LOOK_LINK : LOOK)

int __xstat(int version, const char *path, struct stat *info);
int __lxstat(int version, const char *path, struct stat *info);
int __fxstatat(int version, int fd, const char *path, struct stat *info, int flags);
int __xstat64(int version, const char *path, struct stat64 *info);
int __lxstat64(int version, const char *path, struct stat64 *info);
int __fxstatat64(int version, int fd, const char *path, struct stat64 *info, int flags);

/* One set for struct stat and one for struct stat64. The __x names are what programs
 * built against glibc before 2.33 call, as most wheels from PyPI do. */
#define REDIRECTED_STATS(suffix, info_type)                                            \
  REDIRECTED(int, stat##suffix, result < 0, LOOK, AT_FDCWD,                            \
             (const char *path, info_type *info), (target.path, info))                 \
  REDIRECTED(int, lstat##suffix, result < 0, LOOK_LINK, AT_FDCWD,                      \
             (const char *path, info_type *info), (target.path, info))                 \
  REDIRECTED(int, fstatat##suffix, result < 0, OF_AT(flags), fd,                       \
             (int fd, const char *path, info_type *info, int flags),                   \
             (target.directory, target.path, info, flags))                             \
  REDIRECTED(int, __xstat##suffix, result < 0, LOOK, AT_FDCWD,                         \
             (int version, const char *path, info_type *info),                         \
             (version, target.path, info))                                             \
  REDIRECTED(int, __lxstat##suffix, result < 0, LOOK_LINK, AT_FDCWD,                   \
             (int version, const char *path, info_type *info),                         \
             (version, target.path, info))                                             \
  REDIRECTED(int, __fxstatat##suffix, result < 0, OF_AT(flags), fd,                    \
             (int version, int fd, const char *path, info_type *info, int flags),      \
             (version, target.directory, target.path, info, flags))

REDIRECTED_STATS(, struct stat)
REDIRECTED_STATS(64, struct stat64)

#ifdef STATX_BASIC_STATS /* not of glibc before 2.28 */
REDIRECTED(int, statx, result < 0, OF_AT(flags), fd,
           (int fd, const char *path, int flags, unsigned mask, struct statx *info),
           (target.directory, target.path, flags, mask, info))
#endif

/* Whether a file may be written is asked of the real one. */
#define OF_ACCESS(mode) ((mode) & W_OK ? NAME : LOOK)

REDIRECTED(int, access, result < 0, OF_ACCESS(mode), AT_FDCWD,
           (const char *path, int mode), (target.path, mode))
REDIRECTED(int, eaccess, result < 0, OF_ACCESS(mode), AT_FDCWD,
           (const char *path, int mode), (target.path, mode))
REDIRECTED(int, euidaccess, result < 0, OF_ACCESS(mode), AT_FDCWD,
           (const char *path, int mode), (target.path, mode))
REDIRECTED(int, faccessat, result < 0, (mode)&W_OK ? NAME : OF_AT(flags), fd,
           (int fd, const char *path, int mode, int flags),
           (target.directory, target.path, mode, flags))

/* What only the GFS tells. */
#define NAMED(type, name, failed, folder, parameters, arguments)                       \
  REDIRECTED(type, name, failed, NAME, folder, parameters, arguments)

ssize_t __readlink_chk(const char *path, char *text, size_t bytes, size_t size);
ssize_t __readlinkat_chk(int fd, const char *path, char *text, size_t bytes,
                         size_t size);
char *__realpath_chk(const char *path, char *resolved, size_t size);

REDIRECTED(ssize_t, readlink, result < 0, NAME_OR_ABOVE, AT_FDCWD,
           (const char *path, char *text, size_t bytes), (target.path, text, bytes))
REDIRECTED(ssize_t, readlinkat, result < 0, NAME_OR_ABOVE, fd,
           (int fd, const char *path, char *text, size_t bytes),
           (target.directory, target.path, text, bytes))
REDIRECTED(ssize_t, __readlink_chk, result < 0, NAME_OR_ABOVE, AT_FDCWD,
           (const char *path, char *text, size_t bytes, size_t size),
           (target.path, text, bytes, size))
REDIRECTED(ssize_t, __readlinkat_chk, result < 0, NAME_OR_ABOVE, fd,
           (int fd, const char *path, char *text, size_t bytes, size_t size),
           (target.directory, target.path, text, bytes, size))
NAMED(char *, realpath, !result, AT_FDCWD, (const char *path, char *resolved),
      (target.path, resolved))
NAMED(char *, __realpath_chk, !result, AT_FDCWD,
      (const char *path, char *resolved, size_t size), (target.path, resolved, size))
NAMED(char *, canonicalize_file_name, !result, AT_FDCWD, (const char *path),
      (target.path))
NAMED(int, statfs, result < 0, AT_FDCWD, (const char *path, struct statfs *info),
      (target.path, info))
NAMED(int, statfs64, result < 0, AT_FDCWD, (const char *path, struct statfs64 *info),
      (target.path, info))
NAMED(int, statvfs, result < 0, AT_FDCWD, (const char *path, struct statvfs *info),
      (target.path, info))
NAMED(int, statvfs64, result < 0, AT_FDCWD, (const char *path, struct statvfs64 *info),
      (target.path, info))
NAMED(long, pathconf, result < 0, AT_FDCWD, (const char *path, int what),
      (target.path, what))
NAMED(int, inotify_add_watch, result < 0, AT_FDCWD,
      (int fd, const char *path, uint32_t mask), (fd, target.path, mask))
NAMED(ssize_t, getxattr, result < 0, AT_FDCWD,
      (const char *path, const char *name, void *value, size_t size),
      (target.path, name, value, size))
NAMED(ssize_t, lgetxattr, result < 0, AT_FDCWD,
      (const char *path, const char *name, void *value, size_t size),
      (target.path, name, value, size))
NAMED(ssize_t, listxattr, result < 0, AT_FDCWD,
      (const char *path, char *names, size_t size), (target.path, names, size))
NAMED(ssize_t, llistxattr, result < 0, AT_FDCWD,
      (const char *path, char *names, size_t size), (target.path, names, size))

/* ---- Folders -----------------------------------------------------------------------
 */

NAMED(DIR *, opendir, !result, AT_FDCWD, (const char *path), (target.path))
NAMED(int, chroot, result < 0, AT_FDCWD, (const char *path), (target.path))
REDIRECTED(int, mkdir, result < 0, NAME_OR_ABOVE, AT_FDCWD,
           (const char *path, mode_t mode), (target.path, mode))
REDIRECTED(int, mkdirat, result < 0, NAME_OR_ABOVE, fd,
           (int fd, const char *path, mode_t mode),
           (target.directory, target.path, mode))
NAMED(int, mkfifo, result < 0, AT_FDCWD, (const char *path, mode_t mode),
      (target.path, mode))
NAMED(int, mkfifoat, result < 0, fd, (int fd, const char *path, mode_t mode),
      (target.directory, target.path, mode))
NAMED(int, mknod, result < 0, AT_FDCWD, (const char *path, mode_t mode, dev_t device),
      (target.path, mode, device))
NAMED(int, mknodat, result < 0, fd,
      (int fd, const char *path, mode_t mode, dev_t device),
      (target.directory, target.path, mode, device))
NAMED(int, rmdir, result < 0, AT_FDCWD, (const char *path), (target.path))

int chdir(const char *path) {
  TARGET(target);
  find(AT_FDCWD, path, NAME_OR_ABOVE, &target);
  int status = REAL(chdir)(target.path);
  if (status == 0)
    virtual_folder_bytes = target.n_above;
  return status;
}

int fchdir(int fd) {
  int status = REAL(fchdir)(fd);
  if (status == 0)
    virtual_folder_bytes = 0;
  return status;
}

/* libc opens folders inside these. They tell of real paths, which are ours, too. */
#define REDIRECTED_LISTINGS(suffix, entry, info_type)                                  \
  NAMED(int, scandir##suffix, result < 0, AT_FDCWD,                                    \
        (const char *path, entry ***found, int (*filter)(const entry *),               \
         int (*order)(const entry **, const entry **)),                                \
        (target.path, found, filter, order))                                           \
  NAMED(int, scandirat##suffix, result < 0, fd,                                        \
        (int fd, const char *path, entry ***found, int (*filter)(const entry *),       \
         int (*order)(const entry **, const entry **)),                                \
        (target.directory, target.path, found, filter, order))                         \
  NAMED(int, ftw##suffix, result < 0, AT_FDCWD,                                        \
        (const char *path, int (*visit)(const char *, const info_type *, int),         \
         int n_descriptors),                                                           \
        (target.path, visit, n_descriptors))                                           \
  NAMED(int, nftw##suffix, result < 0, AT_FDCWD,                                       \
        (const char *path,                                                             \
         int (*visit)(const char *, const info_type *, int, struct FTW *),             \
         int n_descriptors, int flags),                                                \
        (target.path, visit, n_descriptors, flags))

REDIRECTED_LISTINGS(, struct dirent, struct stat)
REDIRECTED_LISTINGS(64, struct dirent64, struct stat64)

#define REDIRECTED_FTS(name, fts_type, entry)                                          \
  fts_type *name(char *const *paths, int options,                                      \
                 int (*order)(const entry **, const entry **)) {                       \
    size_t n = 0;                                                                      \
    while (table && table->is_virtual && paths[n])                                     \
      n++;                                                                             \
    char **real = n > 0 ? calloc(n + 1, sizeof *real) : NULL;                          \
    for (size_t i = 0; real && i < n; i++) {                                           \
      TARGET(target);                                                                  \
      find(AT_FDCWD, paths[i], NAME, &target);                                         \
      real[i] = strdup(target.path);                                                   \
    }                                                                                  \
    fts_type *result = REAL(name)(real ? real : paths, options, order);                \
    for (size_t i = 0; real && i < n; i++)                                             \
      free(real[i]);                                                                   \
    free(real);                                                                        \
    return result;                                                                     \
  }

REDIRECTED_FTS(fts_open, FTS, FTSENT)
REDIRECTED_FTS(fts64_open, FTS64, FTSENT64)

/* libc opens folders inside this, unless it is told how. */
#define REDIRECTED_GLOB(suffix, entry)                                                 \
  int glob##suffix(const char *pattern, int flags, int (*report)(const char *, int),   \
                   glob##suffix##_t *found) {                                          \
    if (!table || !table->is_virtual || !found || flags & GLOB_ALTDIRFUNC)             \
      return REAL(glob##suffix)(pattern, flags, report, found);                        \
    found->gl_opendir = (void *(*)(const char *))opendir;                              \
    found->gl_readdir = (entry * (*)(void *)) readdir##suffix;                         \
    found->gl_closedir = (void (*)(void *))closedir;                                   \
    found->gl_stat = stat##suffix;                                                     \
    found->gl_lstat = lstat##suffix;                                                   \
    int result = REAL(glob##suffix)(pattern, flags | GLOB_ALTDIRFUNC, report, found);  \
    found->gl_flags &= ~GLOB_ALTDIRFUNC;                                               \
    return result;                                                                     \
  }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-function-type"
REDIRECTED_GLOB(, struct dirent)
REDIRECTED_GLOB(64, struct dirent64)
#pragma GCC diagnostic pop

/* ---- Changes -----------------------------------------------------------------------
 */

#define CHANGED(name, folder, parameters, arguments)                                   \
  REDIRECTED(int, name, result < 0, CHANGE, folder, parameters, arguments)

CHANGED(truncate, AT_FDCWD, (const char *path, off_t bytes), (target.path, bytes))
CHANGED(truncate64, AT_FDCWD, (const char *path, off64_t bytes), (target.path, bytes))
CHANGED(unlink, AT_FDCWD, (const char *path), (target.path))
CHANGED(unlinkat, fd, (int fd, const char *path, int flags),
        (target.directory, target.path, flags))
CHANGED(remove, AT_FDCWD, (const char *path), (target.path))
CHANGED(chmod, AT_FDCWD, (const char *path, mode_t mode), (target.path, mode))
CHANGED(lchmod, AT_FDCWD, (const char *path, mode_t mode), (target.path, mode))
CHANGED(fchmodat, fd, (int fd, const char *path, mode_t mode, int flags),
        (target.directory, target.path, mode, flags))
CHANGED(chown, AT_FDCWD, (const char *path, uid_t user, gid_t group),
        (target.path, user, group))
CHANGED(lchown, AT_FDCWD, (const char *path, uid_t user, gid_t group),
        (target.path, user, group))
CHANGED(fchownat, fd, (int fd, const char *path, uid_t user, gid_t group, int flags),
        (target.directory, target.path, user, group, flags))
CHANGED(utime, AT_FDCWD, (const char *path, const struct utimbuf *times),
        (target.path, times))
CHANGED(utimes, AT_FDCWD, (const char *path, const struct timeval times[2]),
        (target.path, times))
CHANGED(lutimes, AT_FDCWD, (const char *path, const struct timeval times[2]),
        (target.path, times))
CHANGED(futimesat, fd, (int fd, const char *path, const struct timeval times[2]),
        (target.directory, target.path, times))
CHANGED(utimensat, fd,
        (int fd, const char *path, const struct timespec times[2], int flags),
        (target.directory, target.path, times, flags))
CHANGED(setxattr, AT_FDCWD,
        (const char *path, const char *name, const void *value, size_t size, int flags),
        (target.path, name, value, size, flags))
CHANGED(lsetxattr, AT_FDCWD,
        (const char *path, const char *name, const void *value, size_t size, int flags),
        (target.path, name, value, size, flags))
CHANGED(removexattr, AT_FDCWD, (const char *path, const char *name),
        (target.path, name))
CHANGED(lremovexattr, AT_FDCWD, (const char *path, const char *name),
        (target.path, name))

/* ---- Two names ----------------------------------------------------------------------
 */

/*
 * After a rename. Of a folder, no slot tells which files have lost their names; the
 * event without a file says so.
 */
static void note_rename(struct target *source, struct target *target) {
  struct stat info;
  if (!table)
    return;
  int saved_errno = errno;
  if (source->slot)
    note_written(source->slot, ALTERED);
  else if (source->name &&
           REAL(fstatat)(target->directory, target->path, &info, AT_SYMLINK_NOFOLLOW) ==
               0 &&
           S_ISDIR(info.st_mode))
    note_event(NULL, own_epoch(), ALTERED, now_ns(), false);
  if (target->slot)
    note_written(target->slot, ALTERED);
  errno = saved_errno;
}

#define TWO_NAMES(name, purpose, folders, parameters, arguments, note)                 \
  int name parameters {                                                                \
    TARGET(source);                                                                    \
    TARGET(target);                                                                    \
    find(FIRST folders, old, purpose, &source);                                        \
    find(SECOND folders, path, purpose, &target);                                      \
    int status = REAL(name) arguments;                                                 \
    if (status == 0)                                                                   \
      note;                                                                            \
    return status;                                                                     \
  }
#define FIRST(one, other) one
#define SECOND(one, other) other

TWO_NAMES(rename, CHANGE, (AT_FDCWD, AT_FDCWD), (const char *old, const char *path),
          (source.path, target.path), note_rename(&source, &target))
TWO_NAMES(renameat, CHANGE, (old_fd, fd),
          (int old_fd, const char *old, int fd, const char *path),
          (source.directory, source.path, target.directory, target.path),
          note_rename(&source, &target))
TWO_NAMES(renameat2, CHANGE, (old_fd, fd),
          (int old_fd, const char *old, int fd, const char *path, unsigned flags),
          (source.directory, source.path, target.directory, target.path, flags),
          note_rename(&source, &target))
TWO_NAMES(link, NAME, (AT_FDCWD, AT_FDCWD), (const char *old, const char *path),
          (source.path, target.path), (void)0)
TWO_NAMES(linkat, NAME, (old_fd, fd),
          (int old_fd, const char *old, int fd, const char *path, int flags),
          (source.directory, source.path, target.directory, target.path, flags),
          (void)0)

/* The text of a link: the kernel will follow it, who knows no virtual path. */
static const char *text_of_link(const char *text, struct target *source) {
  if (!text || *text != '/')
    return text;
  find(AT_FDCWD, text, NAME, source);
  return source->path;
}

int symlink(const char *text, const char *path) {
  TARGET(source);
  TARGET(target);
  const char *real = text_of_link(text, &source);
  find(AT_FDCWD, path, NAME, &target);
  return REAL(symlink)(real, target.path);
}

int symlinkat(const char *text, int fd, const char *path) {
  TARGET(source);
  TARGET(target);
  const char *real = text_of_link(text, &source);
  find(fd, path, NAME, &target);
  return REAL(symlinkat)(real, target.directory, target.path);
}
