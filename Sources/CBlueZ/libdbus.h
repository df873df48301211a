// What is used of libdbus-1, which cbz_bus_open loads with the first connection.
#ifndef CBLUEZ_LIBDBUS_H
#define CBLUEZ_LIBDBUS_H

#include <CLoad.h>
#include <dbus/dbus.h>

#define DBUS_FUNCTIONS(X) \
    X(dbus_connection_close) X(dbus_connection_get_is_connected) X(dbus_connection_has_messages_to_send) \
    X(dbus_connection_open_private) X(dbus_connection_pop_message) X(dbus_connection_send) \
    X(dbus_connection_set_exit_on_disconnect) X(dbus_connection_set_max_message_size) \
    X(dbus_connection_set_watch_functions) X(dbus_connection_unref) X(dbus_error_free) X(dbus_free) \
    X(dbus_message_get_destination) X(dbus_message_get_error_name) X(dbus_message_get_interface) \
    X(dbus_message_get_member) X(dbus_message_get_no_reply) X(dbus_message_get_path) \
    X(dbus_message_get_reply_serial) X(dbus_message_get_sender) X(dbus_message_get_serial) \
    X(dbus_message_get_type) X(dbus_message_iter_append_basic) X(dbus_message_iter_append_fixed_array) \
    X(dbus_message_iter_close_container) X(dbus_message_iter_get_arg_type) X(dbus_message_iter_get_basic) \
    X(dbus_message_iter_get_element_type) X(dbus_message_iter_get_fixed_array) \
    X(dbus_message_iter_get_signature) X(dbus_message_iter_init) X(dbus_message_iter_init_append) \
    X(dbus_message_iter_next) X(dbus_message_iter_open_container) X(dbus_message_iter_recurse) \
    X(dbus_message_new) X(dbus_message_set_destination) X(dbus_message_set_error_name) \
    X(dbus_message_set_interface) X(dbus_message_set_member) X(dbus_message_set_no_reply) \
    X(dbus_message_set_path) X(dbus_message_set_reply_serial) X(dbus_message_unref) \
    X(dbus_signature_validate) X(dbus_signature_validate_single) X(dbus_type_is_fixed) \
    X(dbus_validate_bus_name) X(dbus_validate_error_name) X(dbus_validate_interface) \
    X(dbus_validate_member) X(dbus_validate_path) X(dbus_validate_utf8) X(dbus_watch_get_enabled) \
    X(dbus_watch_get_flags) X(dbus_watch_get_unix_fd) X(dbus_watch_handle)

extern struct libdbus { DBUS_FUNCTIONS(CLOAD_POINTER) } libdbus;

// Loads it, at the first call; whether it is there.
bool libdbus_load(void);

#endif
