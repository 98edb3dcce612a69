/* A C program that knows nothing of tierscope: it goes through a folder three times. */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EPOCHS = 3, PAUSE_US = 500000, BUFFER = 65536 };

/* Let epoch N begin. */
static void mark(const char *folder, int epoch) {
  char path[4096];
  snprintf(path, sizeof path, "%s/.tierscope-epoch-%d", folder, epoch);
  FILE *none = fopen(path, "r");
  if (none)
    fclose(none);
}

/* Return the sum of the bytes of a file. */
static unsigned long read_file(const char *folder, const char *name) {
  static unsigned char buffer[BUFFER];
  char path[4096];
  unsigned long total = 0;
  size_t n;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (!file)
    exit(errno);
  while ((n = fread(buffer, 1, sizeof buffer, file)))
    while (n)
      total += buffer[--n];
  fclose(file);
  return total;
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    unsigned long total = 0;
    mark(argv[1], epoch);
    DIR *folder = opendir(argv[1]);
    if (!folder)
      return errno;
    for (struct dirent *one; (one = readdir(folder));)
      if (one->d_name[0] != '.')
        total += read_file(argv[1], one->d_name);
    closedir(folder);
    printf("epoch %d: %lu\n", epoch, total);
    usleep(PAUSE_US);
  }
  return 0;
}
