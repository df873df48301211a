// What the gateway uses of libmosquitto, and of libssl what it takes to say why a broker's certificate is refused:
// libmosquitto itself says no more than that TLS failed. Both are loaded when they are first needed. Each function
// here is one of theirs with the same arguments, but where it says otherwise.
#ifndef CMOSQUITTO_H
#define CMOSQUITTO_H

#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
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

// Loads libssl and libcrypto as cmosquitto_load does libmosquitto.
bool cssl_load(void);

// Settings of a client that speaks TLS 1.2 or newer; NULL if they cannot be made.
SSL_CTX *cssl_client_new(void);
void cssl_free(SSL_CTX *context);
int cssl_load_verify_file(SSL_CTX *context, const char *file);
int cssl_set_default_verify_paths(SSL_CTX *context);
int cssl_use_certificate_chain_file(SSL_CTX *context, const char *file);
int cssl_use_private_key_file(SSL_CTX *context, const char *file);
// Whether the certificate must name this host or address from now on.
bool cssl_expect(SSL_CTX *context, const char *host);
typedef int (*cssl_verify_callback)(X509_STORE_CTX *store, void *context);
// Asks for the server's certificate, which the callback judges.
void cssl_verify_by(SSL_CTX *context, cssl_verify_callback callback, void *callback_context);
int cssl_verify(X509_STORE_CTX *store);
int cssl_verification_error(X509_STORE_CTX *store);
// Whether the handshake is not complete yet, and whether it waits until the socket can be written to.
bool cssl_is_in_handshake(const SSL *ssl);
bool cssl_wants_to_write(const SSL *ssl);

#endif
