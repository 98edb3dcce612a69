/* Programs that a tracer must not disturb; the first argument says which. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *shared;

static void read_file(const char *path) {
  char data[100];
  int fd = open(path, O_RDONLY);
  if (fd < 0 || read(fd, data, sizeof data) != 3)
    exit(2);
  close(fd);
}

/* No handler of pthread_atfork runs. */
static int fork_by_the_kernel(void) {
  read_file("data/a");
  long child = syscall(SYS_fork);
  read_file(child == 0 ? "data/b" : "data/c");
  if (child == 0)
    _exit(0);
  int status;
  return waitpid((pid_t)child, &status, 0) < 0 || status;
}

static void *print_for_ever(void *argument) {
  for (;;) {
    fprintf(shared, "%s\n", (const char *)argument);
    fflush(shared);
  }
  return NULL;
}

static int cancel_a_thread_that_prints(void) {
  pthread_t thread;
  shared = fopen("data/out", "w");
  pthread_create(&thread, NULL, print_for_ever, "line");
  usleep(20000);
  pthread_cancel(thread);
  pthread_join(thread, NULL);
  return fprintf(shared, "end\n") < 0 || fclose(shared) != 0;
}

static void *stat_cancelled(void *argument) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_cancel(pthread_self());
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  return access(argument, R_OK) == 0 ? argument : NULL; /* no cancellation point */
}

static int cancel_a_thread_that_looks(void) {
  pthread_t thread;
  void *result;
  pthread_create(&thread, NULL, stat_cancelled, "data/a");
  pthread_join(thread, &result);
  read_file("data/a");
  return result == PTHREAD_CANCELED || !result;
}

static int pass_what_is_no_path(void) {
  char *volatile wrong = (char *)1;
  int is_refused = open(wrong, O_RDONLY) < 0 && errno == EFAULT;
  char memory[10];
  FILE *stream = fmemopen(memory, sizeof memory, "w");
  errno = 0;
  fclose(stream);
  is_refused = is_refused && errno == 0;
  stdin = NULL;
  return !is_refused;
}

int main(int n_arguments, char **arguments) {
  const char *what = n_arguments > 1 ? arguments[1] : "";
  if (strcmp(what, "fork") == 0)
    return fork_by_the_kernel();
  if (strcmp(what, "cancelled print") == 0)
    return cancel_a_thread_that_prints();
  if (strcmp(what, "cancelled look-up") == 0)
    return cancel_a_thread_that_looks();
  return pass_what_is_no_path();
}
