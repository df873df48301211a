#include "CNATS.h"

#include <dlfcn.h>
#include <stdio.h>

// Debian names the library by its minor version: 3.4 in Debian 12. What is used here has not changed since 3.4.
enum { oldest_minor = 4, newest_minor = 40 };

static struct {
    __typeof__(&nats_GetLastError) last_error;
    __typeof__(&natsStatus_GetText) status_text;
    __typeof__(&natsOptions_Create) options_create;
    __typeof__(&natsOptions_Destroy) options_destroy;
    __typeof__(&natsOptions_SetServers) set_servers;
    __typeof__(&natsOptions_SetName) set_name;
    __typeof__(&natsOptions_SetNKey) set_nkey;
    __typeof__(&natsOptions_SetSecure) set_secure;
    __typeof__(&natsOptions_LoadCATrustedCertificates) load_authorities;
    __typeof__(&natsOptions_SetExpectedHostname) set_host;
    __typeof__(&natsOptions_LoadCertificatesChain) load_certificate;
    __typeof__(&natsOptions_SetTimeout) set_timeout;
    __typeof__(&natsOptions_SetPingInterval) set_ping_interval;
    __typeof__(&natsOptions_SetMaxPingsOut) set_pings_out;
    __typeof__(&natsOptions_SetAllowReconnect) set_reconnect;
    __typeof__(&natsOptions_SetIgnoreDiscoveredServers) set_ignore_discovered;
    __typeof__(&natsOptions_SetClosedCB) set_closed;
    __typeof__(&natsOptions_SetErrorHandler) set_failed;
    __typeof__(&natsConnection_Connect) connect;
    __typeof__(&natsConnection_Destroy) destroy;
    __typeof__(&natsConnection_Status) status;
    __typeof__(&natsConnection_FlushTimeout) flush;
    __typeof__(&natsConnection_GetLastError) complaint;
    __typeof__(&natsConnection_Publish) publish;
    __typeof__(&natsConnection_PublishRequest) publish_request;
    __typeof__(&natsConnection_Subscribe) subscribe;
    __typeof__(&natsConnection_QueueSubscribe) queue_subscribe;
    __typeof__(&natsSubscription_Destroy) subscription_destroy;
    __typeof__(&natsMsg_GetSubject) subject;
    __typeof__(&natsMsg_GetReply) reply;
    __typeof__(&natsMsg_GetData) data;
    __typeof__(&natsMsg_GetDataLength) data_length;
    __typeof__(&natsMsg_IsNoResponders) is_no_responders;
    __typeof__(&natsMsg_Destroy) message_destroy;
} nats;

static void *open_library(void) {
    for (int minor = newest_minor; minor >= oldest_minor; minor--) {
        char name[32];
        snprintf(name, sizeof name, "libnats.so.3.%d", minor);
        // Never closed: the library has threads for as long as the process runs.
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (library) {
            return library;
        }
    }
    return NULL;
}

bool cnats_load(void) {
    void *library = open_library();
    if (!library) {
        fputs("edge-gateway: libnats cannot be loaded: install libnats3.4, or the libnats of this Debian\n", stderr);
        return false;
    }
    const struct { const char *name; void *place; } functions[] = {
        {"nats_GetLastError", &nats.last_error},
        {"natsStatus_GetText", &nats.status_text},
        {"natsOptions_Create", &nats.options_create},
        {"natsOptions_Destroy", &nats.options_destroy},
        {"natsOptions_SetServers", &nats.set_servers},
        {"natsOptions_SetName", &nats.set_name},
        {"natsOptions_SetNKey", &nats.set_nkey},
        {"natsOptions_SetSecure", &nats.set_secure},
        {"natsOptions_LoadCATrustedCertificates", &nats.load_authorities},
        {"natsOptions_SetExpectedHostname", &nats.set_host},
        {"natsOptions_LoadCertificatesChain", &nats.load_certificate},
        {"natsOptions_SetTimeout", &nats.set_timeout},
        {"natsOptions_SetPingInterval", &nats.set_ping_interval},
        {"natsOptions_SetMaxPingsOut", &nats.set_pings_out},
        {"natsOptions_SetAllowReconnect", &nats.set_reconnect},
        {"natsOptions_SetIgnoreDiscoveredServers", &nats.set_ignore_discovered},
        {"natsOptions_SetClosedCB", &nats.set_closed},
        {"natsOptions_SetErrorHandler", &nats.set_failed},
        {"natsConnection_Connect", &nats.connect},
        {"natsConnection_Destroy", &nats.destroy},
        {"natsConnection_Status", &nats.status},
        {"natsConnection_FlushTimeout", &nats.flush},
        {"natsConnection_GetLastError", &nats.complaint},
        {"natsConnection_Publish", &nats.publish},
        {"natsConnection_PublishRequest", &nats.publish_request},
        {"natsConnection_Subscribe", &nats.subscribe},
        {"natsConnection_QueueSubscribe", &nats.queue_subscribe},
        {"natsSubscription_Destroy", &nats.subscription_destroy},
        {"natsMsg_GetSubject", &nats.subject},
        {"natsMsg_GetReply", &nats.reply},
        {"natsMsg_GetData", &nats.data},
        {"natsMsg_GetDataLength", &nats.data_length},
        {"natsMsg_IsNoResponders", &nats.is_no_responders},
        {"natsMsg_Destroy", &nats.message_destroy},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        // POSIX: a symbol's address fits a pointer to a function.
        void *symbol = dlsym(library, functions[i].name);
        *(void **)functions[i].place = symbol;
        if (!symbol) {
            fprintf(stderr, "edge-gateway: libnats has no %s\n", functions[i].name);
            return false;
        }
    }
    return true;
}

const char *cnats_last_error(void) {
    natsStatus status = NATS_OK;
    return nats.last_error(&status);
}

const char *cnats_status_text(natsStatus status) { return nats.status_text(status); }

natsStatus cnats_options_create(natsOptions **options) { return nats.options_create(options); }
void cnats_options_destroy(natsOptions *options) { nats.options_destroy(options); }

natsStatus cnats_options_set_server(natsOptions *options, const char *server) {
    natsStatus status = nats.set_servers(options, &server, 1);
    // What servers say of one another are addresses, not the names in their certificates.
    return status == NATS_OK ? nats.set_ignore_discovered(options, true) : status;
}

natsStatus cnats_options_set_name(natsOptions *options, const char *name) { return nats.set_name(options, name); }

natsStatus cnats_options_set_nkey(
    natsOptions *options, const char *public_key, natsSignatureHandler sign, void *context) {
    return nats.set_nkey(options, public_key, sign, context);
}

natsStatus cnats_options_set_tls(natsOptions *options, const char *host, const char *authorities) {
    natsStatus status = nats.set_secure(options, true);
    // Debian's library compares the name by itself; it can be built so that it does not.
    if (status == NATS_OK) {
        status = nats.set_host(options, host);
    }
    return status == NATS_OK && authorities ? nats.load_authorities(options, authorities) : status;
}

natsStatus cnats_options_set_client_certificate(
    natsOptions *options, const char *certificate, const char *key) {
    return nats.load_certificate(options, certificate, key);
}

natsStatus cnats_options_set_patience(
    natsOptions *options, int64_t connect_ms, int64_t ping_ms, int pings_out_max) {
    natsStatus status = nats.set_timeout(options, connect_ms);
    if (status == NATS_OK) {
        status = nats.set_ping_interval(options, ping_ms);
    }
    if (status == NATS_OK) {
        status = nats.set_pings_out(options, pings_out_max);
    }
    return status == NATS_OK ? nats.set_reconnect(options, false) : status;
}

natsStatus cnats_options_set_handlers(
    natsOptions *options, natsConnectionHandler closed, natsErrHandler failed, void *context) {
    natsStatus status = nats.set_closed(options, closed, context);
    return status == NATS_OK ? nats.set_failed(options, failed, context) : status;
}

natsStatus cnats_connect(natsConnection **connection, natsOptions *options) {
    return nats.connect(connection, options);
}

void cnats_close(natsConnection *connection) { nats.destroy(connection); }

bool cnats_is_connected(natsConnection *connection) {
    return nats.status(connection) == NATS_CONN_STATUS_CONNECTED;
}

natsStatus cnats_flush(natsConnection *connection, int64_t milliseconds) {
    return nats.flush(connection, milliseconds);
}

const char *cnats_complaint(natsConnection *connection) {
    const char *text = NULL;
    nats.complaint(connection, &text);
    return text;
}

natsStatus cnats_publish(
    natsConnection *connection, const char *subject, const char *reply, const void *bytes, int count) {
    return reply ? nats.publish_request(connection, subject, reply, bytes, count)
                 : nats.publish(connection, subject, bytes, count);
}

natsStatus cnats_subscribe(
    natsSubscription **subscription, natsConnection *connection, const char *subject, const char *queue,
    natsMsgHandler handler, void *context) {
    return queue ? nats.queue_subscribe(subscription, connection, subject, queue, handler, context)
                 : nats.subscribe(subscription, connection, subject, handler, context);
}

void cnats_unsubscribe(natsSubscription *subscription) { nats.subscription_destroy(subscription); }

const char *cnats_subject(natsMsg *message) { return nats.subject(message); }
const char *cnats_reply(natsMsg *message) { return nats.reply(message); }

const void *cnats_bytes(natsMsg *message, int *count) {
    *count = nats.data_length(message);
    return nats.data(message);
}

bool cnats_is_no_responders(natsMsg *message) { return nats.is_no_responders(message); }
void cnats_message_destroy(natsMsg *message) { nats.message_destroy(message); }
