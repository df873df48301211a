#include "CMosquitto.h"

#include <CLoad.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#define FUNCTIONS(X) \
    X(mosquitto_lib_init) X(mosquitto_new) X(mosquitto_destroy) X(mosquitto_user_data_set) \
    X(mosquitto_int_option) X(mosquitto_void_option) X(mosquitto_username_pw_set) X(mosquitto_will_set) \
    X(mosquitto_connect_bind_async) X(mosquitto_connect_bind_v5) X(mosquitto_property_add_int32) \
    X(mosquitto_property_free_all) X(mosquitto_disconnect) X(mosquitto_socket) X(mosquitto_ssl_get) \
    X(mosquitto_want_write) \
    X(mosquitto_loop_read) X(mosquitto_loop_write) X(mosquitto_loop_misc) X(mosquitto_subscribe) \
    X(mosquitto_publish) X(mosquitto_connect_v5_callback_set) X(mosquitto_publish_v5_callback_set) \
    X(mosquitto_subscribe_v5_callback_set) X(mosquitto_message_v5_callback_set) \
    X(mosquitto_disconnect_v5_callback_set)

#define CLOAD_LIBRARY lib
static struct { FUNCTIONS(CLOAD_POINTER) } lib;
static const cload_function functions[] = {FUNCTIONS(CLOAD_ENTRY)};
static bool is_ready;

static void load(void) {
    // A broker that goes away while it is written to is a fault, not the end of the process.
    signal(SIGPIPE, SIG_IGN);
    is_ready = cload("libmosquitto.so.1", "libmosquitto1", functions, CLOAD_COUNT(functions))
        && lib.mosquitto_lib_init() == MOSQ_ERR_SUCCESS;
}

bool cmosquitto_load(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_ready;
}

struct mosquitto *cmosquitto_new(const char *id, bool clean_session, void *context) {
    return lib.mosquitto_new(id, clean_session, context);
}

void cmosquitto_destroy(struct mosquitto *client) { lib.mosquitto_destroy(client); }

void cmosquitto_user_data_set(struct mosquitto *client, void *context) {
    lib.mosquitto_user_data_set(client, context);
}

int cmosquitto_int_option(struct mosquitto *client, enum mosq_opt_t option, int value) {
    return lib.mosquitto_int_option(client, option, value);
}

int cmosquitto_void_option(struct mosquitto *client, enum mosq_opt_t option, void *value) {
    return lib.mosquitto_void_option(client, option, value);
}

int cmosquitto_username_pw_set(struct mosquitto *client, const char *user, const char *password) {
    return lib.mosquitto_username_pw_set(client, user, password);
}

int cmosquitto_will_set(
    struct mosquitto *client, const char *topic, int count, const void *payload, int qos, bool retain) {
    return lib.mosquitto_will_set(client, topic, count, payload, qos, retain);
}

// From this address the library connects to none of IPv6.
static const char *origin(bool is_ipv4) { return is_ipv4 ? "0.0.0.0" : NULL; }

int cmosquitto_connect_async(
    struct mosquitto *client, const char *host, int port, int keep_alive, bool is_ipv4) {
    return lib.mosquitto_connect_bind_async(client, host, port, keep_alive, origin(is_ipv4));
}

int cmosquitto_connect_with_packet_max(
    struct mosquitto *client, const char *host, int port, int keep_alive, bool is_ipv4, uint32_t packet_bytes_max) {
    mosquitto_property *properties = NULL;
    int code = lib.mosquitto_property_add_int32(
        &properties, MQTT_PROP_MAXIMUM_PACKET_SIZE, packet_bytes_max);
    if (code == MOSQ_ERR_SUCCESS) {
        code = lib.mosquitto_connect_bind_v5(client, host, port, keep_alive, origin(is_ipv4), properties);
    }
    lib.mosquitto_property_free_all(&properties);
    return code;
}

int cmosquitto_disconnect(struct mosquitto *client) { return lib.mosquitto_disconnect(client); }

// One step of the TLS handshake, begun before the TCP connection stands. The library's own mosquitto_loop takes it on
// when the socket can be written; its mosquitto_loop_write does not, mosquitto_loop_read does.
static int take_handshake_step(struct mosquitto *client, const SSL *ssl, const struct pollfd *wait, int packets_max) {
    int number = 0;
    socklen_t size = sizeof number;
    // The library takes these for success, and tries again at once.
    if (wait->revents & POLLERR && getsockopt(wait->fd, SOL_SOCKET, SO_ERROR, &number, &size) == 0 && number) {
        errno = number;
        return MOSQ_ERR_ERRNO;
    }
    int code = lib.mosquitto_loop_read(client, packets_max);
    if (code != MOSQ_ERR_SUCCESS || lib.mosquitto_socket(client) < 0) return code;
    if (wait->revents & POLLHUP && SSL_in_init(ssl)) {
        errno = ECONNREFUSED;
        return MOSQ_ERR_ERRNO;
    }
    return MOSQ_ERR_SUCCESS;
}

int cmosquitto_loop(struct mosquitto *client, int timeout_ms, int packets_max) {
    struct pollfd wait = {.fd = lib.mosquitto_socket(client), .events = POLLIN};
    if (wait.fd < 0) return MOSQ_ERR_NO_CONN;
    const SSL *ssl = lib.mosquitto_ssl_get(client);
    bool is_in_handshake = ssl && SSL_in_init(ssl);
    // During the handshake the library always says that it wants to write.
    if (is_in_handshake ? (SSL_want(ssl) == SSL_WRITING) : lib.mosquitto_want_write(client)) wait.events |= POLLOUT;
    int count = poll(&wait, 1, timeout_ms);
    if (count < 0 && errno != EINTR) return MOSQ_ERR_ERRNO;
    if (count > 0 && is_in_handshake) {
        int code = take_handshake_step(client, ssl, &wait, packets_max);
        if (code != MOSQ_ERR_SUCCESS || lib.mosquitto_socket(client) < 0) return code;
        return lib.mosquitto_loop_misc(client);
    }
    // Whoever reads or writes finds out about an error or a hang-up.
    if (count > 0 && wait.revents & ~POLLOUT) {
        int code = lib.mosquitto_loop_read(client, packets_max);
        if (code != MOSQ_ERR_SUCCESS || lib.mosquitto_socket(client) < 0) return code;
    }
    if (count > 0 && wait.revents & POLLOUT) {
        int code = lib.mosquitto_loop_write(client, packets_max);
        if (code != MOSQ_ERR_SUCCESS) return code;
    }
    return lib.mosquitto_loop_misc(client);
}

int cmosquitto_subscribe(struct mosquitto *client, int *id, const char *filter, int qos) {
    return lib.mosquitto_subscribe(client, id, filter, qos);
}

int cmosquitto_publish(
    struct mosquitto *client, int *id, const char *topic, int count, const void *payload, int qos, bool retain) {
    return lib.mosquitto_publish(client, id, topic, count, payload, qos, retain);
}

void cmosquitto_on_connect(struct mosquitto *client, cmosquitto_two_codes_callback callback) {
    lib.mosquitto_connect_v5_callback_set(client, callback);
}

void cmosquitto_on_publish(struct mosquitto *client, cmosquitto_two_codes_callback callback) {
    lib.mosquitto_publish_v5_callback_set(client, callback);
}

void cmosquitto_on_subscribe(struct mosquitto *client, cmosquitto_codes_callback callback) {
    lib.mosquitto_subscribe_v5_callback_set(client, callback);
}

void cmosquitto_on_message(struct mosquitto *client, cmosquitto_message_callback callback) {
    lib.mosquitto_message_v5_callback_set(client, callback);
}

void cmosquitto_on_disconnect(struct mosquitto *client, cmosquitto_code_callback callback) {
    lib.mosquitto_disconnect_v5_callback_set(client, callback);
}
