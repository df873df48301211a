// What glibc (2.34 and later) declares only with _GNU_SOURCE, which Swift's Glibc module leaves out.
#include <spawn.h>

int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int lowest);
