// A plugin of QEMU 7.2 that counts the instructions of a machine: -plugin instructions.so,counts=PATH
//
// The file holds one number of 64 bits a processor, to be read while the machine runs. Debian has no header for
// plugins; these are the parts of its interface that are used, version 1:
// https://www.qemu.org/docs/master/devel/tcg-plugins.html
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define PROCESSORS_MAX 8

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t id, struct qemu_plugin_tb *block));
void qemu_plugin_register_vcpu_tb_exec_cb(
    struct qemu_plugin_tb *block, void (*callback)(unsigned int processor, void *data),
    enum qemu_plugin_cb_flags flags, void *data);

EXPORT int qemu_plugin_version = 1;
static volatile uint64_t *counts;

static void executed(unsigned int processor, void *data) {
    if (processor < PROCESSORS_MAX) counts[processor] += (uintptr_t)data;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(
        block, executed, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    static const char option[] = "counts=";
    if (argc != 1 || strncmp(argv[0], option, sizeof option - 1) != 0) return 1;
    int file = open(argv[0] + sizeof option - 1, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, PROCESSORS_MAX * sizeof *counts) != 0) return 1;
    void *memory = mmap(NULL, PROCESSORS_MAX * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return 1;
    counts = memory;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
