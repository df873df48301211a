#ifndef CNATS_H
#define CNATS_H

#include <nats/nats.h>
#include <stdbool.h>
#include <stdint.h>

// What we use of libnats, which is loaded with the first connection. Most gateways have none.

// Loads libnats; whether that succeeded. If not, standard error says why. Once in a process, before all that follows.
bool cnats_load(void);

// The last error's words on this thread; NULL if there are none.
const char *cnats_last_error(void);

natsStatus cnats_options_create(natsOptions **options);
void cnats_options_destroy(natsOptions *options);
natsStatus cnats_options_set_server(natsOptions *options, const char *server);
natsStatus cnats_options_set_name(natsOptions *options, const char *name);
natsStatus cnats_options_set_nkey(
    natsOptions *options, const char *public_key, natsSignatureHandler sign, void *context);
// TLS with a certificate for `host`. `authorities` is a PEM file of more of them beside the system's, or NULL.
natsStatus cnats_options_set_tls(natsOptions *options, const char *host, const char *authorities);
natsStatus cnats_options_set_client_certificate(
    natsOptions *options, const char *certificate, const char *key);
// One attempt; what ends is not opened again by the library. A write that takes longer than `write_ms` ends the
// connection: without that limit, a server that reads nothing holds up every call that needs the connection.
natsStatus cnats_options_set_patience(
    natsOptions *options, int64_t connect_ms, int64_t write_ms, int64_t ping_ms, int pings_out_max);
natsStatus cnats_options_set_handlers(
    natsOptions *options, natsConnectionHandler closed, natsErrHandler failed, void *context);

// Connects to a server at this port, one call after the other. A connection that does not stand after `limit_ms` is cut
// off, with NATS_TIMEOUT: Debian 12's libnats waits without end for a server that is silent in the TLS handshake (nats.c
// #906), and spins and uses more and more memory where the answer to its first ping does not come (nats.c #707).
natsStatus cnats_connect(natsConnection **connection, natsOptions *options, uint16_t port, int64_t limit_ms);
void cnats_close(natsConnection *connection);
bool cnats_is_connected(natsConnection *connection);
natsStatus cnats_flush(natsConnection *connection, int64_t milliseconds);
// Whether the server's last complaint was that it does not permit something.
bool cnats_is_forbidden(natsConnection *connection);

// `reply` may be NULL. The library copies the bytes.
natsStatus cnats_publish(natsConnection *connection, const char *subject, const char *reply, const void *bytes, int count);
// `queue` may be NULL.
natsStatus cnats_subscribe(
    natsSubscription **subscription, natsConnection *connection, const char *subject, const char *queue,
    natsMsgHandler handler, void *context);
void cnats_unsubscribe(natsSubscription *subscription);

const char *cnats_subject(natsMsg *message);
const char *cnats_reply(natsMsg *message);
const void *cnats_bytes(natsMsg *message, int *count);
bool cnats_is_no_responders(natsMsg *message);
void cnats_message_destroy(natsMsg *message);

#endif
