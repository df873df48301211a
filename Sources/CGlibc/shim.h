// What glibc (2.34 and later) has and Swift's Glibc module leaves out.
#include <malloc.h>
#include <spawn.h>

// Declared only with _GNU_SOURCE.
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int lowest);
