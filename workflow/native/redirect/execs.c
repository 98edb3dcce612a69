/*
 * Programs that escape: what is executed and will not load this library reads past it.
 *
 * The checks run in children of vfork, too: they use the stack and the table only.
 */
#include "redirect.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static const struct watch redirection = {"libtierscope_redirect", "TIERSCOPE_REDIRECT",
                                         note_escape};

static const struct watch *watch(void) { return start() ? &redirection : NULL; }

/* Only a name with a slash is a path. */
static const char *find_program(const char *name, struct target *target) {
  if (!name || !strchr(name, '/'))
    return name;
  find(AT_FDCWD, name, NAME, target);
  return target->path;
}

/* ---- Wrappers
 * ------------------------------------------------------------------------ */

int execve(const char *path, char *const arguments[], char *const environment[]) {
  TARGET(target);
  find(AT_FDCWD, path, NAME, &target);
  watch_exec(watch(), target.path, environment);
  return REAL(execve)(target.path, arguments, environment);
}

int execv(const char *path, char *const arguments[]) {
  TARGET(target);
  find(AT_FDCWD, path, NAME, &target);
  watch_exec(watch(), target.path, environ);
  return REAL(execv)(target.path, arguments);
}

int execvp(const char *name, char *const arguments[]) {
  TARGET(target);
  name = find_program(name, &target);
  watch_exec_of_name(watch(), name, environ);
  return REAL(execvp)(name, arguments);
}

int execvpe(const char *name, char *const arguments[], char *const environment[]) {
  TARGET(target);
  name = find_program(name, &target);
  watch_exec_of_name(watch(), name, environment);
  return REAL(execvpe)(name, arguments, environment);
}

int fexecve(int fd, char *const arguments[], char *const environment[]) {
  watch_exec_at(watch(), fd, NULL, environment);
  return REAL(fexecve)(fd, arguments, environment);
}

int execveat(int fd, const char *path, char *const arguments[],
             char *const environment[], int flags) {
  TARGET(target);
  find(fd, path, NAME, &target);
  watch_exec_at(watch(), target.directory, target.path, environment);
  return REAL(execveat)(target.directory, target.path, arguments, environment, flags);
}

DEFINE_EXECL

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[],
                char *const environment[]) {
  TARGET(target);
  find(AT_FDCWD, path, NAME, &target);
  watch_exec(watch(), target.path, environment);
  return REAL(posix_spawn)(pid, target.path, actions, attributes, arguments,
                           environment);
}

int posix_spawnp(pid_t *pid, const char *name,
                 const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[],
                 char *const environment[]) {
  TARGET(target);
  name = find_program(name, &target);
  watch_exec_of_name(watch(), name, environment);
  return REAL(posix_spawnp)(pid, name, actions, attributes, arguments, environment);
}

/* Their shell checks what it executes, if it loads this library itself. */
int system(const char *command) {
  if (command)
    watch_exec(watch(), "/bin/sh", environ);
  return REAL(system)(command);
}

FILE *popen(const char *command, const char *mode) {
  watch_exec(watch(), "/bin/sh", environ);
  return REAL(popen)(command, mode);
}
