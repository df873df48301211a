#include "CBlueZ.h"

#include <dbus/dbus.h>
#include <string.h>

_Static_assert(sizeof(DBusMessageIter) <= sizeof(cbz_iter), "cbz_iter is too small");

static DBusMessageIter *of(cbz_iter *iter) { return (DBusMessageIter *)iter; }
static DBusMessage *raw(cbz_message *message) { return (DBusMessage *)message; }

// libdbus aborts the process when it is handed a bad name, so every name is checked first.
static bool is_valid(const cbz_header *h) {
    if (h->path && !dbus_validate_path(h->path, NULL)) return false;
    if (h->interface && !dbus_validate_interface(h->interface, NULL)) return false;
    if (h->member && !dbus_validate_member(h->member, NULL)) return false;
    if (h->destination && !dbus_validate_bus_name(h->destination, NULL)) return false;
    if (h->error_name && !dbus_validate_error_name(h->error_name, NULL)) return false;
    switch (h->kind) {
    case CBZ_CALL: return h->path && h->member;
    case CBZ_SIGNAL: return h->path && h->interface && h->member;
    case CBZ_REPLY: return h->reply_serial != 0;
    case CBZ_ERROR: return h->reply_serial != 0 && h->error_name;
    default: return false;
    }
}

cbz_message *cbz_message_new(const cbz_header *h) {
    if (!is_valid(h)) return NULL;
    DBusMessage *message = dbus_message_new(h->kind);
    if (!message) return NULL;
    dbus_message_set_no_reply(message, h->no_reply || h->kind != CBZ_CALL);
    if ((!h->path || dbus_message_set_path(message, h->path))
        && (!h->interface || dbus_message_set_interface(message, h->interface))
        && (!h->member || dbus_message_set_member(message, h->member))
        && (!h->destination || dbus_message_set_destination(message, h->destination))
        && (!h->error_name || dbus_message_set_error_name(message, h->error_name))
        && (!h->reply_serial || dbus_message_set_reply_serial(message, h->reply_serial)))
        return (cbz_message *)message;
    dbus_message_unref(message);
    return NULL;
}

void cbz_message_free(cbz_message *message) { dbus_message_unref(raw(message)); }

cbz_header cbz_message_header(cbz_message *message) {
    DBusMessage *m = raw(message);
    return (cbz_header){
        .kind = dbus_message_get_type(m),
        .no_reply = dbus_message_get_no_reply(m),
        .serial = dbus_message_get_serial(m),
        .reply_serial = dbus_message_get_reply_serial(m),
        .path = dbus_message_get_path(m),
        .interface = dbus_message_get_interface(m),
        .member = dbus_message_get_member(m),
        .sender = dbus_message_get_sender(m),
        .destination = dbus_message_get_destination(m),
        .error_name = dbus_message_get_error_name(m),
    };
}

bool cbz_read_begin(cbz_message *message, cbz_iter *iter) {
    return dbus_message_iter_init(raw(message), of(iter));
}

int cbz_read_type(cbz_iter *iter) { return dbus_message_iter_get_arg_type(of(iter)); }
int cbz_read_element_type(cbz_iter *iter) { return dbus_message_iter_get_element_type(of(iter)); }
bool cbz_read_next(cbz_iter *iter) { return dbus_message_iter_next(of(iter)); }

void cbz_read_enter(cbz_iter *iter, cbz_iter *inside) {
    dbus_message_iter_recurse(of(iter), of(inside));
}

uint64_t cbz_read_fixed(cbz_iter *iter) {
    DBusBasicValue value = {.u64 = 0};
    int type = dbus_message_iter_get_arg_type(of(iter));
    // Reading a descriptor would duplicate it, and nobody would close the copy.
    if (!dbus_type_is_fixed(type) || type == DBUS_TYPE_UNIX_FD) return 0;
    dbus_message_iter_get_basic(of(iter), &value);
    switch (type) {
    case DBUS_TYPE_BYTE: return value.byt;
    case DBUS_TYPE_INT16: case DBUS_TYPE_UINT16: return value.u16;
    case DBUS_TYPE_BOOLEAN: case DBUS_TYPE_INT32: case DBUS_TYPE_UINT32: return value.u32;
    default: return value.u64;
    }
}

const char *cbz_read_string(cbz_iter *iter) {
    const char *text = "";
    int type = dbus_message_iter_get_arg_type(of(iter));
    if (type == DBUS_TYPE_STRING || type == DBUS_TYPE_OBJECT_PATH || type == DBUS_TYPE_SIGNATURE)
        dbus_message_iter_get_basic(of(iter), &text);
    return text;
}

size_t cbz_read_bytes(cbz_iter *inside, const uint8_t **bytes) {
    int count = 0;
    *bytes = NULL;
    dbus_message_iter_get_fixed_array(of(inside), bytes, &count);
    return count > 0 && *bytes ? (size_t)count : 0;
}

size_t cbz_read_signature(cbz_iter *iter, char *buffer, size_t size) {
    char *signature = dbus_message_iter_get_signature(of(iter));
    size_t length = signature ? strlen(signature) : 0;
    if (length + 1 > size) length = 0;
    if (length) memcpy(buffer, signature, length);
    buffer[length] = 0;
    dbus_free(signature);
    return length;
}

void cbz_write_begin(cbz_message *message, cbz_iter *iter) {
    dbus_message_iter_init_append(raw(message), of(iter));
}

bool cbz_write_fixed(cbz_iter *iter, int type, uint64_t bits) {
    DBusBasicValue value = {.u64 = bits};
    switch (type) {
    case DBUS_TYPE_BYTE: value.byt = (unsigned char)bits; break;
    case DBUS_TYPE_INT16: case DBUS_TYPE_UINT16: value.u16 = (dbus_uint16_t)bits; break;
    case DBUS_TYPE_BOOLEAN: value.u32 = bits != 0; break;
    case DBUS_TYPE_INT32: case DBUS_TYPE_UINT32: value.u32 = (dbus_uint32_t)bits; break;
    default: break;
    }
    return dbus_message_iter_append_basic(of(iter), type, &value);
}

bool cbz_write_string(cbz_iter *iter, int type, const char *text) {
    bool valid = type == DBUS_TYPE_OBJECT_PATH ? dbus_validate_path(text, NULL)
        : type == DBUS_TYPE_SIGNATURE          ? dbus_signature_validate(text, NULL)
                                               : dbus_validate_utf8(text, NULL);
    return valid && dbus_message_iter_append_basic(of(iter), type, &text);
}

bool cbz_write_bytes(cbz_iter *iter, const uint8_t *bytes, size_t count) {
    return count <= DBUS_MAXIMUM_ARRAY_LENGTH
        && dbus_message_iter_append_fixed_array(of(iter), DBUS_TYPE_BYTE, &bytes, (int)count);
}

bool cbz_write_open(cbz_iter *iter, int type, const char *signature, cbz_iter *inside) {
    return dbus_message_iter_open_container(of(iter), type, signature, of(inside));
}

bool cbz_write_close(cbz_iter *iter, cbz_iter *inside) {
    return dbus_message_iter_close_container(of(iter), of(inside));
}

bool cbz_is_signature(const char *text, bool single) {
    return single ? dbus_signature_validate_single(text, NULL)
                  : dbus_signature_validate(text, NULL);
}
