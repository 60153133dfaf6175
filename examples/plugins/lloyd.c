// SPDX-License-Identifier: Apache-2.0
//
// A plugin that is a program: cc -O2 -o lloyd lloyd.c -lm; kmeans-bench verify --plugin ./lloyd
//
//   lloyd POINTS.npy CENTROIDS.npy T OUT
//
// reads float32 points (n x d) and centroids (k x d), runs T iterations of Lloyd's algorithm and writes
// OUT/centroids.npy, OUT/labels.npy and OUT/seconds.txt (docs/plugins.md).
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void fail(const char* what, const char* file) {
  fprintf(stderr, "lloyd: %s %s\n", what, file);
  exit(1);
}

// A C-ordered float32 matrix of npy version 1.0, which is all that the suite writes.
static float* read_matrix(const char* file, long long* rows, long long* columns) {
  FILE* stream = fopen(file, "rb");
  unsigned char prefix[10];
  if (stream == NULL || fread(prefix, 1, 10, stream) != 10) fail("cannot read", file);
  const size_t length = prefix[8] + 256 * (size_t)prefix[9];
  char* header = calloc(length + 1, 1);
  if (fread(header, 1, length, stream) != length) fail("cannot read", file);
  const char* shape = strstr(header, "'shape': (");
  if (strstr(header, "'<f4'") == NULL || shape == NULL ||
      sscanf(shape, "'shape': (%lld, %lld", rows, columns) != 2) {
    fail("no float32 matrix:", file);
  }
  float* values = malloc(*rows * *columns * sizeof(float));
  if (fread(values, sizeof(float), *rows * *columns, stream) != (size_t)(*rows * *columns)) {
    fail("cut short:", file);
  }
  fclose(stream);
  free(header);
  return values;
}

static void write_npy(const char* folder, const char* name, const char* type, const char* shape,
                      const void* values, size_t bytes) {
  char file[4096];
  char header[128 - 10 + 1];
  snprintf(file, sizeof file, "%s/%s", folder, name);
  snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type,
           shape);
  FILE* stream = fopen(file, "wb");
  if (stream == NULL) fail("cannot write", file);
  fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, stream);
  fprintf(stream, "%-117s\n", header);
  fwrite(values, 1, bytes, stream);
  if (fclose(stream) != 0) fail("cannot write", file);
}

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "lloyd POINTS.npy CENTROIDS.npy T OUT\n");
    return 2;
  }
  long long n, d, k, dimensions;
  float* points = read_matrix(argv[1], &n, &d);
  float* centroids = read_matrix(argv[2], &k, &dimensions);
  if (dimensions != d) fail("other coordinates than the points:", argv[2]);
  const long long iterations = atoll(argv[3]);
  int32_t* labels = calloc(n, sizeof(int32_t));
  double* sums = malloc(k * d * sizeof(double));
  long long* counts = malloc(k * sizeof(long long));

  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (long long t = 0; t < iterations; ++t) {
    memset(sums, 0, k * d * sizeof(double));
    memset(counts, 0, k * sizeof(long long));
    for (long long i = 0; i < n; ++i) {
      double nearest = INFINITY;
      for (long long j = 0; j < k; ++j) {
        double distance = 0;
        for (long long c = 0; c < d; ++c) {
          const double difference = (double)points[i * d + c] - centroids[j * d + c];
          distance += difference * difference;
        }
        if (distance < nearest) {  // strictly: the lowest index wins a tie
          nearest = distance;
          labels[i] = (int32_t)j;
        }
      }
      counts[labels[i]] += 1;
      for (long long c = 0; c < d; ++c) sums[labels[i] * d + c] += points[i * d + c];
    }
    for (long long j = 0; j < k; ++j) {
      if (counts[j] == 0) continue;  // an empty cluster keeps its centroid
      for (long long c = 0; c < d; ++c) centroids[j * d + c] = (float)(sums[j * d + c] / counts[j]);
    }
  }
  clock_gettime(CLOCK_MONOTONIC, &end);

  char shape[64];
  snprintf(shape, sizeof shape, "%lld, %lld", k, d);
  write_npy(argv[4], "centroids.npy", "<f4", shape, centroids, k * d * sizeof(float));
  snprintf(shape, sizeof shape, "%lld,", n);
  write_npy(argv[4], "labels.npy", "<i4", shape, labels, n * sizeof(int32_t));
  char file[4096];
  snprintf(file, sizeof file, "%s/seconds.txt", argv[4]);
  FILE* stream = fopen(file, "w");
  if (stream == NULL) fail("cannot write", file);
  fprintf(stream, "%.9f\n",
          (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
  return fclose(stream) == 0 ? 0 : 1;
}
