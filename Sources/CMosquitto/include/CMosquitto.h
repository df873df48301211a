// What the gateway uses of libmosquitto, which is loaded when it is first needed. Each function here is one of its own
// with the same arguments, but where it says otherwise.
#ifndef CMOSQUITTO_H
#define CMOSQUITTO_H

#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <stdbool.h>

// Loads libmosquitto and prepares it, at the first call; whether that succeeded. If not, standard error says why, and
// nothing that follows may be called.
bool cmosquitto_load(void);

struct mosquitto *cmosquitto_new(const char *id, bool clean_session, void *context);
void cmosquitto_destroy(struct mosquitto *client);
void cmosquitto_user_data_set(struct mosquitto *client, void *context);
int cmosquitto_int_option(struct mosquitto *client, enum mosq_opt_t option, int value);
int cmosquitto_void_option(struct mosquitto *client, enum mosq_opt_t option, void *value);
int cmosquitto_username_pw_set(struct mosquitto *client, const char *user, const char *password);
int cmosquitto_will_set(
    struct mosquitto *client, const char *topic, int count, const void *payload, int qos, bool retain);

// To the host's first address, with `is_ipv4` to its first one of IPv4: the library tries no other.
int cmosquitto_connect_async(
    struct mosquitto *client, const char *host, int port, int keep_alive, bool is_ipv4);
// With MQTT 5's "maximum packet size" as its one property.
int cmosquitto_connect_with_packet_max(
    struct mosquitto *client, const char *host, int port, int keep_alive, bool is_ipv4, uint32_t packet_bytes_max);
int cmosquitto_disconnect(struct mosquitto *client);
// As mosquitto_loop, but with poll: that one selects, and fails where the socket's number is 1024 or more. It
// returns ECONNREFUSED for a port that refuses TLS, where that one spins.
int cmosquitto_loop(struct mosquitto *client, int timeout_ms, int packets_max);
int cmosquitto_subscribe(struct mosquitto *client, int *id, const char *filter, int qos);
int cmosquitto_publish(
    struct mosquitto *client, int *id, const char *topic, int count, const void *payload, int qos, bool retain);

typedef void (*cmosquitto_code_callback)(
    struct mosquitto *client, void *context, int code, const mosquitto_property *properties);
typedef void (*cmosquitto_two_codes_callback)(
    struct mosquitto *client, void *context, int first, int second, const mosquitto_property *properties);
typedef void (*cmosquitto_message_callback)(
    struct mosquitto *client, void *context, const struct mosquitto_message *message,
    const mosquitto_property *properties);
typedef void (*cmosquitto_codes_callback)(
    struct mosquitto *client, void *context, int id, int count, const int *codes,
    const mosquitto_property *properties);
void cmosquitto_on_connect(struct mosquitto *client, cmosquitto_two_codes_callback callback);
void cmosquitto_on_publish(struct mosquitto *client, cmosquitto_two_codes_callback callback);
void cmosquitto_on_subscribe(struct mosquitto *client, cmosquitto_codes_callback callback);
void cmosquitto_on_message(struct mosquitto *client, cmosquitto_message_callback callback);
void cmosquitto_on_disconnect(struct mosquitto *client, cmosquitto_code_callback callback);

#endif
