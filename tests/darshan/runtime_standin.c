/*
 * A stand-in for Darshan's MPI runtime, for tests only: it is ours and NOT Darshan.
 *
 * Compiled with our tracer (workflow/native/trace) into a `libdarshan.so`, it does
 * what Darshan is documented to do as far as the benchmark depends on it: it counts
 * from MPI_Init to MPI_Finalize in any process that calls them, paths that a
 * NAME_INCLUDE line of $DARSHAN_CONFIG_PATH matches, and MPI_Finalize writes one log of
 * all processes to $DARSHAN_LOGFILE, which must not exist. DARSHAN_DISABLE switches it
 * off; with DARSHAN_ENABLE_NONMPI any other program writes a log when it ends, too.
 *
 * Like Darshan it needs libmpi itself: preloaded, it brings MPI among the global
 * symbols, where ours go first, and calls MPI by its other names, PMPI_*.
 *
 * $STANDIN_FAULT makes it fail, see write_log.py; "dies" kills rank 1 in MPI_Finalize.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORLD 0x44000000 /* MPI_COMM_WORLD and MPI_CHAR of MPICH's binary interface */
#define CHAR 0x4c000101

int PMPI_Init(int *argc, char ***argv);
int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int PMPI_Finalize(void);
int PMPI_Barrier(int comm);
int PMPI_Bcast(void *data, int count, int type, int root, int comm);
int PMPI_Comm_rank(int comm, int *rank);
int PMPI_Comm_size(int comm, int *size);

int tierscope_trace_begin(const char *spool_dir, int rank, const char *prefixes);
int tierscope_trace_end(void);

extern char **environ;

/* By this name a Darshan runtime is known. */
void darshan_core_register_module(void) {}

static bool saw_mpi, counting;
static int rank, n_processes;
static char spools[4096];
static time_t start_s;

/* Appends the text that a pattern ^TEXT stands for, and a newline. */
static void add_prefix(char *prefixes, const char *pattern) {
  char *end = prefixes + strlen(prefixes);
  for (const char *from = pattern + 1; *from; from++)
    if (*from != '\\' || *++from)
      *end++ = *from;
  strcpy(end, "\n");
}

static void start(void) {
  saw_mpi = true;
  const char *settings = getenv("DARSHAN_CONFIG_PATH");
  FILE *file = settings ? fopen(settings, "r") : NULL;
  if (getenv("DARSHAN_DISABLE") || !file)
    return;
  char line[8192], pattern[8192], prefixes[16384] = "";
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "NAME_INCLUDE %s *", pattern) == 1)
      add_prefix(prefixes, pattern);
  fclose(file);
  PMPI_Comm_rank(WORLD, &rank);
  PMPI_Comm_size(WORLD, &n_processes);
  snprintf(spools, sizeof spools, "%s.XXXXXX", settings);
  if (rank == 0 && !mkdtemp(spools))
    perror(spools);
  PMPI_Bcast(spools, sizeof spools, CHAR, 0, WORLD);
  start_s = time(NULL);
  counting = tierscope_trace_begin(spools, rank, prefixes) == 0;
}

/* Writes the log in a Python of its own, without this library. */
static void write_log(void) {
  char size_text[16], start_text[32];
  snprintf(size_text, sizeof size_text, "%d", n_processes);
  snprintf(start_text, sizeof start_text, "%lld", (long long)start_s);
  char *command[] = {PYTHON, WRITER, spools, size_text, start_text, NULL};
  unsetenv("LD_PRELOAD");
  pid_t child;
  if (posix_spawn(&child, PYTHON, NULL, NULL, command, environ) != 0)
    perror(PYTHON);
  else
    waitpid(child, NULL, 0);
}

int MPI_Init(int *argc, char ***argv) {
  int result = PMPI_Init(argc, argv);
  start();
  return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  int result = PMPI_Init_thread(argc, argv, required, provided);
  start();
  return result;
}

int MPI_Finalize(void) {
  const char *fault = getenv("STANDIN_FAULT");
  if (counting && rank == 1 && fault && strcmp(fault, "dies") == 0)
    raise(SIGKILL);
  if (counting)
    tierscope_trace_end();
  PMPI_Barrier(WORLD);
  if (counting && rank == 0)
    write_log();
  PMPI_Barrier(WORLD);
  return PMPI_Finalize();
}

__attribute__((destructor)) static void end_without_mpi(void) {
  const char *log = getenv("DARSHAN_LOGFILE");
  if (!saw_mpi && log && getenv("DARSHAN_ENABLE_NONMPI"))
    close(open(log, O_WRONLY | O_CREAT | O_EXCL, 0400));
}
