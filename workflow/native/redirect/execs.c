/*
 * Programs that escape: what is executed and will not load this library reads past it.
 *
 * The checks run in children of vfork, too: they use the stack and the table only.
 */
#include "redirect.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static ssize_t read_at(int fd, void *data, size_t bytes, off_t offset) {
  return syscall(SYS_pread64, fd, data, bytes, offset);
}

/* ---- What a file is ----------------------------------------------------------------
 */

/* A program for another machine or word size cannot load this library. */
static enum escape check_program(int fd, const char *path) {
  ElfW(Ehdr) elf;
  ElfW(Phdr) part;
  Dl_info own;
  const ElfW(Ehdr) *ours = dladdr((void *)note_exec, &own) ? own.dli_fbase : NULL;
  if (read_at(fd, &elf, sizeof elf, 0) != sizeof elf ||
      memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0)
    return 0; /* no program: a shell reads it */
  if (ours && (elf.e_ident[EI_CLASS] != ours->e_ident[EI_CLASS] ||
               elf.e_machine != ours->e_machine))
    return ESCAPE_FOREIGN;
  for (int i = 0; i < elf.e_phnum; i++) {
    off_t at = (off_t)(elf.e_phoff + (size_t)i * elf.e_phentsize);
    if (read_at(fd, &part, sizeof part, at) != sizeof part || part.p_type == PT_INTERP)
      return 0;
  }
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  bool is_loader = strncmp(name, "ld-", 3) == 0 || strncmp(name, "ld.so", 5) == 0;
  return is_loader ? 0 : ESCAPE_STATIC; /* so are programs in Go */
}

static bool changes_user(const struct stat *info) {
  return (info->st_mode & S_ISUID && info->st_uid != geteuid()) ||
         (info->st_mode & S_ISGID && info->st_mode & S_IXGRP &&
          info->st_gid != getegid());
}

/* The name of a script's interpreter; empty if the file is no script. */
static void read_interpreter(int fd, char *name, size_t bytes) {
  char line[256];
  ssize_t n = read_at(fd, line, sizeof line - 1, 0);
  *name = '\0';
  if (n < 3 || line[0] != '#' || line[1] != '!')
    return;
  line[n] = '\0';
  const char *start = line + 2 + strspn(line + 2, " \t");
  size_t length = strcspn(start, " \t\r\n");
  if (length < bytes)
    snprintf(name, bytes, "%.*s", (int)length, start);
}

/* Why a file, if it is executed, does not load this library; 0: it does, or cannot run.
 */
static enum escape check_file(const char *path, int depth) {
  char interpreter[256];
  struct stat info;
  enum escape reason = 0;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0)
    return 0;
  read_interpreter(fd, interpreter, sizeof interpreter);
  if (syscall(SYS_fstat, fd, &info) != 0 || !S_ISREG(info.st_mode))
    reason = 0;
  else if (!*interpreter)
    reason = changes_user(&info) ? ESCAPE_USER : check_program(fd, path);
  else if (depth < 4)
    reason = check_file(interpreter, depth + 1);
  syscall(SYS_close, fd);
  return reason;
}

/* ---- What a child is told -----------------------------------------------------------
 */

static bool is_told(char *const *environment) {
  bool has_table = false, has_library = false;
  for (char *const *one = environment; one && *one; one++) {
    has_table |= strncmp(*one, "TIERSCOPE_REDIRECT=", 19) == 0;
    has_library |= strncmp(*one, "LD_PRELOAD=", 11) == 0 &&
                   strstr(*one, "libtierscope_redirect") != NULL;
  }
  return has_table && has_library;
}

static void note_escape(const char *path, enum escape reason) {
  count(ESCAPES);
  for (int i = 0; i < N_ESCAPED; i++) {
    struct escaped *one = &table->escaped[i];
    uint32_t nothing = 0, writing = UINT32_MAX;
    if (__atomic_compare_exchange_n(&one->reason, &nothing, writing, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      snprintf(one->path, sizeof one->path, "%s", path);
      __atomic_store_n(&one->reason, reason, __ATOMIC_RELEASE);
      return;
    }
    if (nothing == (uint32_t)reason && strncmp(one->path, path, ESCAPED_BYTES - 1) == 0)
      return; /* it is noted */
  }
}

/* Keeps errno. */
void note_exec(const char *path, char *const *environment) {
  if (!start() || !path)
    return;
  int saved_errno = errno;
  enum escape reason = check_file(path, 0);
  if (!reason && !is_told(environment) &&
      syscall(SYS_faccessat, AT_FDCWD, path, X_OK) == 0)
    reason = ESCAPE_ENVIRONMENT;
  if (reason)
    note_escape(path, reason);
  errno = saved_errno;
}

/* A name without a slash is looked for in PATH, as execvp does. */
static void note_exec_of_name(const char *name, char *const *environment) {
  const char *folders = getenv("PATH");
  char path[1000];
  if (!start())
    return;
  if (!folders)
    folders = "/bin:/usr/bin"; /* as libc */
  if (!name || strchr(name, '/')) {
    note_exec(name, environment);
    return;
  }
  int saved_errno = errno;
  for (const char *at = folders; *at; at += *at == ':') {
    int length = (int)strcspn(at, ":");
    snprintf(path, sizeof path, "%.*s%s%s", length, at, length ? "/" : "", name);
    at += length;
    if (syscall(SYS_faccessat, AT_FDCWD, path, X_OK) == 0) {
      note_exec(path, environment);
      break;
    }
  }
  errno = saved_errno;
}

/* Only a name with a slash is a path. */
static const char *find_program(const char *name, struct target *target) {
  if (!name || !strchr(name, '/'))
    return name;
  find(AT_FDCWD, name, NAME, target);
  return target->path;
}

/* The name of an open file, or of one below an open folder. */
static void note_exec_at(int fd, const char *path, char *const *environment) {
  char name[1000];
  if (!start())
    return;
  int saved_errno = errno;
  if (path && *path == '/')
    note_exec(path, environment);
  else if (folder_of(fd, name, sizeof name)) {
    size_t end = strlen(name);
    if (path && *path && end + strlen(path) + 2 <= sizeof name)
      snprintf(name + end, sizeof name - end, "/%s", path);
    note_exec(name, environment);
  }
  errno = saved_errno;
}

/* ---- Wrappers
 * ------------------------------------------------------------------------ */

int execve(const char *path, char *const arguments[], char *const environment[]) {
  TARGET(target);
  find(AT_FDCWD, path, NAME, &target);
  note_exec(target.path, environment);
  return REAL(execve)(target.path, arguments, environment);
}

int execv(const char *path, char *const arguments[]) {
  TARGET(target);
  find(AT_FDCWD, path, NAME, &target);
  note_exec(target.path, environ);
  return REAL(execv)(target.path, arguments);
}

int execvp(const char *name, char *const arguments[]) {
  TARGET(target);
  name = find_program(name, &target);
  note_exec_of_name(name, environ);
  return REAL(execvp)(name, arguments);
}

int execvpe(const char *name, char *const arguments[], char *const environment[]) {
  TARGET(target);
  name = find_program(name, &target);
  note_exec_of_name(name, environment);
  return REAL(execvpe)(name, arguments, environment);
}

int fexecve(int fd, char *const arguments[], char *const environment[]) {
  note_exec_at(fd, NULL, environment);
  return REAL(fexecve)(fd, arguments, environment);
}

int execveat(int fd, const char *path, char *const arguments[],
             char *const environment[], int flags) {
  TARGET(target);
  find(fd, path, NAME, &target);
  note_exec_at(target.directory, target.path, environment);
  return REAL(execveat)(target.directory, target.path, arguments, environment, flags);
}

/* The arguments of a call of execl and its kind as an array on the stack. */
#define COLLECT(first, list, after)                                                    \
  va_list list;                                                                        \
  size_t n = 1;                                                                        \
  va_start(list, first);                                                               \
  while (va_arg(list, char *))                                                         \
    n++;                                                                               \
  va_end(list);                                                                        \
  char *arguments[n + 1];                                                              \
  arguments[0] = (char *)first;                                                        \
  va_start(list, first);                                                               \
  for (size_t i = 1; i <= n; i++)                                                      \
    arguments[i] = va_arg(list, char *);                                               \
  after;                                                                               \
  va_end(list);

int execl(const char *path, const char *first, ...) {
  COLLECT(first, list, (void)0)
  return execv(path, arguments);
}

int execlp(const char *name, const char *first, ...) {
  COLLECT(first, list, (void)0)
  return execvp(name, arguments);
}

int execle(const char *path, const char *first, ...) {
  COLLECT(first, list, char *const *environment = va_arg(list, char *const *))
  return execve(path, arguments, environment);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[],
                char *const environment[]) {
  TARGET(target);
  find(AT_FDCWD, path, NAME, &target);
  note_exec(target.path, environment);
  return REAL(posix_spawn)(pid, target.path, actions, attributes, arguments,
                           environment);
}

int posix_spawnp(pid_t *pid, const char *name,
                 const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[],
                 char *const environment[]) {
  TARGET(target);
  name = find_program(name, &target);
  note_exec_of_name(name, environment);
  return REAL(posix_spawnp)(pid, name, actions, attributes, arguments, environment);
}

/* Their shell checks what it executes, if it loads this library itself. */
int system(const char *command) {
  if (command)
    note_exec("/bin/sh", environ);
  return REAL(system)(command);
}

FILE *popen(const char *command, const char *mode) {
  note_exec("/bin/sh", environ);
  return REAL(popen)(command, mode);
}
