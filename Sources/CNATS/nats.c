#include "CNATS.h"

#include <CLoad.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define FUNCTIONS(X) \
    X(nats_GetLastError) X(natsOptions_Create) X(natsOptions_Destroy) \
    X(natsOptions_SetServers) X(natsOptions_SetName) X(natsOptions_SetNKey) X(natsOptions_SetSecure) \
    X(natsOptions_LoadCATrustedCertificates) X(natsOptions_SetExpectedHostname) X(natsOptions_LoadCertificatesChain) \
    X(natsOptions_SetTimeout) X(natsOptions_SetWriteDeadline) X(natsOptions_SetPingInterval) X(natsOptions_SetMaxPingsOut) \
    X(natsOptions_SetAllowReconnect) X(natsOptions_SetIgnoreDiscoveredServers) X(natsOptions_SetClosedCB) \
    X(natsOptions_SetErrorHandler) X(natsConnection_Connect) X(natsConnection_Destroy) X(natsConnection_Status) \
    X(natsConnection_FlushTimeout) X(natsConnection_GetLastError) X(natsConnection_Publish) \
    X(natsConnection_PublishRequest) X(natsConnection_Subscribe) X(natsConnection_QueueSubscribe) \
    X(natsSubscription_Destroy) X(natsMsg_GetSubject) X(natsMsg_GetReply) X(natsMsg_GetData) \
    X(natsMsg_GetDataLength) X(natsMsg_IsNoResponders) X(natsMsg_Destroy)

#define CLOAD_LIBRARY lib
static struct { FUNCTIONS(CLOAD_POINTER) } lib;
static const cload_function functions[] = {FUNCTIONS(CLOAD_ENTRY)};
static bool is_ready;

// Debian names the library by its minor version: 3.4 in Debian 12. What is used here has not changed since 3.4.
enum { oldest_minor = 4, newest_minor = 40 };

static void load(void) {
    // A server that goes away while it is written to is a fault, not the end of the process.
    signal(SIGPIPE, SIG_IGN);
    char name[32];
    int minor = newest_minor + 1;
    do {
        snprintf(name, sizeof name, "libnats.so.3.%d", --minor);
    } while (minor > oldest_minor && !dlopen(name, RTLD_NOW | RTLD_LOCAL));
    is_ready = cload(name, "libnats3.4, or the libnats of this Debian", functions, CLOAD_COUNT(functions));
}

bool cnats_load(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_ready;
}

const char *cnats_last_error(void) {
    natsStatus status = NATS_OK;
    return lib.nats_GetLastError(&status);
}

natsStatus cnats_options_create(natsOptions **options) { return lib.natsOptions_Create(options); }
void cnats_options_destroy(natsOptions *options) { lib.natsOptions_Destroy(options); }

natsStatus cnats_options_set_server(natsOptions *options, const char *server) {
    natsStatus status = lib.natsOptions_SetServers(options, &server, 1);
    // What servers say of one another are addresses, not the names in their certificates.
    return status == NATS_OK ? lib.natsOptions_SetIgnoreDiscoveredServers(options, true) : status;
}

natsStatus cnats_options_set_name(natsOptions *options, const char *name) { return lib.natsOptions_SetName(options, name); }

natsStatus cnats_options_set_nkey(
    natsOptions *options, const char *public_key, natsSignatureHandler sign, void *context) {
    return lib.natsOptions_SetNKey(options, public_key, sign, context);
}

natsStatus cnats_options_set_tls(natsOptions *options, const char *host, const char *authorities) {
    natsStatus status = lib.natsOptions_SetSecure(options, true);
    // Debian's library compares the name by itself; it can be built so that it does not.
    if (status == NATS_OK) {
        status = lib.natsOptions_SetExpectedHostname(options, host);
    }
    return status == NATS_OK && authorities ? lib.natsOptions_LoadCATrustedCertificates(options, authorities) : status;
}

natsStatus cnats_options_set_client_certificate(
    natsOptions *options, const char *certificate, const char *key) {
    return lib.natsOptions_LoadCertificatesChain(options, certificate, key);
}

natsStatus cnats_options_set_patience(
    natsOptions *options, int64_t connect_ms, int64_t write_ms, int64_t ping_ms, int pings_out_max) {
    natsStatus status = lib.natsOptions_SetTimeout(options, connect_ms);
    if (status == NATS_OK) {
        status = lib.natsOptions_SetWriteDeadline(options, write_ms);
    }
    if (status == NATS_OK) {
        status = lib.natsOptions_SetPingInterval(options, ping_ms);
    }
    if (status == NATS_OK) {
        status = lib.natsOptions_SetMaxPingsOut(options, pings_out_max);
    }
    return status == NATS_OK ? lib.natsOptions_SetAllowReconnect(options, false) : status;
}

natsStatus cnats_options_set_handlers(
    natsOptions *options, natsConnectionHandler closed, natsErrHandler failed, void *context) {
    natsStatus status = lib.natsOptions_SetClosedCB(options, closed, context);
    return status == NATS_OK ? lib.natsOptions_SetErrorHandler(options, failed, context) : status;
}

// A call that is watched, and the sockets that there were before it.
struct watch {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_over, was_late;
    int64_t limit_ms;
    uint16_t port;
    uint64_t *known;
    size_t known_count;
};

// What is cut off may begin anew with the host's next address.
enum { look_again_ms = 100 };

static bool is_connected_to(int descriptor, uint16_t port) {
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (getpeername(descriptor, (struct sockaddr *)&peer, &size) != 0) return false;
    // In both the port has the same place.
    bool has_port = peer.ss_family == AF_INET || peer.ss_family == AF_INET6;
    return has_port && ntohs(((struct sockaddr_in *)&peer)->sin_port) == port;
}

// 0 for what is no socket that is connected to the port.
static uint64_t cookie_of(int descriptor, uint16_t port) {
    uint64_t cookie;
    socklen_t size = sizeof cookie;
    bool has_one = is_connected_to(descriptor, port)
        && getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0;
    return has_one ? cookie : 0;
}

// Calls `each` with the sockets of this process that are connected to the port, and their cookies: no other socket ever
// has the same. It only asks: to close a descriptor of its own of a file, SQLite's for instance, would give up the
// process's locks on that.
static void each_socket(
    struct watch *watch, void (*each)(struct watch *watch, int descriptor, uint64_t cookie)) {
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        int descriptor = atoi(entry->d_name);
        uint64_t cookie = cookie_of(descriptor, watch->port);
        if (cookie) each(watch, descriptor, cookie);
    }
    closedir(folder);
}

static void note(struct watch *watch, int descriptor, uint64_t cookie) {
    (void)descriptor;
    uint64_t *known = realloc(watch->known, (watch->known_count + 1) * sizeof *known);
    if (!known) return;
    watch->known = known;
    known[watch->known_count++] = cookie;
}

static void cut_off(struct watch *watch, int descriptor, uint64_t cookie) {
    for (size_t index = 0; index < watch->known_count; index++) {
        if (watch->known[index] == cookie) return;
    }
    // Meanwhile the number may have become another one's.
    if (cookie_of(descriptor, watch->port) == cookie) shutdown(descriptor, SHUT_RDWR);
}

static void add(struct timespec *time, int64_t ms) {
    enum { ns_per_s = 1000000000 };
    time->tv_sec += ms / 1000;
    time->tv_nsec += ms % 1000 * 1000000;
    if (time->tv_nsec >= ns_per_s) {
        time->tv_sec += 1;
        time->tv_nsec -= ns_per_s;
    }
}

static void *watch(void *context) {
    struct watch *watch = context;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    add(&time, watch->limit_ms);
    pthread_mutex_lock(&watch->mutex);
    while (!watch->is_over) {
        if (pthread_cond_timedwait(&watch->changed, &watch->mutex, &time) == ETIMEDOUT && !watch->is_over) {
            watch->was_late = true;
            each_socket(watch, cut_off);
            add(&time, look_again_ms);
        }
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

natsStatus cnats_connect(natsConnection **connection, natsOptions *options, uint16_t port, int64_t limit_ms) {
    // One at a time: of two at once neither would know its own socket.
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    struct watch state = {.mutex = PTHREAD_MUTEX_INITIALIZER, .limit_ms = limit_ms, .port = port};
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&state.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    natsStatus status = NATS_NO_MEMORY;
    pthread_t watcher;
    pthread_mutex_lock(&turn);
    each_socket(&state, note);
    if (pthread_create(&watcher, NULL, watch, &state) == 0) {
        status = lib.natsConnection_Connect(connection, options);
        pthread_mutex_lock(&state.mutex);
        state.is_over = true;
        pthread_cond_signal(&state.changed);
        pthread_mutex_unlock(&state.mutex);
        pthread_join(watcher, NULL);
    }
    pthread_mutex_unlock(&turn);
    pthread_cond_destroy(&state.changed);
    free(state.known);
    return status != NATS_OK && state.was_late ? NATS_TIMEOUT : status;
}

void cnats_close(natsConnection *connection) { lib.natsConnection_Destroy(connection); }

bool cnats_is_connected(natsConnection *connection) {
    return lib.natsConnection_Status(connection) == NATS_CONN_STATUS_CONNECTED;
}

natsStatus cnats_flush(natsConnection *connection, int64_t milliseconds) {
    return lib.natsConnection_FlushTimeout(connection, milliseconds);
}

bool cnats_is_forbidden(natsConnection *connection) {
    const char *text;
    return lib.natsConnection_GetLastError(connection, &text) == NATS_NOT_PERMITTED;
}

natsStatus cnats_publish(
    natsConnection *connection, const char *subject, const char *reply, const void *bytes, int count) {
    return reply ? lib.natsConnection_PublishRequest(connection, subject, reply, bytes, count)
                 : lib.natsConnection_Publish(connection, subject, bytes, count);
}

natsStatus cnats_subscribe(
    natsSubscription **subscription, natsConnection *connection, const char *subject, const char *queue,
    natsMsgHandler handler, void *context) {
    return queue ? lib.natsConnection_QueueSubscribe(subscription, connection, subject, queue, handler, context)
                 : lib.natsConnection_Subscribe(subscription, connection, subject, handler, context);
}

void cnats_unsubscribe(natsSubscription *subscription) { lib.natsSubscription_Destroy(subscription); }

const char *cnats_subject(natsMsg *message) { return lib.natsMsg_GetSubject(message); }
const char *cnats_reply(natsMsg *message) { return lib.natsMsg_GetReply(message); }

const void *cnats_bytes(natsMsg *message, int *count) {
    *count = lib.natsMsg_GetDataLength(message);
    return lib.natsMsg_GetData(message);
}

bool cnats_is_no_responders(natsMsg *message) { return lib.natsMsg_IsNoResponders(message); }
void cnats_message_destroy(natsMsg *message) { lib.natsMsg_Destroy(message); }
