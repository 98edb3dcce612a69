/* Wrappers of calls on descriptors and paths: module POSIX. */
#include "trace.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Open ---------------------------------------------------------------------- */

static int opened(struct file *file, int directory_fd, const char *path, int64_t mode,
                  int fd, double start_s) {
  if (fd < 0)
    return fd;
  if (!file)
    file = path_file(directory_fd, path);
  file = note_opened(fd, file, path);
  if (file)
    record_open(file, mode, false, start_s);
  return fd;
}

#define TRACED_OPEN(name)                                                              \
  int name(const char *path, int flags, ...) {                                         \
    MODE_ARGUMENT(mode, flags)                                                         \
    struct file *file = file_to_open(path);                                            \
    double start_s = call_start();                                                     \
    int fd = REAL(name)(path, flags, mode);                                            \
    return opened(file, AT_FDCWD, path, mode, fd, start_s);                            \
  }

#define TRACED_OPENAT(name)                                                            \
  int name(int directory_fd, const char *path, int flags, ...) {                       \
    MODE_ARGUMENT(mode, flags)                                                         \
    struct file *file = file_to_open(path);                                            \
    double start_s = call_start();                                                     \
    int fd = REAL(name)(directory_fd, path, flags, mode);                              \
    return opened(file, directory_fd, path, mode, fd, start_s);                        \
  }

#define TRACED_CREAT(name)                                                             \
  int name(const char *path, mode_t mode) {                                            \
    struct file *file = file_to_open(path);                                            \
    double start_s = call_start();                                                     \
    int fd = REAL(name)(path, mode);                                                   \
    return opened(file, AT_FDCWD, path, mode, fd, start_s);                            \
  }

/* libc opens these inside. They write the name that they have made into `path`. */
#define TRACED_TEMPORARY(name, parameters, arguments)                                  \
  int name parameters {                                                                \
    double start_s = call_start();                                                     \
    int fd = REAL(name) arguments;                                                     \
    return opened(NULL, AT_FDCWD, path, 0, fd, start_s);                               \
  }
#define TRACED_TEMPORARIES(suffix)                                                     \
  TRACED_TEMPORARY(mkstemp##suffix, (char *path), (path))                              \
  TRACED_TEMPORARY(mkostemp##suffix, (char *path, int flags), (path, flags))           \
  TRACED_TEMPORARY(mkstemps##suffix, (char *path, int n_end), (path, n_end))           \
  TRACED_TEMPORARY(mkostemps##suffix, (char *path, int n_end, int flags),              \
                   (path, n_end, flags))

TRACED_OPEN(open)
TRACED_OPEN(open64)
TRACED_OPENAT(openat)
TRACED_OPENAT(openat64)
TRACED_CREAT(creat)
TRACED_CREAT(creat64)
TRACED_TEMPORARIES()
TRACED_TEMPORARIES(64)

int shm_open(const char *name, int flags, mode_t mode) {
  char path[PATH_MAX];
  double start_s = call_start();
  int fd = REAL(shm_open)(name, flags, mode);
  if (LIKELY(!*events_path) || fd < 0)
    return fd;
  int length = snprintf(path, sizeof path, "/dev/shm/%s", name);
  return length < PATH_MAX ? opened(NULL, AT_FDCWD, path, mode, fd, start_s) : fd;
}

/* Of the kernel since Linux 5.6, of libc only recently. */
int traced_openat2(int directory_fd, const char *path, const void *how,
                   size_t bytes) __asm__("openat2");

int traced_openat2(int directory_fd, const char *path, const void *how, size_t bytes) {
  double start_s = call_start();
  int fd = (int)syscall(SYS_openat2, directory_fd, path, how, bytes);
  uint64_t mode = fd < 0 ? 0 : ((const uint64_t *)how)[1];
  return opened(NULL, directory_fd, path, (int64_t)mode, fd, start_s);
}

/* What programs built with _FORTIFY_SOURCE call; passed on under the plain names. */
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }
int __openat_2(int directory_fd, const char *path, int flags) {
  return openat(directory_fd, path, flags);
}
int __openat64_2(int directory_fd, const char *path, int flags) {
  return openat64(directory_fd, path, flags);
}

/* ---- Read and write ------------------------------------------------------------ */

#define TRACED_TRANSFER(name, lane, offset, parameters, arguments)                     \
  ssize_t name parameters {                                                            \
    struct file *file = used_file(fd);                                                 \
    if (LIKELY(!file))                                                                 \
      return REAL(name) arguments;                                                     \
    double start_s = now_s();                                                          \
    ssize_t bytes = REAL(name) arguments;                                              \
    record_transfer(file, lane, offset, bytes, start_s);                               \
    return bytes;                                                                      \
  }

#define TRACED_READ(name, offset, parameters, arguments)                               \
  TRACED_TRANSFER(name, READ_LANE, offset, parameters, arguments)
#define TRACED_WRITE(name, offset, parameters, arguments)                              \
  TRACED_TRANSFER(name, WRITE_LANE, offset, parameters, arguments)

TRACED_READ(read, -1, (int fd, void *data, size_t size), (fd, data, size))
TRACED_READ(pread, at, (int fd, void *data, size_t size, off_t at),
            (fd, data, size, at))
TRACED_READ(pread64, at, (int fd, void *data, size_t size, off64_t at),
            (fd, data, size, at))
TRACED_READ(readv, -1, (int fd, const struct iovec *parts, int n), (fd, parts, n))
TRACED_READ(preadv, at, (int fd, const struct iovec *parts, int n, off_t at),
            (fd, parts, n, at))
TRACED_READ(preadv64, at, (int fd, const struct iovec *parts, int n, off64_t at),
            (fd, parts, n, at))
TRACED_READ(preadv2, at,
            (int fd, const struct iovec *parts, int n, off_t at, int flags),
            (fd, parts, n, at, flags))
TRACED_READ(preadv64v2, at,
            (int fd, const struct iovec *parts, int n, off64_t at, int flags),
            (fd, parts, n, at, flags))

TRACED_WRITE(write, -1, (int fd, const void *data, size_t size), (fd, data, size))
TRACED_WRITE(pwrite, at, (int fd, const void *data, size_t size, off_t at),
             (fd, data, size, at))
TRACED_WRITE(pwrite64, at, (int fd, const void *data, size_t size, off64_t at),
             (fd, data, size, at))
TRACED_WRITE(writev, -1, (int fd, const struct iovec *parts, int n), (fd, parts, n))
TRACED_WRITE(pwritev, at, (int fd, const struct iovec *parts, int n, off_t at),
             (fd, parts, n, at))
TRACED_WRITE(pwritev64, at, (int fd, const struct iovec *parts, int n, off64_t at),
             (fd, parts, n, at))
TRACED_WRITE(pwritev2, at,
             (int fd, const struct iovec *parts, int n, off_t at, int flags),
             (fd, parts, n, at, flags))
TRACED_WRITE(pwritev64v2, at,
             (int fd, const struct iovec *parts, int n, off64_t at, int flags),
             (fd, parts, n, at, flags))

ssize_t __read_chk(int fd, void *data, size_t size, size_t buffer_size) {
  check_buffer(size, buffer_size);
  return read(fd, data, size);
}

ssize_t __pread_chk(int fd, void *data, size_t size, off_t at, size_t buffer_size) {
  check_buffer(size, buffer_size);
  return pread(fd, data, size, at);
}

ssize_t __pread64_chk(int fd, void *data, size_t size, off64_t at, size_t buffer_size) {
  check_buffer(size, buffer_size);
  return pread64(fd, data, size, at);
}

/* What dprintf writes, libc writes inside. */
#define TRACED_PRINT(name, parameters, arguments)                                      \
  int name parameters {                                                                \
    struct file *file = used_file(fd);                                                 \
    double start_s = file ? now_s() : 0;                                               \
    int bytes = REAL(name) arguments;                                                  \
    if (file)                                                                          \
      record_transfer(file, WRITE_LANE, -1, bytes, start_s);                           \
    return bytes;                                                                      \
  }

int __vdprintf_chk(int fd, int flag, const char *format, va_list values);

TRACED_PRINT(vdprintf, (int fd, const char *format, va_list values),
             (fd, format, values))
TRACED_PRINT(__vdprintf_chk, (int fd, int flag, const char *format, va_list values),
             (fd, flag, format, values))

int dprintf(int fd, const char *format, ...) {
  va_list values;
  va_start(values, format);
  int bytes = vdprintf(fd, format, values);
  va_end(values);
  return bytes;
}

int __dprintf_chk(int fd, int flag, const char *format, ...) {
  va_list values;
  va_start(values, format);
  int bytes = __vdprintf_chk(fd, flag, format, values);
  va_end(values);
  return bytes;
}

/* ---- Copies by the kernel, mappings, advice ------------------------------------ */

/*
 * A copy's time counts once: as reading, or as writing if its source is not traced, or
 * lies in memory and in no tier.
 */
static ssize_t copied(int source_fd, const off64_t *source_end, int target_fd,
                      const off64_t *target_end, ssize_t bytes, double start_s) {
  if (LIKELY(!*events_path) || bytes < 0)
    return bytes;
  struct file *source = used_file(source_fd);
  struct file *target = used_file(target_fd);
  bool is_read = source && !(target && lies_in_memory(source));
  if (source)
    record_transfer(source, READ_LANE, source_end ? *source_end - bytes : -1, bytes,
                    is_read ? start_s : now_s());
  if (target)
    record_transfer(target, WRITE_LANE, target_end ? *target_end - bytes : -1, bytes,
                    is_read ? now_s() : start_s);
  return bytes;
}

#define TRACED_SENDFILE(name, offset_type)                                             \
  ssize_t name(int target, int source, offset_type *offset, size_t size) {             \
    double start_s = call_start();                                                     \
    ssize_t bytes = REAL(name)(target, source, offset, size);                          \
    return copied(source, offset, target, NULL, bytes, start_s);                       \
  }
#define TRACED_COPY(name)                                                              \
  ssize_t name(int source, off64_t *source_offset, int target, off64_t *target_offset, \
               size_t size, unsigned flags) {                                          \
    double start_s = call_start();                                                     \
    ssize_t bytes =                                                                    \
        REAL(name)(source, source_offset, target, target_offset, size, flags);         \
    return copied(source, source_offset, target, target_offset, bytes, start_s);       \
  }

TRACED_SENDFILE(sendfile, off_t)
TRACED_SENDFILE(sendfile64, off64_t)
TRACED_COPY(copy_file_range)
TRACED_COPY(splice)

/* The part of a mapping that is in its file. */
static uint64_t mapped_bytes(int fd, size_t bytes, off64_t offset) {
  struct stat info;
  if (REAL(fstat)(fd, &info) != 0 || !S_ISREG(info.st_mode))
    return bytes;
  uint64_t left = info.st_size > offset ? (uint64_t)(info.st_size - offset) : 0;
  return bytes < left ? bytes : left;
}

static void mapped_other(struct file *file, const void *map, uint64_t bytes,
                         bool is_written) {
  int saved_errno = errno;
  if (file && file->mount && is_written)
    note_mapping(file, map, bytes);
  if (file && file->mount && !lies_in_memory(file))
    record_other_mapping(file, bytes);
  errno = saved_errno;
}

/* Loads and stores in a mapping are no calls: their number and time are unknown. */
#define TRACED_MMAP(name, offset_type)                                                 \
  void *name(void *wanted, size_t bytes, int protection, int flags, int fd,            \
             offset_type offset) {                                                     \
    if (fd < 0 || flags & MAP_ANONYMOUS)                                               \
      return map_anonymous(wanted, bytes, protection, flags, fd);                      \
    void *map = REAL(name)(wanted, bytes, protection, flags, fd, offset);              \
    struct file *file = *events_path ? descriptor_file(fd) : NULL;                     \
    if (file && map != MAP_FAILED) {                                                   \
      int saved_errno = errno;                                                         \
      record_mapping(file, mapped_bytes(fd, bytes, offset));                           \
      errno = saved_errno;                                                             \
    }                                                                                  \
    if (counts_others && map != MAP_FAILED)                                            \
      mapped_other(used_file(fd), map, mapped_bytes(fd, bytes, offset),                \
                   flags & MAP_SHARED && protection & PROT_WRITE);                     \
    return map;                                                                        \
  }

TRACED_MMAP(mmap, off_t)
TRACED_MMAP(mmap64, off64_t)

/* A call on a descriptor that Darshan has no counter for: its time is META. */
#define TRACED_TIME(type, name, parameters, arguments, is_done)                        \
  type name parameters {                                                               \
    struct file *file = *events_path ? descriptor_file(fd) : NULL;                     \
    if (LIKELY(!file))                                                                 \
      return REAL(name) arguments;                                                     \
    double start_s = now_s();                                                          \
    type result = REAL(name) arguments;                                                \
    if (is_done)                                                                       \
      record_meta_time(file, start_s);                                                 \
    return result;                                                                     \
  }

TRACED_TIME(ssize_t, getdents64, (int fd, void *entries, size_t bytes),
            (fd, entries, bytes), result >= 0)

/* Whether this thread is in such a call: a library behind us may call us again. */
static _Thread_local bool is_advising __attribute__((tls_model("initial-exec")));

/*
 * A library between us and libc may let a call do nothing. Then it also lets one do
 * nothing that libc refuses: no file has a length below 0.
 */
#define TRACED_ADVICE(name, offset_type)                                               \
  int name(int fd, offset_type offset, offset_type length, int advice) {               \
    struct file *file = *events_path ? descriptor_file(fd) : NULL;                     \
    __typeof__(&name) next = REAL(name);                                               \
    if (LIKELY(!file) || is_advising)                                                  \
      return next(fd, offset, length, advice);                                         \
    is_advising = true;                                                                \
    double start_s = now_s();                                                          \
    int error = next(fd, offset, length, advice);                                      \
    if (!error)                                                                        \
      record_meta_time(file, start_s);                                                 \
    if (advice == POSIX_FADV_DONTNEED) {                                               \
      enum drop outcome = error ? DROP_FAILED : DROP_MADE;                             \
      bool is_foreign = libc_##name && (void *)next != libc_##name;                    \
      if (!error && is_foreign && next(fd, 0, -1, advice) == 0)                        \
        outcome = DROP_SWALLOWED;                                                      \
      record_drop(file, outcome);                                                      \
    }                                                                                  \
    is_advising = false;                                                               \
    return error;                                                                      \
  }

TRACED_ADVICE(posix_fadvise, off_t)
TRACED_ADVICE(posix_fadvise64, off64_t)

/* ---- Close and dup ------------------------------------------------------------- */

int close(int fd) {
  struct file *file = descriptor_file(fd);
  /* Before the call: another thread may get the number as soon as it is free. */
  if (!set_descriptor(fd, NULL) || LIKELY(!file))
    return REAL(close)(fd);
  double start_s = now_s();
  int status = REAL(close)(fd);
  if (status == 0)
    record_close(file, start_s);
  return status;
}

/* Darshan does not see these closes; here they only end the attribution. */
int close_range(unsigned first, unsigned last, int flags) {
  int status = REAL(close_range)(first, last, flags);
  if (status == 0 && !(flags & CLOSE_RANGE_CLOEXEC) && getpid() == process_id)
    forget_slots(first, last);
  return status;
}

void closefrom(int first) {
  REAL(closefrom)(first);
  if (getpid() == process_id)
    forget_slots(first < 0 ? 0 : (unsigned)first, INT_MAX);
}

static int duplicated(int old_fd, int new_fd, double start_s) {
  if (new_fd < 0 || new_fd == old_fd)
    return new_fd;
  struct file *file = descriptor_file(old_fd);
  set_descriptor(new_fd, file);
  if (file)
    record_open(file, 0, true, start_s);
  return new_fd;
}

int dup(int old_fd) {
  double start_s = call_start();
  return duplicated(old_fd, REAL(dup)(old_fd), start_s);
}

int dup2(int old_fd, int new_fd) {
  double start_s = call_start();
  return duplicated(old_fd, REAL(dup2)(old_fd, new_fd), start_s);
}

int dup3(int old_fd, int new_fd, int flags) {
  double start_s = call_start();
  return duplicated(old_fd, REAL(dup3)(old_fd, new_fd, flags), start_s);
}

/* Every command takes one argument of at most a pointer's size, or none. */
#define TRACED_FCNTL(name)                                                             \
  int name(int fd, int command, ...) {                                                 \
    va_list arguments;                                                                 \
    va_start(arguments, command);                                                      \
    void *argument = va_arg(arguments, void *);                                        \
    va_end(arguments);                                                                 \
    double start_s = call_start();                                                     \
    int result = REAL(name)(fd, command, argument);                                    \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)                              \
      return duplicated(fd, result, start_s);                                          \
    return result;                                                                     \
  }

TRACED_FCNTL(fcntl)
TRACED_FCNTL(fcntl64)

/* ---- Seek, stat, flush --------------------------------------------------------- */

#define TRACED_SEEK(name, offset_type)                                                 \
  offset_type name(int fd, offset_type offset, int whence) {                           \
    struct file *file = descriptor_file(fd);                                           \
    if (LIKELY(!file))                                                                 \
      return REAL(name)(fd, offset, whence);                                           \
    double start_s = now_s();                                                          \
    offset_type result = REAL(name)(fd, offset, whence);                               \
    if (result >= 0)                                                                   \
      record_seek(file, result, start_s);                                              \
    return result;                                                                     \
  }

TRACED_SEEK(lseek, off_t)
TRACED_SEEK(lseek64, off64_t)

static ssize_t path_status(int directory_fd, const char *path, ssize_t status,
                           double start_s) {
  struct file *file = status >= 0 ? path_file(directory_fd, path) : NULL;
  if (file)
    record_meta(file, STATS, start_s);
  return status;
}

#define TRACED_PATH_STAT(name, directory_fd, parameters, arguments)                    \
  int name parameters {                                                                \
    double start_s = call_start();                                                     \
    return (int)path_status(directory_fd, path, REAL(name) arguments, start_s);        \
  }

/* Other calls that ask for a name, in a command only: Darshan does not see them. */
#define TRACED_LOOK_UP(type, name, directory_fd, parameters, arguments)                \
  type name parameters {                                                               \
    if (LIKELY(!*events_path))                                                         \
      return REAL(name) arguments;                                                     \
    double start_s = call_start();                                                     \
    return (type)path_status(directory_fd, path, REAL(name) arguments, start_s);       \
  }

#define TRACED_FSTAT(name, parameters, arguments)                                      \
  int name parameters {                                                                \
    struct file *file = descriptor_file(fd);                                           \
    if (LIKELY(!file))                                                                 \
      return REAL(name) arguments;                                                     \
    double start_s = now_s();                                                          \
    int status = REAL(name) arguments;                                                 \
    if (status == 0)                                                                   \
      record_meta(file, STATS, start_s);                                               \
    return status;                                                                     \
  }

/* One set for struct stat and one for struct stat64. The __x names are what
 * programs built against glibc before 2.33 call, as most wheels from PyPI do. */
#define TRACED_STATS(suffix, info_type)                                                \
  TRACED_PATH_STAT(stat##suffix, AT_FDCWD, (const char *path, info_type *info),        \
                   (path, info))                                                       \
  TRACED_PATH_STAT(lstat##suffix, AT_FDCWD, (const char *path, info_type *info),       \
                   (path, info))                                                       \
  TRACED_PATH_STAT(fstatat##suffix, fd,                                                \
                   (int fd, const char *path, info_type *info, int flags),             \
                   (fd, path, info, flags))                                            \
  TRACED_FSTAT(fstat##suffix, (int fd, info_type *info), (fd, info))                   \
  TRACED_PATH_STAT(__xstat##suffix, AT_FDCWD,                                          \
                   (int version, const char *path, info_type *info),                   \
                   (version, path, info))                                              \
  TRACED_PATH_STAT(__lxstat##suffix, AT_FDCWD,                                         \
                   (int version, const char *path, info_type *info),                   \
                   (version, path, info))                                              \
  TRACED_PATH_STAT(                                                                    \
      __fxstatat##suffix, fd,                                                          \
      (int version, int fd, const char *path, info_type *info, int flags),             \
      (version, fd, path, info, flags))                                                \
  TRACED_FSTAT(__fxstat##suffix, (int version, int fd, info_type *info),               \
               (version, fd, info))

TRACED_STATS(, struct stat)
TRACED_STATS(64, struct stat64)

ssize_t __readlink_chk(const char *path, char *target, size_t bytes, size_t size);
ssize_t __readlinkat_chk(int fd, const char *path, char *target, size_t bytes,
                         size_t size);

#ifdef STATX_BASIC_STATS /* not of glibc before 2.28 */
TRACED_LOOK_UP(int, statx, fd,
               (int fd, const char *path, int flags, unsigned mask, struct statx *info),
               (fd, path, flags, mask, info))
#endif
TRACED_LOOK_UP(int, access, AT_FDCWD, (const char *path, int mode), (path, mode))
TRACED_LOOK_UP(int, eaccess, AT_FDCWD, (const char *path, int mode), (path, mode))
TRACED_LOOK_UP(int, euidaccess, AT_FDCWD, (const char *path, int mode), (path, mode))
TRACED_LOOK_UP(int, faccessat, fd, (int fd, const char *path, int mode, int flags),
               (fd, path, mode, flags))
TRACED_LOOK_UP(ssize_t, readlink, AT_FDCWD,
               (const char *path, char *target, size_t bytes), (path, target, bytes))
TRACED_LOOK_UP(ssize_t, readlinkat, fd,
               (int fd, const char *path, char *target, size_t bytes),
               (fd, path, target, bytes))
TRACED_LOOK_UP(ssize_t, __readlink_chk, AT_FDCWD,
               (const char *path, char *target, size_t bytes, size_t size),
               (path, target, bytes, size))
TRACED_LOOK_UP(ssize_t, __readlinkat_chk, fd,
               (int fd, const char *path, char *target, size_t bytes, size_t size),
               (fd, path, target, bytes, size))

/* ---- Folders, names ------------------------------------------------------------ */

/* In a command only: a benchmark's log has no records of folders. */

DIR *opendir(const char *path) {
  double start_s = call_start();
  DIR *directory = REAL(opendir)(path);
  if (LIKELY(!*events_path) || !directory)
    return directory;
  opened(NULL, AT_FDCWD, path, 0, dirfd(directory), start_s);
  return directory;
}

int closedir(DIR *directory) {
  DIR *volatile given = directory; /* else "never NULL", as glibc declares it */
  if (!given) {                    /* dirfd would crash */
    errno = EINVAL;
    return -1;
  }
  int fd = dirfd(directory);
  struct file *file = *events_path ? descriptor_file(fd) : NULL;
  bool is_ours = set_descriptor(fd, NULL);
  double start_s = call_start();
  int status = REAL(closedir)(directory);
  if (file && is_ours && status == 0)
    record_close(file, start_s);
  return status;
}

#define TRACED_READDIR(type, name, parameters, arguments)                              \
  type name parameters {                                                               \
    struct file *file = *events_path ? descriptor_file(dirfd(directory)) : NULL;       \
    if (LIKELY(!file))                                                                 \
      return REAL(name) arguments;                                                     \
    double start_s = now_s();                                                          \
    type result = REAL(name) arguments;                                                \
    record_meta_time(file, start_s);                                                   \
    return result;                                                                     \
  }
/* libc opens, reads and closes the folder inside. */
#define TRACED_SCANDIR(name, folder_fd, parameters, arguments)                         \
  int name parameters {                                                                \
    double start_s = call_start();                                                     \
    int n = REAL(name) arguments;                                                      \
    struct file *file = *events_path && n >= 0 ? path_file(folder_fd, path) : NULL;    \
    if (file)                                                                          \
      record_open(file, 0, false, start_s);                                            \
    return n;                                                                          \
  }
#define TRACED_LISTINGS(suffix, entry)                                                 \
  TRACED_READDIR(entry *, readdir##suffix, (DIR * directory), (directory))             \
  TRACED_READDIR(int, readdir##suffix##_r,                                             \
                 (DIR * directory, entry * one, entry * *next),                        \
                 (directory, one, next))                                               \
  TRACED_SCANDIR(scandir##suffix, AT_FDCWD,                                            \
                 (const char *path, entry ***found, int (*filter)(const entry *),      \
                  int (*order)(const entry **, const entry **)),                       \
                 (path, found, filter, order))                                         \
  TRACED_SCANDIR(scandirat##suffix, fd,                                                \
                 (int fd, const char *path, entry ***found,                            \
                  int (*filter)(const entry *),                                        \
                  int (*order)(const entry **, const entry **)),                       \
                 (fd, path, found, filter, order))

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* readdir_r */
TRACED_LISTINGS(, struct dirent)
TRACED_LISTINGS(64, struct dirent64)
#pragma GCC diagnostic pop

static int renamed(int source_fd, const char *source, int target_fd, const char *target,
                   int status, double start_s) {
  if (LIKELY(!*events_path) || status != 0)
    return status;
  struct file *source_file = path_file(source_fd, source);
  struct file *target_file = path_file(target_fd, target);
  if (source_file || target_file)
    record_rename(source_file, target_file, start_s);
  else
    record_other_path(target_fd, target, start_s);
  return status;
}

int rename(const char *source, const char *target) {
  double start_s = call_start();
  int status = REAL(rename)(source, target);
  return renamed(AT_FDCWD, source, AT_FDCWD, target, status, start_s);
}

int renameat(int source_fd, const char *source, int target_fd, const char *target) {
  double start_s = call_start();
  int status = REAL(renameat)(source_fd, source, target_fd, target);
  return renamed(source_fd, source, target_fd, target, status, start_s);
}

int renameat2(int source_fd, const char *source, int target_fd, const char *target,
              unsigned flags) {
  double start_s = call_start();
  int status = REAL(renameat2)(source_fd, source, target_fd, target, flags);
  return renamed(source_fd, source, target_fd, target, status, start_s);
}

#define TRACED_FLUSH(name, counter)                                                    \
  int name(int fd) {                                                                   \
    struct file *file = used_file(fd);                                                 \
    if (LIKELY(!file))                                                                 \
      return REAL(name)(fd);                                                           \
    double start_s = now_s();                                                          \
    int status = REAL(name)(fd);                                                       \
    if (status == 0)                                                                   \
      record_flush(file, counter, start_s);                                            \
    return status;                                                                     \
  }

TRACED_FLUSH(fsync, FSYNCS)
TRACED_FLUSH(fdatasync, FDSYNCS)

/* Like these, but Darshan does not know them: only of the program of a sweep. */
#define TRACED_SYNC(name, of_file, parameters, arguments)                              \
  int name parameters {                                                                \
    struct file *file = counts_others ? of_file : NULL;                                \
    double start_s = file ? now_s() : 0;                                               \
    int status = REAL(name) arguments;                                                 \
    if (file && status == 0)                                                           \
      record_flush(file, FSYNCS, start_s);                                             \
    return status;                                                                     \
  }

TRACED_SYNC(syncfs, used_file(fd), (int fd), (fd))
TRACED_SYNC(sync_file_range, used_file(fd),
            (int fd, off64_t offset, off64_t bytes, unsigned flags),
            (fd, offset, bytes, flags))
TRACED_SYNC(msync, mapped_file(address), (void *address, size_t bytes, int flags),
            (address, bytes, flags))
