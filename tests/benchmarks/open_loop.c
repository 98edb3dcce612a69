/*
 * Open and close files, and nothing else.
 *
 *   open_loop ROOT NAMES N_PASSES
 *
 * NAMES is a file with a path below ROOT on each line. The first pass warms the caches;
 * for each later one a line says wall and CPU nanoseconds a file, and the files.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double nanoseconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(int argc, char **argv) {
  static char *paths[1 << 20], line[4096], path[8192];
  int n = 0;
  FILE *names = argc == 4 ? fopen(argv[2], "r") : NULL;
  if (!names)
    return 2;
  while (n < 1 << 20 && fgets(line, sizeof line, names)) {
    line[strcspn(line, "\n")] = '\0';
    snprintf(path, sizeof path, "%s/%s", argv[1], line);
    paths[n++] = strdup(path);
  }
  fclose(names);
  for (int pass = 0; pass <= atoi(argv[3]); pass++) {
    double wall = nanoseconds(CLOCK_MONOTONIC);
    double cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < n; i++) {
      int descriptor = open(paths[i], O_RDONLY);
      if (descriptor < 0 || close(descriptor) != 0)
        return perror(paths[i]), 1;
    }
    if (pass > 0)
      printf("%.2f %.2f %d\n", (nanoseconds(CLOCK_MONOTONIC) - wall) / n,
             (nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / n, n);
  }
  return 0;
}
