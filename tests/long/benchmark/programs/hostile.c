/*
 * Opens train/2.png of a dataset where a library must not assume much: in handlers of
 * signals, in many threads with small stacks that others cancel, in children of vfork.
 *
 *   hostile DATASET: prints how often it has opened the file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_THREADS = 8, N_OPENS = 400 };
static char path[PATH_MAX], winding[PATH_MAX];
static atomic_int n_opened, n_in_handlers;

static void open_once(const char *name) {
  int fd = open(name, O_RDONLY);
  if (fd < 0)
    abort();
  n_opened++;
  close(fd);
}

static void handle(int number) {
  int saved_errno = errno;
  (void)number;
  open_once(path);
  n_in_handlers++;
  if (errno != saved_errno)
    abort();
}

static void *open_often(void *argument) {
  (void)argument;
  for (int i = 0; i < N_OPENS; i++)
    open_once(i % 2 ? path : winding);
  return NULL;
}

static void *wait_in_open(void *fifo) {
  close(open(fifo, O_RDONLY));
  return NULL;
}

static void open_in_threads(void) {
  pthread_t threads[N_THREADS], waiting;
  pthread_attr_t small;
  char fifo[PATH_MAX + 8];
  void *result;
  snprintf(fifo, sizeof fifo, "%s.fifo", path);
  if (mkfifo(fifo, 0600) != 0)
    abort();
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN + 8192);
  pthread_create(&waiting, &small, wait_in_open, fifo);
  for (int i = 0; i < N_THREADS; i++)
    if (pthread_create(&threads[i], &small, open_often, NULL) != 0)
      abort();
  usleep(1000);
  pthread_cancel(waiting);
  pthread_join(waiting, &result);
  if (result != PTHREAD_CANCELED)
    abort();
  for (int i = 0; i < N_THREADS; i++)
    pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
  int status;
  if (argc != 2)
    return 2;
  snprintf(path, sizeof path, "%s/train/2.png", argv[1]);
  snprintf(winding, sizeof winding, "%s/./deep/../train//2.png", argv[1]);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  open_in_threads();
  while (n_in_handlers < 20)
    open_once(path);
  setitimer(ITIMER_REAL, &never, NULL);
  int fd = open(path, O_RDONLY);
  n_opened++;
  if (vfork() == 0) { /* uses our memory, but has its own descriptors */
    close(fd);
    int own = open(path, O_RDONLY);
    n_opened++;
    close(own);
    _exit(0);
  }
  wait(&status);
  close(fd);
  printf("%d\n", n_opened);
  return 0;
}
