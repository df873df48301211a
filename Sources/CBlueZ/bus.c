#include "CBlueZ.h"

#include <dbus/dbus.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { WATCHES_MAX = 8 };

struct cbz_bus {
    DBusConnection *connection;
    DBusWatch *watches[WATCHES_MAX];
    int watch_count;
};

int cbz_waker_open(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

void cbz_waker_signal(int waker) {
    uint64_t one = 1;
    // A full counter is a signal too, so the result does not matter.
    ssize_t written = write(waker, &one, sizeof one);
    (void)written;
}

void cbz_waker_wait(int waker, int timeout_ms) {
    struct pollfd polled = {.fd = waker, .events = POLLIN};
    poll(&polled, 1, timeout_ms);
}

void cbz_waker_close(int waker) { close(waker); }

static dbus_bool_t add_watch(DBusWatch *watch, void *context) {
    cbz_bus *bus = context;
    if (bus->watch_count == WATCHES_MAX) return FALSE;
    bus->watches[bus->watch_count++] = watch;
    return TRUE;
}

static void remove_watch(DBusWatch *watch, void *context) {
    cbz_bus *bus = context;
    for (int i = 0; i < bus->watch_count; i++) {
        if (bus->watches[i] != watch) continue;
        bus->watches[i] = bus->watches[--bus->watch_count];
        return;
    }
}

static bool has_watch(const cbz_bus *bus, const DBusWatch *watch) {
    for (int i = 0; i < bus->watch_count; i++)
        if (bus->watches[i] == watch) return true;
    return false;
}

static void copy(char *to, size_t size, const char *from) {
    strncpy(to, from ? from : "", size - 1);
    to[size - 1] = 0;
}

cbz_bus *cbz_bus_open(const char *address, size_t message_size_max, cbz_fault *fault) {
    DBusError error = DBUS_ERROR_INIT;
    DBusConnection *connection = dbus_connection_open_private(address, &error);
    cbz_bus *bus = connection ? calloc(1, sizeof *bus) : NULL;
    if (bus) {
        bus->connection = connection;
        dbus_connection_set_exit_on_disconnect(connection, FALSE);
        dbus_connection_set_max_message_size(connection, (long)message_size_max);
        if (dbus_connection_set_watch_functions(
                connection, add_watch, remove_watch, NULL, bus, NULL))
            return bus;
    }
    copy(fault->name, sizeof fault->name, error.name ? error.name : DBUS_ERROR_NO_MEMORY);
    copy(fault->text, sizeof fault->text, error.message);
    dbus_error_free(&error);
    if (connection) {
        dbus_connection_close(connection);
        dbus_connection_unref(connection);
    }
    free(bus);
    return NULL;
}

void cbz_bus_close(cbz_bus *bus) {
    dbus_connection_close(bus->connection);
    dbus_connection_set_watch_functions(bus->connection, NULL, NULL, NULL, NULL, NULL);
    dbus_connection_unref(bus->connection);
    free(bus);
}

bool cbz_bus_is_open(cbz_bus *bus) { return dbus_connection_get_is_connected(bus->connection); }

bool cbz_bus_has_output(cbz_bus *bus) {
    return dbus_connection_has_messages_to_send(bus->connection);
}

bool cbz_bus_wait(cbz_bus *bus, int waker, int timeout_ms) {
    struct pollfd polled[WATCHES_MAX + 1] = {{.fd = waker, .events = POLLIN}};
    DBusWatch *watched[WATCHES_MAX + 1] = {NULL};
    nfds_t count = 1;
    for (int i = 0; i < bus->watch_count; i++) {
        DBusWatch *watch = bus->watches[i];
        if (!dbus_watch_get_enabled(watch)) continue;
        unsigned flags = dbus_watch_get_flags(watch);
        watched[count] = watch;
        polled[count].fd = dbus_watch_get_unix_fd(watch);
        polled[count].events = (short)(((flags & DBUS_WATCH_READABLE) ? POLLIN : 0)
                                       | ((flags & DBUS_WATCH_WRITABLE) ? POLLOUT : 0));
        count++;
    }
    int ready = poll(polled, count, timeout_ms);
    if (ready <= 0) return ready < 0;
    if (polled[0].revents) {
        uint64_t ignored;
        ssize_t taken = read(waker, &ignored, sizeof ignored);
        (void)taken;
    }
    for (nfds_t i = 1; i < count; i++) {
        short got = polled[i].revents;
        // Handling one watch may remove or disable another.
        if (!got || !has_watch(bus, watched[i]) || !dbus_watch_get_enabled(watched[i])) continue;
        dbus_watch_handle(watched[i], ((got & POLLIN) ? DBUS_WATCH_READABLE : 0u)
                                          | ((got & POLLOUT) ? DBUS_WATCH_WRITABLE : 0u)
                                          | ((got & POLLERR) ? DBUS_WATCH_ERROR : 0u)
                                          | ((got & POLLHUP) ? DBUS_WATCH_HANGUP : 0u));
    }
    return true;
}

cbz_message *cbz_bus_pop(cbz_bus *bus) {
    return (cbz_message *)dbus_connection_pop_message(bus->connection);
}

uint32_t cbz_bus_send(cbz_bus *bus, cbz_message *message) {
    dbus_uint32_t serial = 0;
    return dbus_connection_send(bus->connection, (DBusMessage *)message, &serial) ? serial : 0;
}
