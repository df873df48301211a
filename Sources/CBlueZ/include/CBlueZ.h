// A thin C layer over libdbus-1 (one private connection, messages in and out) and libbluetooth
// (controllers as the kernel sees them). Handles are opaque: no dbus.h reaches Swift.
// A bus, its messages and iterators belong to one thread; only a waker may be used from others.
#ifndef CBLUEZ_H
#define CBLUEZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cbz_bus cbz_bus;
typedef struct cbz_message cbz_message;

// Room for libdbus's own iterator; message.c asserts that it fits.
typedef struct { uint64_t room[12]; } cbz_iter;

// A D-Bus error: name and text, cut to fit.
typedef struct { char name[128]; char text[384]; } cbz_fault;

enum { CBZ_CALL = 1, CBZ_REPLY = 2, CBZ_ERROR = 3, CBZ_SIGNAL = 4 };

// A message's header. Strings are NULL when absent and live as long as the message.
typedef struct {
    int kind;
    bool no_reply;
    uint32_t serial;
    uint32_t reply_serial;
    const char *path;
    const char *interface;
    const char *member;
    const char *sender;
    const char *destination;
    const char *error_name;
} cbz_header;

// --- waker: an eventfd that ends cbz_bus_wait from any thread ---
int cbz_waker_open(void);          // descriptor, or -1
void cbz_waker_signal(int waker);
// Sleeps until the waker is signalled, which it stays, or the time is over.
void cbz_waker_wait(int waker, int timeout_ms);
void cbz_waker_close(int waker);

// --- bus ---
// Opens a private connection; authentication runs inside cbz_bus_wait. NULL with *fault filled.
cbz_bus *cbz_bus_open(const char *address, size_t message_size_max, cbz_fault *fault);
void cbz_bus_close(cbz_bus *bus);
bool cbz_bus_is_open(cbz_bus *bus);
bool cbz_bus_has_output(cbz_bus *bus);
// Sleeps until the bus has traffic, the waker is signalled or the time is over (-1: for ever), then reads and
// writes what the bus can. One poll(2) a turn. False if the time was over. Takes the signal of the waker; -1
// leaves it where it is.
bool cbz_bus_wait(cbz_bus *bus, int waker, int timeout_ms);
cbz_message *cbz_bus_pop(cbz_bus *bus);                          // NULL: nothing there
uint32_t cbz_bus_send(cbz_bus *bus, cbz_message *message);       // the serial, or 0

// --- messages ---
// NULL if a name is not valid D-Bus or one that the kind needs is missing.
cbz_message *cbz_message_new(const cbz_header *header);
void cbz_message_free(cbz_message *message);
cbz_header cbz_message_header(cbz_message *message);

// --- reading; types are D-Bus type codes, 0 at the end ---
bool cbz_read_begin(cbz_message *message, cbz_iter *iter);       // false: no arguments
int cbz_read_type(cbz_iter *iter);
int cbz_read_element_type(cbz_iter *iter);                       // of the array here
bool cbz_read_next(cbz_iter *iter);
void cbz_read_enter(cbz_iter *iter, cbz_iter *inside);
uint64_t cbz_read_fixed(cbz_iter *iter);                         // bits of any fixed-size value
const char *cbz_read_string(cbz_iter *iter);                     // string, path or signature
size_t cbz_read_bytes(cbz_iter *inside, const uint8_t **bytes);  // inside an array of bytes
size_t cbz_read_signature(cbz_iter *iter, char *buffer, size_t size);

// --- writing; the caller has checked that values fit the signatures it names ---
void cbz_write_begin(cbz_message *message, cbz_iter *iter);
bool cbz_write_fixed(cbz_iter *iter, int type, uint64_t bits);
bool cbz_write_string(cbz_iter *iter, int type, const char *text);
bool cbz_write_bytes(cbz_iter *iter, const uint8_t *bytes, size_t count);
bool cbz_write_open(cbz_iter *iter, int type, const char *signature, cbz_iter *inside);
bool cbz_write_close(cbz_iter *iter, cbz_iter *inside);
bool cbz_is_signature(const char *text, bool single);

// --- controllers ---
typedef struct {
    uint16_t index;
    bool up;
    char address[18];
} cbz_controller;
// Fills at most `capacity` entries; the number found, or -errno.
int cbz_controllers(cbz_controller *list, int capacity);

#endif
