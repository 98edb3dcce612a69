/* Emulated devices: what their parts ask of each other. */
#ifndef TIERSCOPE_DEVICE_H
#define TIERSCOPE_DEVICE_H

#include "../preload.h"

#pragma GCC visibility push(hidden)

struct device {
  int64_t open_ns, close_ns, metadata_latency_ns, read_latency_ns;
  double request_s, bandwidth_bytes_per_s, link_bytes_per_s; /* rate 0: unlimited */
  size_t request_bytes;
  uint32_t n_object_servers;
};

extern struct device *devices;
extern pid_t owner; /* the process whose descriptors and actors we know */

/* Ends the process with status 2 and a message. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

void *allocate(size_t count, size_t size);
int64_t to_ns(double seconds);
double transfer_s(size_t bytes, double bytes_per_s);

/* Read the devices; return how many there are. */
uint32_t read_devices(const char *file);

/* Set what a descriptor means, 0 to forget it; return what it meant before. */
uint64_t remember(int fd, uint64_t value);

#pragma GCC visibility pop

#endif
