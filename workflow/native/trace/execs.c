/*
 * Programs that escape: what is executed and will not load this library leaves no log.
 *
 * The wrappers run in children of vfork, too: they use the stack only. What they note
 * is then of the parent.
 */
#include "trace.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DETAIL_BYTES = 1024 }; /* the stack may be small */

static void note_escape(const char *path, enum escape reason) {
  char detail[DETAIL_BYTES];
  snprintf(detail, sizeof detail, "%d %s", (int)reason, path);
  note_event("escape", detail);
}

static const struct watch tracing = {"libtierscope_trace", "TIERSCOPE_TRACE_SPOOL",
                                     note_escape};

static const struct watch *watch(void) { return *events_path ? &tracing : NULL; }

int execve(const char *path, char *const arguments[], char *const environment[]) {
  watch_exec(watch(), path, environment);
  return REAL(execve)(path, arguments, environment);
}

int execv(const char *path, char *const arguments[]) {
  watch_exec(watch(), path, environ);
  return REAL(execv)(path, arguments);
}

int execvp(const char *name, char *const arguments[]) {
  watch_exec_of_name(watch(), name, environ);
  return REAL(execvp)(name, arguments);
}

int execvpe(const char *name, char *const arguments[], char *const environment[]) {
  watch_exec_of_name(watch(), name, environment);
  return REAL(execvpe)(name, arguments, environment);
}

int fexecve(int fd, char *const arguments[], char *const environment[]) {
  watch_exec_at(watch(), fd, NULL, environment);
  return REAL(fexecve)(fd, arguments, environment);
}

int execveat(int fd, const char *path, char *const arguments[],
             char *const environment[], int flags) {
  watch_exec_at(watch(), fd, path, environment);
  return REAL(execveat)(fd, path, arguments, environment, flags);
}

DEFINE_EXECL

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[],
                char *const environment[]) {
  watch_exec(watch(), path, environment);
  return REAL(posix_spawn)(pid, path, actions, attributes, arguments, environment);
}

int posix_spawnp(pid_t *pid, const char *name,
                 const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[],
                 char *const environment[]) {
  watch_exec_of_name(watch(), name, environment);
  return REAL(posix_spawnp)(pid, name, actions, attributes, arguments, environment);
}

/* Their shell looks at what it executes, if it loads this library itself. */
int system(const char *command) {
  if (command)
    watch_exec(watch(), "/bin/sh", environ);
  return REAL(system)(command);
}

FILE *popen(const char *command, const char *mode) {
  watch_exec(watch(), "/bin/sh", environ);
  return REAL(popen)(command, mode);
}

/* From a new root neither our folder nor the library may be reached. */
int chroot(const char *path) {
  struct quiet held;
  int events = open_events(&held), status = REAL(chroot)(path), saved_errno = errno;
  if (status == 0 && strcmp(path, "/") != 0) {
    char detail[DETAIL_BYTES];
    snprintf(detail, sizeof detail, "%d %s", (int)ESCAPE_ROOT, path);
    append_event(events, "escape", detail);
  }
  close_events(events, &held);
  errno = saved_errno;
  return status;
}
