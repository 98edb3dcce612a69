/* Where the paths of a program lead: to a tier, to the real dataset, or elsewhere. */
#include "redirect.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define LONG_BYTES (4 * PATH_MAX) /* a folder's path, the program's, and a tier's */

/* ---- Memory of a target ---------------------------------------------------------- */

void release(struct target *target) {
  if (__builtin_expect(target->buffer != target->usual, false))
    munmap(target->buffer, LONG_BYTES);
}

/* Takes memory for the longest paths; what the usual buffer has, stays in it. */
static bool take_long_buffer(struct target *target) {
  char *memory = target->buffer == target->usual ? map_memory(LONG_BYTES, 0) : NULL;
  if (!memory)
    return false;
  target->buffer = memory;
  target->buffer_bytes = LONG_BYTES;
  return true;
}

/*
 * Writes FOLDER SUFFIX / NAME into the buffer and makes it the target's path; false if
 * that is too long for the kernel. The name may lie in the buffer.
 */
static bool write_path(struct target *target, const char *folder, size_t folder_bytes,
                       const char *suffix, size_t suffix_bytes) {
  size_t start = folder_bytes + suffix_bytes;
  size_t end = start + (target->name_bytes > 0 ? 1 + target->name_bytes : 0);
  if (end + 2 > target->buffer_bytes && (end >= PATH_MAX || !take_long_buffer(target)))
    return false;
  char *path = target->buffer;
  if (target->name_bytes > 0)
    memmove(path + start + 1, target->name, target->name_bytes);
  memcpy(path, folder, folder_bytes);
  memcpy(path + folder_bytes, suffix, suffix_bytes);
  path[start] = '/';
  target->name = path + start + 1;
  if (target->is_folder)
    path[end++] = '/';
  path[end] = '\0';
  target->path = path;
  target->directory = AT_FDCWD;
  return true;
}

/* ---- Absolute paths -------------------------------------------------------------- */

/* Whether a path is absolute, with no empty, "." or ".." component and no slash at its
 * end. */
static bool is_normal(const char *path) {
  if (*path != '/')
    return false;
  for (; *path; path++)
    if (*path == '/') {
      if (path[1] == '/' || path[1] == '\0')
        return false;
      if (path[1] == '.' && (path[2] == '/' || path[2] == '\0' ||
                             (path[2] == '.' && (path[3] == '/' || path[3] == '\0'))))
        return false;
    }
  return true;
}

/* A path that is being made absolute. */
struct text {
  char *path;
  size_t end, bytes;
  size_t resolved; /* so far the kernel would follow no link */
};

static bool is_below(const char *path, size_t bytes, const char *root, size_t length) {
  return bytes >= length && memcmp(path, root, length) == 0 &&
         (bytes == length || path[length] == '/');
}

/* Puts another folder in the place of the first `bytes` bytes. */
static bool replace_folder(struct text *text, size_t bytes, const char *folder,
                           size_t folder_bytes) {
  size_t rest = text->end - bytes;
  if (folder_bytes + rest + 2 > text->bytes)
    return false;
  memmove(text->path + folder_bytes, text->path + bytes, rest);
  memcpy(text->path, folder, folder_bytes);
  text->end = folder_bytes + rest;
  text->path[text->end] = '\0';
  return true;
}

/*
 * Resolves the folder that the text names as the kernel does before it goes to its
 * parent. The virtual dataset and what is above it have no links.
 */
static bool resolve(struct text *text) {
  const char *root = table->roots[0];
  size_t length = table->root_bytes[0];
  bool is_virtual = false;
  text->path[text->end] = '\0';
  if (table->is_virtual) {
    if (is_below(root, length, text->path, text->end))
      return true;
    is_virtual = is_below(text->path, text->end, root, length);
    if (is_virtual && !replace_folder(text, length, table->real, table->real_bytes))
      return false;
  }
  int fd = (int)syscall(SYS_openat, AT_FDCWD, text->end ? text->path : "/",
                        O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0)
    return false;
  bool is_known = folder_of(fd, text->path, text->bytes);
  syscall(SYS_close, fd);
  if (!is_known)
    return false;
  text->end = strlen(text->path);
  if (is_virtual && is_below(text->path, text->end, table->real, table->real_bytes))
    return replace_folder(text, table->real_bytes, root, length);
  return true;
}

size_t virtual_folder_bytes;

static bool starts_in(struct text *text, int directory) {
  if (directory == AT_FDCWD && virtual_folder_bytes) {
    text->end = text->resolved = virtual_folder_bytes;
    if (text->end >= text->bytes)
      return false;
    memcpy(text->path, table->roots[0], text->end);
    return true;
  }
  if (!folder_of(directory, text->path, text->bytes) || *text->path != '/')
    return false;
  text->end = text->path[1] ? strlen(text->path) : 0;
  text->resolved = text->end;
  return true;
}

/* Writes a path as an absolute one; false if it has no room or does not exist. */
static bool write_absolute(int directory, const char *path, struct target *target) {
  struct text text = {target->buffer, 0, target->buffer_bytes, 0};
  if (*path != '/' && !starts_in(&text, directory))
    return false;
  for (const char *part = path; *part;) {
    part += strspn(part, "/");
    size_t length = strcspn(part, "/");
    bool is_parent = length == 2 && memcmp(part, "..", 2) == 0;
    target->is_folder = length == 0 || is_parent || (length == 1 && *part == '.');
    if (is_parent && text.end > text.resolved && !resolve(&text))
      return false;
    if (text.end + length + 2 > text.bytes)
      return false;
    text.end = add_component(text.path, text.end, part, length);
    if (is_parent || text.end < text.resolved)
      text.resolved = text.end;
    part += length;
  }
  text.path[text.end] = '\0';
  return true;
}

static const char *make_absolute(int directory, const char *path,
                                 struct target *target) {
  if (LIKELY(is_normal(path)))
    return path;
  if (strnlen(path, PATH_MAX) == PATH_MAX)
    return NULL;
  if (write_absolute(directory, path, target))
    return target->buffer;
  if (take_long_buffer(target) && write_absolute(directory, path, target))
    return target->buffer;
  return NULL;
}

/* ---- Targets --------------------------------------------------------------------- */

/* Finds what follows a root of the dataset in an absolute path. */
static bool find_name(const char *path, uint32_t first_root, struct target *target) {
  for (uint32_t i = first_root; i < table->n_roots; i++) {
    size_t length = table->root_bytes[i];
    if (strncmp(path, table->roots[i], length) != 0 ||
        (path[length] != '/' && path[length] != '\0'))
      continue;
    target->name = path + length + (path[length] == '/');
    target->name_bytes = strlen(target->name);
    target->is_virtual = table->is_virtual && i == 0;
    return true;
  }
  return false;
}

/* The epoch that opening a name marks; -1: none. */
static int marked_epoch(const char *name) {
  static const char prefix[] = ".tierscope-epoch-";
  if (LIKELY(strncmp(name, prefix, sizeof prefix - 1) != 0))
    return -1;
  const char *number = name + sizeof prefix - 1;
  size_t length = strspn(number, "0123456789");
  return length > 0 && length <= 9 && !number[length] ? atoi(number) : -1;
}

/* Writes the path of a known file on its tier. */
static void direct(struct target *target, uint32_t state) {
  char suffix[32] = "/gfs.ep";
  char digits[12], *digit = digits + sizeof digits;
  size_t end = 7;
  target->epoch = own_epoch();
  for (int left = target->epoch; left > 0 || digit == digits + sizeof digits;
       left /= 10)
    *--digit = (char)('0' + left % 10);
  while (digit < digits + sizeof digits)
    suffix[end++] = *digit++;
  bool is_on_lfs = (state & (STAGED | WRITTEN)) == STAGED;
  suffix[1] = is_on_lfs ? 'l' : 'g';
  if (write_path(target, table->links, table->links_bytes, suffix, end))
    target->place = is_on_lfs ? ON_LFS : ON_GFS;
}

/* The path that the program means: the real one in the place of a virtual one. */
static void direct_as_given(struct target *target) {
  target->place = AS_GIVEN;
  target->directory = target->given_directory;
  target->path = target->given;
  if (target->is_virtual)
    write_path(target, table->real, table->real_bytes, "", 0);
}

static void find_below(enum purpose purpose, struct target *target) {
  bool opens = purpose == READ || purpose == READ_LINK || purpose == WRITE;
  int epoch = opens ? marked_epoch(target->name) : -1;
  if (epoch >= 0) {
    target->is_mark = true;
    tierscope_epoch(epoch);
    return;
  }
  if (purpose != NAME && purpose != NAME_OR_ABOVE && !target->is_folder)
    target->slot = find_slot(target->name, target->name_bytes);
  if (target->slot && opens)
    target->decided_ns = now_ns();
  uint32_t state = target->slot ? __atomic_load_n(target->slot, __ATOMIC_ACQUIRE) : 0;
  if ((purpose == LOOK_LINK || purpose == READ_LINK) && state & IS_LINK)
    target->slot = NULL; /* the copy is none */
  if (target->slot && purpose != WRITE && purpose != CHANGE)
    direct(target, state);
  if (target->place == AS_GIVEN)
    direct_as_given(target);
}

/*
 * Folders above the virtual dataset are there, as programs look for them, make them and
 * go there.
 */
static bool is_above_virtual(const char *path, enum purpose purpose) {
  return table->is_virtual &&
         (purpose == LOOK || purpose == LOOK_LINK || purpose == NAME_OR_ABOVE) &&
         is_below(table->roots[0], table->root_bytes[0], path, strlen(path));
}

/* Not inlined: callers' paths are declared as never NULL, which a program may ignore.
 */
__attribute__((noinline)) void find(int directory, const char *path,
                                    enum purpose purpose, struct target *target) {
  target->directory = target->given_directory = directory;
  target->path = target->given = path;
  target->place = AS_GIVEN;
  target->is_mark = target->is_virtual = target->is_folder = false;
  target->has_fallen_back = false;
  target->epoch = 0;
  target->decided_ns = 0;
  target->n_above = 0;
  target->slot = NULL;
  target->name = NULL;
  if (!start() || !path || !*path ||
      ((purpose == NAME || purpose == NAME_OR_ABOVE) && !table->is_virtual))
    return;
  int saved_errno = errno;
  const char *absolute = make_absolute(directory, path, target);
  if (absolute && find_name(absolute, 0, target))
    find_below(purpose, target);
  else if (absolute && is_above_virtual(absolute, purpose)) {
    target->n_above = strlen(absolute);
    target->path = table->links; /* a folder that is there */
  } else if (absolute && virtual_folder_bytes && *path != '/' && directory == AT_FDCWD)
    target->path = absolute; /* the kernel knows another current folder */
  errno = saved_errno;
}

bool try_next(struct target *target) {
  switch (target->place) {
  case ON_LFS:
    target->buffer[table->links_bytes + 1] = 'g'; /* of gfs.ep<N> */
    target->place = ON_GFS;
    target->has_fallen_back = true;
    return true;
  case ON_GFS:
    direct_as_given(target);
    return true;
  default:
    return false;
  }
}

void choose_readable(struct target *target) {
  int saved_errno = errno;
  while (target->place != AS_GIVEN &&
         syscall(SYS_faccessat, AT_FDCWD, target->path, R_OK) != 0)
    try_next(target);
  errno = saved_errno;
}

/*
 * Whether an open file is a plain one where the dataset's files are. A parallel file
 * system asks no server for that.
 */
static bool is_beside_dataset(int fd) {
#ifdef STATX_TYPE /* not of glibc before 2.28 */
  struct statx info;
  return syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE,
                 &info) == 0 &&
         S_ISREG(info.stx_mode) &&
         makedev(info.stx_dev_major, info.stx_dev_minor) == table->device;
#else
  struct stat info;
  return syscall(SYS_fstat, fd, &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_dev == table->device;
#endif
}

bool leads_to_dataset(int fd, enum purpose purpose, struct target *target) {
  if (LIKELY(!table) || fd < 0)
    return false;
  int saved_errno = errno;
  bool leads =
      is_beside_dataset(fd) &&
      (folder_of(fd, target->buffer, target->buffer_bytes) ||
       (take_long_buffer(target) && folder_of(fd, target->buffer, LONG_BYTES)));
  errno = saved_errno;
  target->is_folder = false;
  if (!leads || !find_name(target->buffer, table->is_virtual, target))
    return false;
  target->slot = find_slot(target->name, target->name_bytes);
  if (!target->slot)
    return false;
  count(REACHED_BY_LINKS);
  if (purpose == WRITE)
    return false;
  target->is_virtual = false; /* its own path has opened it */
  target->decided_ns = now_ns();
  direct(target, __atomic_load_n(target->slot, __ATOMIC_ACQUIRE));
  return true;
}
