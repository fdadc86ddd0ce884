/* Each process writes a file of its own and its part of a common one, then reads the next process's. Prints "N right". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 1 << 20 };

static void fill(char *data, int rank) {
  for (int at = 0; at < SIZE; at++) data[at] = (char)(at * 7 + rank * 31);
}

int main(int argc, char **argv) {
  int rank, count, wrong = 0, all = 0;
  char path[4096], *data = malloc(SIZE), *wanted = malloc(SIZE);
  MPI_File file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  fill(data, rank);
  snprintf(path, sizeof path, "%s/rank-%d", argv[1], rank);
  FILE *own = fopen(path, "w");
  wrong += own == NULL || fwrite(data, 1, SIZE, own) != SIZE || fclose(own) != 0;
  snprintf(path, sizeof path, "%s/common", argv[1]);
  wrong += MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS;
  wrong += MPI_File_write_at(file, (MPI_Offset)rank * SIZE, data, SIZE, MPI_CHAR, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  int next = (rank + 1) % count;
  fill(wanted, next);
  wrong += MPI_File_read_at(file, (MPI_Offset)next * SIZE, data, SIZE, MPI_CHAR, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  wrong += memcmp(data, wanted, SIZE) != 0;
  MPI_File_close(&file);
  snprintf(path, sizeof path, "%s/rank-%d", argv[1], next);
  FILE *other = fopen(path, "r");
  wrong += other == NULL || fread(data, 1, SIZE, other) != SIZE || memcmp(data, wanted, SIZE) != 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf(all ? "%d wrong\n" : "%d right\n", all ? all : count);
  MPI_Finalize();
  return all != 0;
}
