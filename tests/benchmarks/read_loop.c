/*
 * Open, read to the end and close files as TensorFlow does, the cheapest way there is,
 * so that a tracer's share shows.
 *
 *   read_loop ROOT N_FILES N_PASSES
 *
 * Pass p reads ROOT.ep<p>/<i> for all i: files that a tracer sees for the first time,
 * as in a run. Then all passes are repeated: files that it knows. Prints a line per
 * pass: new or known, wall and CPU microseconds per file, and all bytes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
  static char buffer[1 << 18], path[4096];
  if (argc != 4)
    return 2;
  int n_files = atoi(argv[2]), n_passes = atoi(argv[3]);
  for (int pass = 0; pass < 2 * n_passes; pass++) {
    long long all_bytes = 0;
    double wall = seconds(CLOCK_MONOTONIC);
    double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < n_files; i++) {
      off_t offset = 0;
      ssize_t n_bytes;
      snprintf(path, sizeof path, "%s.ep%d/%07d.tfrecord", argv[1], pass % n_passes, i);
      int descriptor = open(path, O_RDONLY);
      if (descriptor < 0)
        return perror(path), 1;
      while ((n_bytes = pread(descriptor, buffer, sizeof buffer, offset)) > 0)
        offset += n_bytes;
      if (close(descriptor) || n_bytes || !offset)
        return perror(path), 1;
      all_bytes += offset;
    }
    printf("%s %.4f %.4f %lld\n", pass < n_passes ? "new" : "known",
           (seconds(CLOCK_MONOTONIC) - wall) * 1e6 / n_files,
           (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / n_files, all_bytes);
  }
  return 0;
}
